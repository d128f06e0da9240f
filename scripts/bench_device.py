"""What it costs to be watched on the emulated CUDA device, paired with the bare program (`make bench`).

    python scripts/bench_device.py [--runs N] [--torch VERSION]

Blocks of twenty steps are run in turn, A B A B …: parts of the probe are switched on and off in one process; a program
under `oomdoctor run` takes turns with a bare one beside it, in several pairs of processes. A step counts by the CPU
time of all threads of its process, so a busy machine disturbs little. Kernels take no time on this device, so this is
the worst case. Needs `make device`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "device"))

from emulation.cards import Cards
from emulation.machine import Machine
from emulation.wheel import DEFAULT_TORCH

ROOT = Path(__file__).resolve().parent.parent
LOOP = str(ROOT / "scripts" / "training_loop.py")
SITE = ROOT / "oomdoctor" / "probe" / "site"
CARD_MIB = 4096
ABOVE = ("--fill", str(CARD_MIB * 3 // 4))
"""Holds three quarters of the card."""
STEPS: tuple[tuple[str, Sequence[str], Sequence[str]], ...] = (
    ("oomdoctor run, below 70 %", (), ()),
    ("oomdoctor run, above 70 %", (), ABOVE),
    ("oomdoctor run --stacks always", ("--stacks", "always"), ()),
    ("oomdoctor run --history off (hook, sampler)", ("--history", "off"), ()),
)
"""Name, options of `oomdoctor run`, arguments of the loop."""
ERRORS: tuple[tuple[str, Sequence[str]], ...] = (
    ("an out-of-memory error", ()),
    ("the same with --stacks always", ("--stacks", "always")),
)


class Bench:
    """Two machines alike, one for the bare program and one for the watched, and a folder for what is left behind."""

    def __init__(self, torch: str, folder: Path) -> None:
        cards = Cards((CARD_MIB << 20,))
        self._bare, self._watched = (Machine.ready(cards, folder / name, torch) for name in ("bare", "watched"))
        self._folder = folder

    def command(self, arguments: Sequence[str], run: Sequence[str] | None) -> tuple[list[str], dict[str, str]]:
        """The loop, under `oomdoctor run` with these options unless they are None; and its environment."""
        machine = self._bare if run is None else self._watched
        bundle = self._folder / f"{machine.card_file.name}-bundle"
        shutil.rmtree(bundle, ignore_errors=True)
        command = [machine.python, LOOP, *arguments]
        variables = machine.variables(os.environ)
        if run is not None:
            command = [sys.executable, "-m", "oomdoctor", "run", *run, "--output", str(bundle), "--", *command]
            variables["PYTHONPATH"] = str(ROOT)
        else:
            bundle.mkdir()
            variables.update(BENCH_BUNDLE=str(bundle), OOMDOCTOR_PROBE_SITE=str(SITE))
        return command, variables

    def measure(self, arguments: Sequence[str], run: Sequence[str] | None = None) -> dict[str, Any]:
        """Run the loop once, and return what it found."""
        command, variables = self.command(arguments, run)
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        ended = subprocess.run(command, env=variables, stdout=pipe, stderr=none, check=True, text=True)
        found: dict[str, Any] = json.loads(ended.stdout)
        return found

    def parts(self, rounds: int) -> None:
        """Print what each part of the probe adds to a step."""
        found = self.measure(["--rounds", str(rounds)])
        for mode in ("history", "stacks"):
            pairs = list(zip(found["bare"], found[mode], strict=True))[1:]
            print(line({"history": "history", "stacks": "history with stacks"}[mode], pairs), flush=True)
        share = 10 * found["look"] + found["sample"]
        print(f"the sampler: a look {found['look'] * 1e6:.0f} µs, a sample {found['sample'] * 1e6:.0f} µs,")
        print(f"  with ten looks and a sample a second {share:.3%} of the time")

    def steps(self, processes: int, rounds: int) -> None:
        """Print what `oomdoctor run` adds to a step."""
        for name, options, arguments in STEPS:
            pairs = [pair for _ in range(processes) for pair in self.in_turn(arguments, options, rounds)]
            print(line(name, pairs), flush=True)

    def in_turn(self, arguments: Sequence[str], run: Sequence[str], rounds: int) -> list[tuple[float, float]]:
        """Seconds of a step, bare and watched, in blocks that take turns; the first blocks do not count."""
        with ExitStack() as both:
            loops = [both.enter_context(self.training(arguments, how)) for how in (None, run)]
            pairs = [(loops[0](), loops[1]()) for _ in range(rounds + 1)]
        return pairs[1:]

    @contextmanager
    def training(self, arguments: Sequence[str], run: Sequence[str] | None) -> Iterator[Callable[[], float]]:
        """A loop that stands ready; each call trains a block and returns the seconds of a step."""
        command, variables = self.command(arguments, run)
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe, stderr=none, text=True) as process:
            asked, answers = process.stdin, process.stdout
            assert asked is not None
            assert answers is not None
            assert answers.readline() == "ready\n"

            def block() -> float:
                print(file=asked, flush=True)
                return float(answers.readline())

            yield block
            asked.close()

    def errors(self, processes: int) -> None:
        """Print what `oomdoctor run` adds to an error."""
        arguments = ("--objects", "200000")
        for name, options in ERRORS:
            pairs = [
                (self.measure(arguments)["oom"], self.measure(arguments, options)["oom"]) for _ in range(processes)
            ]
            print(medians(name, pairs), flush=True)


def medians(name: str, pairs: Sequence[tuple[float, float]]) -> str:
    """Medians in milliseconds."""
    bare, watched = (statistics.median(values) * 1000 for values in zip(*pairs, strict=True))
    return f"{name:44} {bare:9.2f} {watched:9.2f}"


def line(name: str, pairs: Sequence[tuple[float, float]]) -> str:
    """The medians, the median of the ratios pair by pair, and the quartiles of these."""
    ratios = sorted(watched / bare for bare, watched in pairs)
    quarter = len(ratios) // 4
    spread = f"{ratios[quarter]:.2f} … {ratios[-1 - quarter]:.2f}"
    return f"{medians(name, pairs)} {statistics.median(ratios):8.3f}  {spread}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=3, help="pairs of them (default 3)")
    parser.add_argument("--rounds", type=int, default=40, help="blocks of each (default 40)")
    parser.add_argument("--torch", default=DEFAULT_TORCH)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.torch, Path(folder))
        print(f"\ntorch {options.torch}; pairs of processes: {options.processes}, blocks of each: {options.rounds}")
        print(f"{'':44} {'bare ms':>9} {'ms':>9} {'ratio':>8}  quartiles")
        bench.parts(options.rounds)
        bench.steps(options.processes, options.rounds)
        bench.errors(options.processes)


if __name__ == "__main__":
    main()
