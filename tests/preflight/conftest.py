"""The machine that runs the tests must not change what they expect."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def a_machine_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for name in list(os.environ):
        if name.startswith(("CUDA_", "PYTORCH_", "HF_")):
            monkeypatch.delenv(name)
