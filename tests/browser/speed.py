"""How fast the largest report opens and answers: for the test and for `make bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MEASURES = Path(__file__).with_name("measures.js").read_text(encoding="utf-8")
MOVES = 40
PAINT = "performance.getEntriesByType('paint').find(entry => entry.name === 'first-contentful-paint').startTime"


def first_paint_ms(browser: Any, path: Path, times: int = 2) -> float:
    """From the request to the first content on the screen; the least of several, each in a new window."""
    found = []
    for _ in range(times):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.goto(path.absolute().as_uri())
        found.append(float(page.evaluate(f"new Promise(done => requestAnimationFrame(() => done({PAINT})))")))
        context.close()
    return min(found)


def hover_ms(browser: Any, path: Path, selector: str, times: int = 2) -> float:
    """What a move of the pointer costs (script, style and layout), the 95th percentile; the least of several rounds."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(path.absolute().as_uri())
    page.evaluate(MEASURES)
    found = []
    for _ in range(times):
        costs = page.evaluate(f"measures.hover({selector!r}, {MOVES})")
        found.append(float(costs[MOVES * 19 // 20 - 1]))
    context.close()
    return min(found)
