"""An incident folder, and Pythons to watch or to count in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fork_server import ForkServer
from watched import SITE, VERSIONS, Harness, environment, require_python


@pytest.fixture(scope="session")
def torch_server() -> Iterator[ForkServer]:
    """Scripts that take the census of CPU tensors share the import of torch."""
    server = ForkServer(sys.executable, ["torch"], environment(PYTHONPATH=str(SITE)))
    yield server
    server.close()


@pytest.fixture
def harness(tmp_path: Path, torch_server: ForkServer) -> Harness:
    (tmp_path / "bundle").mkdir()
    return Harness(tmp_path, torch_server)


_ALWAYS = {VERSIONS[0], VERSIONS[-1], ".".join(map(str, sys.version_info[:2]))}
"""The oldest, the newest and the running one; those between are for `make test-extended`."""


@pytest.fixture(params=[pytest.param(each, marks=() if each in _ALWAYS else pytest.mark.extended) for each in VERSIONS])
def each(request: pytest.FixtureRequest, harness: Harness) -> Harness:
    """The harness, with each Python that the probe supports."""
    harness.python = require_python(request.param)
    return harness
