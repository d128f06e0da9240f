"""The three reports that lie in an incident folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import InputRefused
from ..language import chosen

NAMES = {"html": "report.html", "json": "report.json", "markdown": "report.md"}


def write_reports(bundle: Path, forms: Sequence[str] = tuple(NAMES), rules: Sequence[Path] = ()) -> str:
    """Write the reports into the bundle and give the summary's words. Raises OSError where they cannot be written."""
    from ..diagnose import diagnose
    from ..report import render

    diagnosis = diagnose([bundle], rules=rules)
    for form in forms:
        (bundle / NAMES[form]).write_text(render(diagnosis, form), encoding="utf-8")
    return diagnosis.summary


def is_in_language(page: Path) -> bool:
    """Whether a page that was made before is in the language in use."""
    from ..report.html import LANGUAGE_TAGS

    with page.open("rb") as file:
        return f'lang="{LANGUAGE_TAGS[chosen()]}"'.encode() in file.read(200)


def checked_bundle(path: Path) -> Path:
    """The folder itself. Raises InputRefused for what is no incident folder."""
    from ..readers.bundle import is_bundle

    if not is_bundle(path):
        raise InputRefused(
            f"{path} is no incident folder of `oomdoctor run`; `oomdoctor analyze` reads logs and snapshots"
        )
    return path
