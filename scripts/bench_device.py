"""What it costs to be watched on the emulated CUDA device, each line paired with the bare program (`make bench`).

    python scripts/bench_device.py [--runs N] [--steps N] [--torch VERSION]

The loop of `training_loop.py` runs bare and watched in turn, A B A B …; the figure is the median of the ratios pair by
pair. Kernels take no time on this device, so this is the worst case. Needs `make device`.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "device"))

from emulation.cards import Cards
from emulation.machine import Machine
from emulation.wheel import DEFAULT_TORCH

ROOT = Path(__file__).resolve().parent.parent
LOOP = str(ROOT / "scripts" / "training_loop.py")
SITE = ROOT / "oomdoctor" / "probe" / "site"
OOMDOCTOR = (sys.executable, "-m", "oomdoctor", "run")
CARD_MIB = 4096
ABOVE = ("--fill", str(CARD_MIB * 3 // 4))
"""Holds three quarters of the card."""


@dataclass(frozen=True)
class Line:
    """One line of the table: a way to be watched, and what both programs are told."""

    name: str
    watch: Sequence[str] = ()
    """Parts of the probe alone."""
    run: Sequence[str] | None = None
    """Options of `oomdoctor run`; None: without it."""
    arguments: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


STEP_LINES = (
    Line("bare, once more"),
    Line("history without stacks", ["history"], variables={"OOMDOCTOR_STACKS": "never"}),
    Line("history, stacks always", ["history"], variables={"OOMDOCTOR_STACKS": "always"}),
    Line("sampler, one look a second", ["sampler"]),
    Line("sampler and adaptive history, below", ["sampler", "history"]),
    Line("sampler and adaptive history, above", ["sampler", "history"], arguments=ABOVE),
    Line("hook (out-of-memory observer)", ["hook"]),
    Line("oomdoctor run, below", run=()),
    Line("oomdoctor run, above", run=(), arguments=ABOVE),
    Line("oomdoctor run --stacks always", run=("--stacks", "always")),
    Line("oomdoctor run --stacks never, above", run=("--stacks", "never"), arguments=ABOVE),
)
OOM = ("--steps", "10", "--objects", "200000")
OOM_LINES = (
    Line("oomdoctor run", run=(), arguments=OOM),
    Line("oomdoctor run --stacks always", run=("--stacks", "always"), arguments=OOM),
)


class Bench:
    """A machine, and a folder for what is left behind."""

    def __init__(self, machine: Machine, folder: Path, steps: int) -> None:
        self._machine, self._folder, self._steps = machine, folder, steps

    def measure(self, line: Line | None, arguments: Sequence[str]) -> dict[str, float]:
        """Run the loop once, watched as the line says."""
        bundle = self._folder / "bundle"
        shutil.rmtree(bundle, ignore_errors=True)
        command = [self._machine.python, LOOP, "--steps", str(self._steps), *arguments]
        variables = self._machine.variables(os.environ)
        if line is not None:
            variables.update(line.variables)
            command += [word for part in line.watch for word in ("--watch", part)]
            if line.run is not None:
                command = [*OOMDOCTOR, *line.run, "--output", str(bundle), "--", *command]
                variables["PYTHONPATH"] = str(ROOT)
            else:
                bundle.mkdir()
                variables.update(BENCH_BUNDLE=str(bundle), OOMDOCTOR_PROBE_SITE=str(SITE))
        ended = subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True, text=True)
        found: dict[str, float] = json.loads(ended.stdout)
        return found

    def row(self, line: Line, figure: str, runs: int) -> str:
        """Pairs after a warm-up: bare, watched, the median of the ratios, and their spread."""
        pairs = []
        for number in range(runs + 1):
            bare = self.measure(None, line.arguments)[figure]
            watched = self.measure(line, line.arguments)[figure]
            if number:
                pairs.append((bare, watched))
        ratios = sorted(watched / bare for bare, watched in pairs)
        bare, watched = (statistics.median(values) * 1000 for values in zip(*pairs, strict=True))
        spread = f"{ratios[0]:.2f} … {ratios[-1]:.2f}"
        return f"{line.name:38} {bare:9.2f} {watched:9.2f} {statistics.median(ratios):8.3f}  {spread}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--torch", default=DEFAULT_TORCH)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine.ready(Cards((CARD_MIB << 20,)), Path(folder) / "card", options.torch)
        bench = Bench(machine, Path(folder), options.steps)
        heading = f"{'bare ms':>9} {'ms':>9} {'ratio':>8}  lowest … highest"
        print(f"\ntorch {options.torch}, {options.runs} pairs of {options.steps} steps\n{'a step':38} {heading}")
        for line in STEP_LINES:
            print(bench.row(line, "step_seconds", options.runs), flush=True)
        print(f"{'an out-of-memory error, 200,000 objects':38} {heading}")
        for line in OOM_LINES:
            print(bench.row(line, "oom_seconds", min(options.runs, 3)), flush=True)


if __name__ == "__main__":
    main()
