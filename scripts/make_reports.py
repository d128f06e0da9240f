"""Write reports/<sample>.html, .json and .md for every sample in sample_logs/ (`make reports`).

The time of making is fixed, so that a report changes only when what it says changes; a test compares them. Where
chromium is installed, the picture in the README is taken from one of them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from oomdoctor.diagnose import diagnose
from oomdoctor.report import render

ROOT = Path(__file__).parent.parent
MADE_SECONDS = 1_790_000_000.0
PICTURED = "run-kept-losses.html"
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


def take_picture(report: Path, picture: Path) -> bool:
    """The first screen of a report at 1280×800; False where there is no chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return False
    quiet = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                *(chromium, "--headless=new", "--no-sandbox", "--no-first-run", "--hide-scrollbars", *quiet),
                *(f"--user-data-dir={profile}", "--window-size=1280,800", "--blink-settings=preferredColorScheme=1"),
                *(f"--screenshot={picture}", report.resolve().as_uri()),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
    return True


def main() -> None:
    """Write them all; say which were written."""
    for sample in samples():
        for name, text in rendered(sample).items():
            (ROOT / "reports" / name).write_text(text, encoding="utf-8")
        print(f"{sample.relative_to(ROOT)} -> reports/{report_name(sample)}.html .json .md")
    taken = take_picture(ROOT / "reports" / PICTURED, ROOT / "docs" / "report.png")
    print("docs/report.png" if taken else "docs/report.png is left as it is: chromium is not installed")


if __name__ == "__main__":
    sys.exit(main())
