"""What all tests share."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest

from oomdoctor.playbook import load
from oomdoctor.playbook.rule import Rule


def pytest_configure(config: pytest.Config) -> None:
    # With files shared out (`--dist loadfile`) xdist 3.8 waits for ever once it has replaced a worker that died
    # (pytest-xdist issues 784, 1323, 1378): the run ends instead, and names the test during which the worker died.
    if getattr(config.option, "maxworkerrestart", 0) is None:
        config.option.maxworkerrestart = "0"
    _keep_bytecode(config.rootpath / ".pytest_cache" / "bytecode")
    _read_shipped_rules_once()
    # How long one example takes says more of the machine than of the code.
    hypothesis.settings.register_profile(
        "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("any machine")


MOST_SECONDS, MOST_SECONDS_EXTENDED = 600, 3600
"""What a test may take with what it sets up: many times what any takes on a busy machine. Without a bound a wait that
nothing ends would end with the patience of whoever runs the suite, and without a name."""
_GRACE_SECONDS = 60


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Fails a test that takes for ever; where it cannot be reached, ends the process with all its stacks."""
    seconds = MOST_SECONDS_EXTENDED if item.get_closest_marker("extended") else MOST_SECONDS

    def end(*_: object) -> None:
        pytest.fail(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(seconds + _GRACE_SECONDS, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Says of a worker that died how: by which signal, such as that of the kernel's OOM killer."""
    with contextlib.suppress(Exception):
        process = node.gateway._io.popen  # type: ignore[attr-defined]
        if error:
            print(f"\nworker {node.gateway.id} died: {process.wait(timeout=5)}", file=sys.__stderr__)  # type: ignore[attr-defined]


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
