import contextlib
import os
import signal

import pytest


@pytest.fixture(autouse=True)
def no_core_files():
    import resource

    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.fixture
def ends():
    """Processes to end after the test, by their id."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
