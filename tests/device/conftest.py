"""Tests on the emulated CUDA device run where its environment was made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from emulation.cards import Cards
from emulation.machine import Machine
from emulation.wheel import environment, why_not
from fork_server import ForkServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not()
    if reason:
        reason = f"the CUDA device cannot be emulated here: {reason}"
    elif not environment().is_made:
        reason = "the emulated CUDA device's environment is not made yet: `make test-device` makes it and runs these"
    for item in items:
        if reason and item.get_closest_marker("device"):
            item.add_marker(pytest.mark.skip(reason=reason))


RUNTIME = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
def malloc(size):
    address = ctypes.c_void_p()
    code = cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size))
    return address if code == 0 else None
def free_and_total():
    sizes = (ctypes.c_size_t(), ctypes.c_size_t())
    code = cuda.cudaMemGetInfo(ctypes.byref(sizes[0]), ctypes.byref(sizes[1]))
    return code or tuple(size.value for size in sizes)
"""
"""The CUDA runtime without torch, which takes seconds to import."""


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTORCH_", "CUDA_"))}


@dataclass(frozen=True)
class Device:
    """A machine to run Python on."""

    machine: Machine
    server: ForkServer
    """Has imported the default torch, on cards of nobody's."""

    def environment(self, **variables: str) -> dict[str, str]:
        return self.machine.variables({**_clean_environment(), **variables})

    def run(self, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program on it, torch imported: in a process of its own if torch reads a variable as it is loaded."""
        program = f"import torch\n{text}"
        if self.machine.programs != environment().programs or any(name.startswith("PYTORCH_") for name in variables):
            return self._run([self.machine.python, "-c", program], variables)
        ended = self.server.run("<string>", program, Path.cwd(), self.environment(**variables))
        return subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    def printed(self, text: str, **variables: str) -> str:
        """What the program prints; it must end well."""
        return _printed(self.run(text, **variables))

    def printed_without_torch(self, text: str, **variables: str) -> str:
        """The same of a program that finds the CUDA runtime as RUNTIME does, and runs in the tests' own Python."""
        return _printed(self._run([sys.executable, "-c", RUNTIME + text], variables))

    def _run(self, command: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self.environment(**variables), capture_output=True, text=True, timeout=120, check=False
        )

    def start(self, text: str, then: str = "sys.stdin.read()") -> subprocess.Popen[str]:
        """Start a program without torch; wait until it has done `text`. Then it waits for the end of its input."""
        program = f"{RUNTIME}\n{text}\nprint('ready', flush=True)\n{then}"
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", program]
        process = subprocess.Popen(command, env=self.environment(), stdin=pipe, stdout=pipe, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process


def _printed(ended: subprocess.CompletedProcess[str]) -> str:
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.fixture(scope="session")
def torch_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """Programs that only need torch imported share the import."""
    machine = Machine.ready(Cards(memory_bytes=(1,)), tmp_path_factory.mktemp("server") / "card")
    server = ForkServer(machine.python, ["torch"], machine.variables(_clean_environment()))
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
