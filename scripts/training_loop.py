"""The program that `bench_device.py` measures: a small transformer is trained, and then, if asked, memory runs out.

Nothing is computed on the emulated device, so a step costs what Python and torch themselves take: the worst case for
whoever watches. Without options it trains a block of steps for each line that it reads, and prints the seconds of one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any

import torch
from torch import nn

MIB = 1 << 20
_BLOCK_STEPS = 20


class Loop:
    """A model and its optimizer."""

    def __init__(self) -> None:
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
        self._model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
        self._adam = torch.optim.AdamW(self._model.parameters())
        self._batch = torch.empty(8, 128, 256, device="cuda")
        self.step_seconds(_BLOCK_STEPS)

    def step_seconds(self, steps: int) -> float:
        """CPU time of a step, all threads of the process together."""
        started = time.process_time()
        for _ in range(steps):
            self._adam.zero_grad()
            self._model(self._batch).square().mean().backward()
            self._adam.step()
        return (time.process_time() - started) / steps


def compare(loop: Loop, rounds: int) -> dict[str, list[float]]:
    """Seconds of a step in blocks of twenty, without history, with it, and with stacks as well, in turn."""
    record = torch.cuda.memory._record_memory_history
    modes: dict[str, dict[str, Any]] = {
        "bare": {"enabled": None},
        "history": {"enabled": "all", "context": None, "stacks": "python", "max_entries": 100_000},
        "stacks": {"enabled": "all", "context": "alloc", "stacks": "python", "max_entries": 100_000},
    }
    found: dict[str, list[float]] = {mode: [] for mode in modes}
    for _ in range(rounds):
        for mode, settings in modes.items():
            record(**settings)
            found[mode].append(loop.step_seconds(_BLOCK_STEPS))
    record(enabled=None)
    return found


def on_demand(loop: Loop) -> None:
    """For each line of standard input, the seconds of a step in a block of twenty."""
    print("ready", flush=True)
    for _ in sys.stdin:
        print(loop.step_seconds(_BLOCK_STEPS), flush=True)


def looks() -> dict[str, float]:
    """CPU seconds that a look of the sampler takes, and a sample."""
    sys.path.insert(0, os.environ["OOMDOCTOR_PROBE_SITE"])
    from _oomdoctor_probe import records, sampler

    records.open_bundle(os.environ["BENCH_BUNDLE"])
    one = sampler._Sampler(torch)
    found = {}
    for name, call in (("look", one._follow), ("sample", one.sample)):
        started = time.process_time()
        for _ in range(300):
            call()
        found[name] = (time.process_time() - started) / 300
    return found


def run_out(objects: int) -> float:
    """Seconds from asking for too much to the error, with this many more Python objects."""
    _ballast: list[Any] = [{"index": index} for index in range(objects)]
    for _ in range(60_000):
        torch.empty(1000, device="cuda")
    started = time.perf_counter()
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return time.perf_counter() - started
    raise RuntimeError("memory was expected to run out")


def main() -> None:
    """Train on demand; or print what was measured as one object of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fill", type=int, default=0, metavar="MIB", help="hold this much more of the device")
    parser.add_argument("--objects", type=int, help="then run out of memory beside this many Python objects")
    parser.add_argument("--rounds", type=int, help="instead: compare ways to record history, in blocks of twenty steps")
    options = parser.parse_args()
    _held = torch.empty(options.fill * MIB, dtype=torch.uint8, device="cuda")
    if options.fill:
        time.sleep(0.5)  # whoever looks has seen it
    loop = Loop()
    found: dict[str, Any]
    if options.rounds is not None:
        found = {**compare(loop, options.rounds), **looks()}
    elif options.objects is not None:
        found = {"oom": run_out(options.objects)}
    else:
        on_demand(loop)
        return
    print(json.dumps(found))


if __name__ == "__main__":
    main()
