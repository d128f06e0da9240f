"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from oomdoctor.diagnose import pipeline
from oomdoctor.playbook.load import Playbook, default_rules_directory


def pytest_configure(config: pytest.Config) -> None:
    """Let the processes that tests start keep their bytecode, where they may not write it beside the sources.

    Otherwise each of them compiles what it imports anew: torch takes seconds.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = str(config.rootpath / ".pytest_cache" / "bytecode")


@pytest.fixture(scope="session", autouse=True)
def shipped_rules_are_read_once() -> Iterator[None]:
    """No test changes them, and reading them takes longer than most inputs."""
    load_playbook = pipeline.load_playbook

    @cache
    def shipped(without: tuple[str, ...]) -> Playbook:
        return load_playbook([default_rules_directory()], without=without)

    def load(directories: Sequence[Path], *, without: tuple[str, ...]) -> Playbook:
        if list(directories) == [default_rules_directory()]:
            return shipped(without)
        return load_playbook(directories, without=without)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "load_playbook", load)
        yield
