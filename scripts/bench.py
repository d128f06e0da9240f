"""Measures, each paired in one run with what it is compared with (`make bench`).

    python scripts/bench.py [--snapshot FILE | --events N] [--runs N]

Whole processes are timed, A B A B …, after one warm-up of each; the table gives medians, and the ratio is the median
of the ratios pair by pair, which holds when the machine's speed drifts. CPU is user + system time of the process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PYTHON = sys.executable
OOMDOCTOR = [PYTHON, "-m", "oomdoctor"]


@dataclass(frozen=True)
class Run:
    """One finished process."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


def run(command: Sequence[str]) -> Run:
    """Run a command to its end, its output thrown away. Raises RuntimeError when it fails."""
    started = time.perf_counter()
    pid = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with wait status {status}")
    return Run(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def paired(a: Sequence[str], b: Sequence[str], runs: int) -> list[tuple[Run, Run]]:
    """`runs` pairs of a and b in turn, after one warm-up of each."""
    run(a), run(b)
    return [(run(a), run(b)) for _ in range(runs)]


def row(name: str, pairs: list[tuple[Run, Run]]) -> str:
    """One line of the table."""

    def median(values: Sequence[float]) -> float:
        return statistics.median(values)

    cpu = median([a.cpu_seconds / max(b.cpu_seconds, 1e-9) for a, b in pairs])
    peak = median([a.peak_bytes / b.peak_bytes for a, b in pairs])
    return (
        f"{name:44} {median([a.wall_seconds for a, _ in pairs]):8.3f} {median([b.wall_seconds for _, b in pairs]):8.3f}"
        f" {cpu:8.2f} {peak:8.2f} {median([a.wall_seconds - b.wall_seconds for a, b in pairs]) * 1000:8.0f}"
    )


def synthetic_snapshot(path: Path, events: int) -> None:
    """A consistent snapshot of some `events` events, as torch writes them: 2,000 stacks of about 32 frames; every event
    has a list of its own of frames that are shared, a block the list of its alloc.
    """
    chance = random.Random(1)
    frames = [{"name": f"f{i}", "filename": f"/srv/train/{i % 40}.py", "line": i} for i in range(2_000)]
    stacks = [chance.sample(frames, chance.randrange(20, 45)) for _ in range(2_000)]
    base, slots, when = 0x7F00_0000_0000, 1_000, 1_790_000_000_000_000
    trace: list[dict[str, Any]] = []
    live: dict[int, dict[str, Any]] = {}
    order: list[int] = []
    free_slots = list(range(slots))

    def record(action: str, address: int, size: int, listed: list[Any]) -> dict[str, Any]:
        event = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": when, "frames": listed}
        trace.append(event)
        return event

    record("segment_alloc", base, slots << 20, list(stacks[0]))
    while len(trace) < events:
        when += 7
        listed = list(stacks[chance.randrange(2_000)])
        if free_slots and (len(order) < 500 or chance.random() < 0.5):
            slot = free_slots.pop()
            live[slot] = record("alloc", base + (slot << 20), chance.randrange(512, 1 << 20), listed)
            order.append(slot)
        else:
            slot = order.pop(chance.randrange(len(order)))
            free_slots.append(slot)
            gone = live.pop(slot)
            for action in ("free_requested", "free_completed"):
                record(action, gone["addr"], gone["size"], listed)
    blocks = []
    for slot in range(slots):
        event, address = live.get(slot), base + (slot << 20)
        size = -(-event["size"] // 512) * 512 if event else 0
        if event:
            block = {"address": address, "size": size, "requested_size": event["size"], "state": "active_allocated"}
            blocks.append({**block, "frames": event["frames"]})
        if size < 1 << 20:
            rest = (1 << 20) - size
            block = {"address": address + size, "size": rest, "requested_size": 0, "state": "inactive", "frames": []}
            blocks.append(block)
    active = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    segment = {
        "device": 0,
        "address": base,
        "total_size": slots << 20,
        "allocated_size": active,
        "active_size": active,
        "requested_size": active,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": trace[0]["frames"],
        "blocks": blocks,
    }
    snapshot = {"segments": [segment], "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}
    with path.open("wb") as file:
        pickle.dump(snapshot, file, protocol=4)


def make_snapshot(path: Path, events: int) -> None:
    """`synthetic_snapshot` in a process of its own: the peak of a process counts what its parent held at the start."""
    maker = multiprocessing.get_context("spawn").Process(target=synthetic_snapshot, args=(path, events))
    maker.start()
    maker.join()
    if maker.exitcode:
        raise RuntimeError(f"{path} could not be made")


def growth_row(folder: Path, events: int, runs: int) -> str:
    """How CPU time grows from `events` events to four times as many, by the pairs of one run."""
    few, many = folder / "few.pickle", folder / "many.pickle"
    make_snapshot(few, events)
    make_snapshot(many, 4 * events)
    report = str(folder / "growth.html")
    a, b = ([*OOMDOCTOR, "analyze", str(path), "--output", report] for path in (many, few))
    return row(f"analyze {4 * events:,} / {events:,} events", paired(a, b, runs))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snapshot", type=Path, help="a memory snapshot to analyse; one is generated otherwise")
    parser.add_argument("--events", type=int, default=1_000_000, help="events of the generated snapshot")
    parser.add_argument("--runs", type=int, default=7, help="pairs of each kind (of large snapshots: 3 at most)")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each start would compile every module anew
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as name:
        folder, snapshot = Path(name), options.snapshot
        if snapshot is None:
            snapshot = folder / "generated.pickle"
            make_snapshot(snapshot, options.events)
        empty = [PYTHON, "-c", "pass"]
        load = [PYTHON, "-c", f"import pickle; pickle.load(open({str(snapshot)!r}, 'rb'))"]
        report, bundle = folder / "report.html", folder / "bundle"
        large = min(options.runs, 3)
        rows = [
            (
                "analyze SNAPSHOT to HTML / pickle.load",
                ["analyze", str(snapshot), "--output", str(report)],
                load,
                large,
            ),
            ("--help / python -c pass", ["--help"], empty, options.runs),
            ("--version / python -c pass", ["--version"], empty, options.runs),
            (
                "run -- python -c pass / python -c pass",
                ["run", "--output", str(bundle), "--", *empty],
                empty,
                options.runs,
            ),
        ]
        print(f"{snapshot.name}, {snapshot.stat().st_size:,} bytes; medians of the pairs after a warm-up")
        print(f"{'A / B':44} {'A wall s':>8} {'B wall s':>8} {'CPU A/B':>8} {'peak A/B':>8} {'A-B ms':>8}")
        for words, command, other, runs in rows:
            print(row(words, paired([*OOMDOCTOR, *command], other, runs)), flush=True)
        if options.snapshot is None:
            print(growth_row(folder, options.events, large), flush=True)


if __name__ == "__main__":
    main()
