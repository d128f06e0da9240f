"""Tests on the emulated CUDA device run where its environment was made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from emulation.cards import Cards
from emulation.machine import Machine
from emulation.wheel import environment, why_not
from fork_server import ForkServer
from on_device import Device, clean_environment


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not()
    if reason:
        reason = f"the CUDA device cannot be emulated here: {reason}"
    elif not environment().is_made:
        reason = "the emulated CUDA device's environment is not made yet: `make test-device` makes it and runs these"
    for item in items:
        if reason and item.get_closest_marker("device"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def torch_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """Programs that only need torch imported share the import."""
    machine = Machine.ready(Cards(memory_bytes=(1,)), tmp_path_factory.mktemp("server") / "card")
    server = ForkServer(machine.python, ["torch"], machine.variables(clean_environment()))
    yield server
    server.close()


@pytest.fixture
def device_with(tmp_path: Path, torch_server: ForkServer) -> Callable[..., Device]:
    """Makes a device of these cards, on a card file of its own."""

    def make(torch: str = environment().torch, **cards: object) -> Device:
        return Device(Machine.ready(Cards(**cards), tmp_path / "card", torch), torch_server)  # type: ignore[arg-type]

    return make


@pytest.fixture
def device(device_with: Callable[..., Device]) -> Device:
    """One card of 24 GiB, a context of 420 MiB."""
    return device_with()
