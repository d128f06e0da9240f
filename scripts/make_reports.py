"""Write reports/<sample>.html, .json and .md for every sample in sample_logs/ (`make reports`).

The time of making is fixed, so that a report changes only when what it says changes; a test compares them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from oomdoctor.diagnose import diagnose
from oomdoctor.report import render

ROOT = Path(__file__).parent.parent
MADE_SECONDS = 1_790_000_000.0
SUFFIXES = {"html": ".html", "json": ".json", "markdown": ".md"}


def samples() -> list[Path]:
    """The samples: every file or folder of sample_logs/ but its README."""
    return sorted(path for path in (ROOT / "sample_logs").iterdir() if path.name != "README.md")


def report_name(sample: Path) -> str:
    """The sample's name without its suffixes: `vllm-start.log.gz` → `vllm-start`."""
    return sample.name.split(".")[0]


def rendered(sample: Path) -> dict[str, str]:
    """File name → content of the sample's reports."""
    diagnosis = diagnose([sample.relative_to(ROOT)], now_seconds=MADE_SECONDS)
    return {report_name(sample) + suffix: render(diagnosis, form) for form, suffix in SUFFIXES.items()}


def main() -> None:
    """Write them all; say which were written."""
    for sample in samples():
        for name, text in rendered(sample).items():
            (ROOT / "reports" / name).write_text(text, encoding="utf-8")
        print(f"{sample.relative_to(ROOT)} -> reports/{report_name(sample)}.html .json .md")


if __name__ == "__main__":
    sys.exit(main())
