"""Scenarios: scripts that run out of memory on the emulated device for a planted reason, which their CAUSE tells."""

from __future__ import annotations

import ast
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from .cards import Cards, of_each, parse_size
from .machine import Machine
from .wheel import DEFAULT_TORCH

FOLDER = Path(__file__).parent.parent / "scenarios"
_NEIGHBOUR = FOLDER / "neighbour.py"


@dataclass(frozen=True)
class Scenario:
    """A script and the truth about it; the fields after `script` are those of its CAUSE."""

    name: str
    script: Path
    cause: str
    """The planted one, a name of the report's causes."""
    verdict: str = "out-of-memory"
    owner: str | None = None
    """Who holds the memory, where somebody does: a variable or a function of the script."""
    frees_gib: float | None = None
    """What a remedy gives back, where the script's own sizes tell."""
    status: int = 1
    """The script's exit status."""
    record: bool = True
    """Whether torch's allocator fails (so that there is a record and a snapshot of it)."""
    devices: int = 1
    memory: str = "24GiB"
    neighbours: Sequence[Sequence[str]] = ()
    """Other processes on the first card: arguments of neighbour.py."""
    launcher: Sequence[str] = ("python",)

    def cards(self) -> Cards:
        """The cards that it runs on."""
        return Cards(of_each([parse_size(size) for size in self.memory.split(",")], self.devices))

    def command(self) -> list[str]:
        """How it is run on the machine."""
        return [*self.launcher, str(self.script)]


def load(name: str) -> Scenario:
    """The scenario of that name. Its script is read, not run."""
    script = FOLDER / f"{name}.py"
    for statement in ast.parse(script.read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "CAUSE":
            return Scenario(name, script, **ast.literal_eval(statement.value))
    raise ValueError(f"{script} has no CAUSE")


def names() -> list[str]:
    """All scenarios."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if "\nCAUSE = " in path.read_text())


@contextmanager
def machine_of(scenario: Scenario, torch: str = DEFAULT_TORCH) -> Iterator[Machine]:
    """A machine for the scenario, with its neighbours at work."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="oomdoctor-device-"))
        machine = Machine.ready(scenario.cards(), Path(folder) / "card", torch)
        for arguments in scenario.neighbours:
            stack.enter_context(_neighbour(machine, arguments))
        yield machine


@contextmanager
def _neighbour(machine: Machine, arguments: Sequence[str]) -> Iterator[None]:
    """Another process on the machine, from when it holds its memory."""
    command = [machine.python, str(_NEIGHBOUR), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=machine.variables(os.environ), stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise RuntimeError(f"the neighbour ended: {command}")
            yield
        finally:
            process.stdin.close()


def run(
    scenario: Scenario,
    prefix: Sequence[str] = (),
    *,
    torch: str = DEFAULT_TORCH,
    others: Mapping[str, str] = os.environ,
) -> int:
    """Run it, wrapped in `prefix`, and return its exit status."""
    with machine_of(scenario, torch) as machine:
        return subprocess.run([*prefix, *scenario.command()], env=machine.variables(others)).returncode
