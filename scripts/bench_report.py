"""How large the largest report is, how fast it is made, painted and answers the pointer (`make bench`).

    python scripts/bench_report.py [--rounds N]

Eight devices, a day of samples each half second and a snapshot of 100,000 events. Painting and hovering are measured in
chromium, through playwright; without either these two are left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from browser.speed import first_paint_ms, hover_ms
from report.large import large

from oomdoctor.report import render


def main() -> None:
    """Print the figures, one a line, each with its goal."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    diagnosis, seconds, page = large(), [], ""
    for _ in range(rounds):
        begin = time.process_time()
        page = render(diagnosis, "html")
        seconds.append(time.process_time() - begin)
    print(f"size            {len(page.encode()):>9,} bytes   (goal 1,000,000)")
    print(f"making it       {min(seconds):9.2f} s CPU")
    chromium = os.environ.get("OOMDOCTOR_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("painting and hovering are not measured: chromium or playwright is not installed")
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        path = Path(folder) / "report.html"
        path.write_text(page, encoding="utf-8")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        print(f"first paint     {first_paint_ms(browser, path, rounds):9.0f} ms      (goal 1,000)")
        for name, selector in (("run", ".live .u-over"), ("window", ".window .u-over")):
            print(
                f"hover, {name:<8} {hover_ms(browser, path, selector, rounds):9.1f} ms      (goal 16; 95th percentile)"
            )
        browser.close()


if __name__ == "__main__":
    main()
