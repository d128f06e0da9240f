"""What all tests share."""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Let the processes that tests start keep their bytecode, where they may not write it beside the sources.

    Otherwise each of them compiles what it imports anew: torch takes seconds.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = str(config.rootpath / ".pytest_cache" / "bytecode")
