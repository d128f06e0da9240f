"""What it costs to be watched on the emulated CUDA device, paired with the bare program (`make bench`).

    python scripts/bench_device.py [--runs N] [--torch VERSION]

Parts of the probe are switched on and off in one process, in blocks of twenty steps; `oomdoctor run` is measured by
whole processes, A B A B …. A step counts by the CPU time of all threads of the process, so a busy machine disturbs
little. Kernels take no time on this device, so this is the worst case. Needs `make device`.
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
from collections.abc import Sequence
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
OOM = ("--objects", "200000")
LINES: tuple[tuple[str, str, Sequence[str], Sequence[str]], ...] = (
    ("oomdoctor run, below 70 %", "step", (), ()),
    ("oomdoctor run, above 70 %", "step", (), ABOVE),
    ("oomdoctor run --stacks always", "step", ("--stacks", "always"), ()),
    ("oomdoctor run --history off (hook, sampler)", "step", ("--history", "off"), ()),
    ("an out-of-memory error", "oom", (), OOM),
    ("the same with --stacks always", "oom", ("--stacks", "always"), OOM),
)
"""Name, figure, options of `oomdoctor run`, arguments of the loop."""


class Bench:
    """A machine, and a folder for what is left behind."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._machine, self._bundle = machine, folder / "bundle"

    def measure(self, arguments: Sequence[str], run: Sequence[str] | None = None) -> dict[str, Any]:
        """Run the loop once; under `oomdoctor run` with these options, unless they are None."""
        shutil.rmtree(self._bundle, ignore_errors=True)
        command = [self._machine.python, LOOP, *arguments]
        variables = self._machine.variables(os.environ)
        if run is not None:
            command = [sys.executable, "-m", "oomdoctor", "run", *run, "--output", str(self._bundle), "--", *command]
            variables["PYTHONPATH"] = str(ROOT)
        else:
            self._bundle.mkdir()
            variables.update(BENCH_BUNDLE=str(self._bundle), OOMDOCTOR_PROBE_SITE=str(SITE))
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

    def whole(self, runs: int) -> None:
        """Print what `oomdoctor run` adds to a step, and to an error."""
        for name, figure, options, arguments in LINES:
            pairs = [
                (self.measure(arguments)[figure], self.measure(arguments, options)[figure]) for _ in range(runs + 1)
            ]
            print(line(name, pairs[1:]), flush=True)


def line(name: str, pairs: Sequence[tuple[float, float]]) -> str:
    """Medians in milliseconds, the median of the ratios pair by pair, and the quartiles of these."""
    ratios = sorted(watched / bare for bare, watched in pairs)
    bare, watched = (statistics.median(values) * 1000 for values in zip(*pairs, strict=True))
    quarter = len(ratios) // 4
    spread = f"{ratios[quarter]:.2f} … {ratios[-1 - quarter]:.2f}"
    return f"{name:44} {bare:9.2f} {watched:9.2f} {statistics.median(ratios):8.3f}  {spread}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--torch", default=DEFAULT_TORCH)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine.ready(Cards((CARD_MIB << 20,)), Path(folder) / "card", options.torch)
        bench = Bench(machine, Path(folder))
        print(f"\ntorch {options.torch}; blocks: {options.rounds}, pairs of processes: {options.runs}")
        print(f"{'':44} {'bare ms':>9} {'ms':>9} {'ratio':>8}  quartiles")
        bench.parts(options.rounds)
        bench.whole(options.runs)


if __name__ == "__main__":
    main()
