"""The program that `bench_device.py` measures: a small transformer is trained, and then, if asked, memory runs out.

Nothing is computed on the emulated device, so a step costs what Python and torch themselves take: the worst case for
whoever watches. Prints the median time of a step; with --objects also what an out-of-memory error costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from itertools import pairwise
from typing import Any

import torch
from torch import nn

MIB = 1 << 20
_WARM_UP_STEPS = 20


def train(steps: int) -> float:
    """Seconds of a step, the median of groups of ten."""
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
    adam = torch.optim.AdamW(model.parameters())
    batch = torch.empty(8, 128, 256, device="cuda")
    groups = []
    for step in range(-_WARM_UP_STEPS, steps):
        if step >= 0 and step % 10 == 0:
            groups.append(time.perf_counter())
        adam.zero_grad()
        model(batch).square().mean().backward()
        adam.step()
    groups.append(time.perf_counter())
    return statistics.median(after - before for before, after in pairwise(groups)) / 10


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


def watch_with(parts: list[str]) -> None:
    """Turn single parts of the probe on, in a program that `oomdoctor run` does not watch."""
    if not parts:
        return
    sys.path.insert(0, os.environ["OOMDOCTOR_PROBE_SITE"])
    from _oomdoctor_probe import device_oom, history, records, sampler

    records.open_bundle(os.environ["BENCH_BUNDLE"])
    if "history" in parts:
        history.turn_on(torch)
    if "sampler" in parts:
        sampler.start(torch)
    if "hook" in parts:
        device_oom.watch(torch)


def main() -> None:
    """Print what was measured as one object of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--fill", type=int, default=0, metavar="MIB", help="hold this much more of the device")
    parser.add_argument("--objects", type=int, help="then run out of memory beside this many Python objects")
    parser.add_argument("--watch", action="append", default=[], choices=["history", "sampler", "hook"])
    options = parser.parse_args()
    torch.cuda.init()
    watch_with(options.watch)
    _held = torch.empty(options.fill * MIB, dtype=torch.uint8, device="cuda")
    if options.fill:
        time.sleep(0.5)  # whoever looks has seen it
    found = {"step_seconds": train(options.steps)}
    if options.objects is not None:
        found["oom_seconds"] = run_out(options.objects)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
