"""Runs programs on an emulated machine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from emulation.machine import Machine
from emulation.wheel import environment
from fork_server import ForkServer

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


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTORCH_", "CUDA_"))}


@dataclass(frozen=True)
class Device:
    """A machine to run Python on."""

    machine: Machine
    server: ForkServer
    """Has imported the default torch, on cards of nobody's."""

    def environment(self, **variables: str) -> dict[str, str]:
        return self.machine.variables({**clean_environment(), **variables})

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
