"""GIVEN a census under way WHEN its thread gets no computing time THEN its clock goes slower, and goes on."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path

import oomdoctor

FILE = Path(oomdoctor.__file__).parent / "probe" / "site" / "_oomdoctor_probe" / "census_clock.py"


def _now() -> Callable[[], float]:
    spec = importlib.util.spec_from_file_location("census_clock", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    now: Callable[[], float] = module.now
    return now


def test_waiting_counts_a_quarter() -> None:
    now = _now()
    before, real = now(), time.monotonic()
    time.sleep(0.4)
    passed, waited = now() - before, time.monotonic() - real
    assert 0.24 * waited <= passed <= 0.5 * waited


def test_computing_counts_in_full() -> None:
    now = _now()
    before, spent = now(), time.thread_time()
    while time.thread_time() - spent < 0.1:
        pass
    assert now() - before >= 0.099
