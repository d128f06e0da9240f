"""A browser for the reports: Debian's chromium, driven by playwright. Without either the tests here are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = os.environ.get("OOMDOCTOR_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
PICTURES = os.environ.get("OOMDOCTOR_PICTURES")
"""A folder for screenshots that a person can look through; none are taken without it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.path).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH (apt-get install chromium)")
    with sync_api.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


class Page:
    """A report opened in the browser, with all that it complained about and asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self._complain(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.absolute().as_uri())

    def _complain(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def picture(self, name: str, *, whole: bool = True) -> None:
        """For people to look at: the whole page, or what the window shows of it."""
        if PICTURES:
            Path(PICTURES).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=whole, timeout=120_000)

    def printed(self, name: str) -> bytes:
        """The PDF that a browser makes of it, kept beside the pictures."""
        paper: bytes = self.page.pdf(format="A4", prefer_css_page_size=True)
        if PICTURES:
            Path(PICTURES).mkdir(parents=True, exist_ok=True)
            (Path(PICTURES) / f"{name}.pdf").write_bytes(paper)
        return paper


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """Opens a report: `opened(path, viewport=…, java_script_enabled=…)`."""
    pages: list[Page] = []

    def open_page(path: Path, **options: Any) -> Page:
        pages.append(Page(browser, path, **options))
        return pages[-1]

    yield open_page
    for page in pages:
        page.context.close()
