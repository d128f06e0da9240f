"""GIVEN a size WHEN a chart's script writes it THEN it is rounded as everywhere else."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from oomdoctor.model.units import GIB, KIB, MIB, TIB, format_bytes

SIZES = [
    *(0, 1, 511, 512, 1023, KIB, 1536, 1_048_524, MIB - 1, MIB, GIB - 512, GIB, 20 * TIB, -512, -3 * MIB),
    *(GIB * eighths // 8 for eighths in range(8, 40)),
    *(MIB * 1000 + KIB * step for step in range(0, 1024, 37)),
]


def test_the_charts_round_as_the_page_does(browser: Any) -> None:
    script = (files("oomdoctor.report") / "assets" / "charts" / "texts.js").read_text(encoding="utf-8")
    units = re.search(r"var UNITS = .*", script)
    functions = re.search(r"function hundredths.*?(?=\nfunction duration)", script, re.DOTALL)
    assert units is not None
    assert functions is not None
    page = browser.new_page()
    told = page.evaluate(f"sizes => {{ {units[0]}\n{functions[0]}\nreturn sizes.map(size); }}", SIZES)
    page.close()
    assert told == [format_bytes(size) for size in SIZES]
    assert "1.12 GiB" in told, "a half goes to the even neighbour"
