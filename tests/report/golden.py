"""Reports kept as files: what changes in a report shows in the diff of a change.

Update them with `OOMDOCTOR_UPDATE_GOLDEN=1 pytest tests/report` and read the diff before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

from oomdoctor import __version__

FOLDER = Path(__file__).parent.parent / "golden" / "report"


def same_as_golden(name: str, text: str) -> None:
    """Assert that the text is that of the golden file; the tool's version does not count."""
    path = FOLDER / name
    text = text.replace(f'"oomdoctor": "{__version__}"', '"oomdoctor": "VERSION"')
    text = text.replace(f"oomdoctor {__version__}", "oomdoctor VERSION")
    if os.environ.get("OOMDOCTOR_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; see tests/report/golden.py on how to update it"
