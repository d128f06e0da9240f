"""What all tests share."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from oomdoctor.playbook import load
from oomdoctor.playbook.rule import Rule


def pytest_configure(config: pytest.Config) -> None:
    # With files shared out (`--dist loadfile`) xdist 3.8 waits for ever once it has replaced a worker that died
    # (pytest-xdist issues 784, 1323, 1378): the run ends instead, and names the test during which the worker died.
    if getattr(config.option, "maxworkerrestart", 0) is None:
        config.option.maxworkerrestart = "0"
    _take_signals_as_a_terminal_gives_them()
    _keep_bytecode(config.rootpath / ".pytest_cache" / "bytecode")
    _read_shipped_rules_once()
    # How long one example takes says more of the machine than of the code.
    hypothesis.settings.register_profile(
        "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("any machine")


_DIED = pytest.StashKey[bool]()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Says of a worker that died how: by which signal, such as that of the kernel's OOM killer."""
    if error:
        node.config.stash[_DIED] = True
        with contextlib.suppress(Exception):
            status = node.gateway._io.popen.wait(timeout=5)
            print(f"\nworker {node.gateway.id} died: {status}", file=sys.__stderr__)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After a worker's death most tests have not run: what failed before it is not all that is to be run again."""
    if session.config.stash.get(_DIED, False) and session.config.cache is not None:
        session.config.cache.set("cache/lastfailed", {})


LONGEST_FIRST = ("device", "probe", "browser", "trust", "run", "sweep", "cli")
"""Folders of tests that start processes: with several workers, what is short fills up the end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Half as many again as there are cores: about half of the time the tests wait for processes that they started."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0))
    return cores + (cores + 1) // 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _rank(item.path.parent.name))


def _rank(folder: str) -> int:
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)


def _take_signals_as_a_terminal_gives_them() -> None:
    """Under `nohup`, or in the background of a script, some are ignored, and what tests start would inherit that."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _keep_bytecode(folder: Path) -> None:
    """Let tests, and processes that they start, keep their bytecode, where it may not be written beside the sources.

    Otherwise each of them compiles what it imports anew: torch takes seconds, and so do all the tests together.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(folder)
        sys.dont_write_bytecode = False


def _read_shipped_rules_once() -> None:
    """No test changes them, and reading them takes longer than most inputs."""
    shipped, load_rule = load.default_rules_directory(), load.load_rule

    @cache
    def read_once(path: Path, without: frozenset[str]) -> Rule:
        return load_rule(path, without)

    def read(path: Path, without: Collection[str] = ()) -> Rule:
        return read_once(path, frozenset(without)) if path.is_relative_to(shipped) else load_rule(path, without)

    load.load_rule = read
