"""Inputs changed at random do no harm: they are read or refused, in bounded time and memory; none becomes markup."""

from __future__ import annotations

import resource
import time

import pytest

from . import run
from .run import corpus_of, fuzz, try_one
from .targets import TARGETS, Target


@pytest.mark.parametrize("name", TARGETS)
def test_what_did_harm_once_does_none(name: str) -> None:
    wrong = [try_one(TARGETS[name], data) for data in (*corpus_of(name), b"", b"\x00", b"\n" * 1000)]
    assert wrong == [None] * len(wrong)


@pytest.mark.parametrize("name", ["expression", "rule", "config", "gguf", "safetensors", "lengths"])
def test_a_moment_of_what_reads_fast(name: str) -> None:
    assert fuzz([name], seconds=0.5, seed=1) == 0


@pytest.mark.extended
@pytest.mark.slow
def test_a_minute_of_everything() -> None:
    assert fuzz(list(TARGETS), seconds=60, seed=1) == 0


def test_a_defect_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_SECONDS", 0.1)
    monkeypatch.setattr(run, "_MOST_BYTES_MORE", 0)
    assert "ZeroDivisionError" in (try_one(Target(lambda data: [][1 // len(data)], list), b"") or "")
    assert "are allowed" in (try_one(Target(lambda data: _spin(), list, 0.0), b"") or "")
    grown = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "grew by" in (try_one(Target(lambda data: print(len(b"x" * (grown + (64 << 20)))), list, 1e9), b"x") or "")


def _spin() -> None:
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
