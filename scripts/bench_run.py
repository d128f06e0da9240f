"""What a Python program pays for being watched, and how soon after a crash its report is there (`make bench`).

    python scripts/bench_run.py [--processes N] [--rounds N] [--crashes N] [--instructions N]

The loop allocates lists, dicts, strings and objects. Two processes run blocks of it in turn, one bare and one under
`oomdoctor run`, in several pairs, for where a process's memory lies makes some per cent of difference by itself. A
block counts by the CPU time of all threads of its process; what the supervisor and its relay take beside it is told as
a share of a core. With `--instructions`, which needs valgrind, a block's instructions are counted besides, which none
else changes: those of ten further blocks, so that the start of the process falls out, for several seeds
of Python's hashes. The crash is that of a program on the emulated device (`make device`) with 100,000 events in its
history and the error uncaught: from the end of the command to the end of the wrapper.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "device"))

from oomdoctor.bundle.read import read_bundle  # noqa: E402

LOOP = """
import sys, time
class Row:
    def __init__(self, number):
        self.number, self.words = number, [str(number), number * 1.5]
def block(size=25_000):
    kept = {}
    for number in range(size):
        kept[number] = Row(number)
        if number % 3:
            del kept[number]
    return sorted(kept, key=lambda number: kept[number].words[0])
for _ in range(int(sys.argv[1])): block()
print("ready", flush=True)
for _ in sys.stdin:
    started = time.process_time()
    for _ in range(10): block()
    print(time.process_time() - started, flush=True)
"""
CRASH = """
import torch
kept = [torch.empty(1 << 20, device="cuda") for _ in range(400)]
for step in range(50_000): torch.empty(1000 + step % 99, device="cuda")
kept.append(torch.empty(1 << 50, dtype=torch.uint8, device="cuda"))
"""
_TICKS = os.sysconf("SC_CLK_TCK")


def watched(command: Sequence[str], bundle: Path, *options: str) -> list[str]:
    """The command under `oomdoctor run`."""
    return [sys.executable, "-m", "oomdoctor", "run", *options, "--output", str(bundle), "--", *command]


@contextmanager
def loop(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A loop that stands ready."""
    pipe = subprocess.PIPE
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    with subprocess.Popen(
        command, env=variables, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()


def block_seconds(process: subprocess.Popen[str]) -> float:
    """CPU seconds of one block."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(file=process.stdin, flush=True)
    return float(process.stdout.readline())


def own_cpu_seconds(pid: int) -> float:
    """Of a process without its children; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def with_forks(pid: int) -> list[int]:
    """A process and its forks, which have its command line: the supervisor and its relay."""
    line = Path(f"/proc/{pid}/cmdline").read_bytes()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children if Path(f"/proc/{child}/cmdline").read_bytes() == line)]


def loops(folder: Path, processes: int, rounds: int) -> None:
    """Print the ratio of the blocks."""
    command, pairs, beside, between = [sys.executable, "-c", LOOP, "1"], [], [], []
    for number in range(processes):
        under_watch = watched(command, folder / f"loop-{number}", "--report", "never")
        with loop(command) as bare, loop(under_watch) as under:
            pids, began = with_forks(under.pid), time.monotonic()
            before, mine = sum(map(own_cpu_seconds, pids)), []
            for _ in range(rounds):  # A B B A, so that what drifts with time falls out
                a, b, c, d = (block_seconds(each) for each in (bare, under, under, bare))
                mine += [(a, b), (d, c)]
            beside.append((sum(map(own_cpu_seconds, pids)) - before) / (time.monotonic() - began))
        pairs += mine
        between.append(statistics.median(b / a for a, b in mine))
    print(
        f"a Python loop that allocates: {statistics.median(b / a for a, b in pairs):.3f} (goal 1.01), of pairs of"
        f" processes {min(between):.3f} … {max(between):.3f}, least / least"
        f" {min(b for _, b in pairs) / min(a for a, _ in pairs):.3f}; {sum(a for a, _ in pairs):.0f} s bare;"
        f" the supervisor beside it {statistics.median(beside):.1%} of a core",
        flush=True,
    )


def instructions(folder: Path, seeds: int) -> None:
    """Print how many instructions more a block of the loop takes under watch."""
    if shutil.which("valgrind") is None:
        print("instructions: not counted, there is no valgrind")
        return
    bare, ratios = [], []
    for seed in range(seeds):
        found = []
        for under_watch in (False, True):
            few, many = (
                _instructions(folder / f"count-{seed}-{blocks}", seed, blocks, under_watch) for blocks in (2, 12)
            )
            found.append((many - few) / 10)
        bare.append(found[0])
        ratios.append(found[1] / found[0])
    print(
        f"instructions of a block under watch / bare, {seeds} seeds: {statistics.median(ratios):.4f},"
        f" {min(ratios):.4f} … {max(ratios):.4f}; bare they differ by {max(bare) / min(bare) - 1:.2%}",
        flush=True,
    )


def _instructions(bundle: Path, seed: int, blocks: int, under_watch: bool) -> int:
    """Those of a process that runs so many blocks."""
    log = bundle.with_suffix(".valgrind")
    count = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", f"--log-file={log}"]
    command = [*count, sys.executable, "-c", LOOP, str(blocks)]
    subprocess.run(
        watched(command, bundle, "--report", "never") if under_watch else command,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(seed)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return int(re.findall(r"I\s+refs:\s+([\d,]+)", log.read_text())[-1].replace(",", ""))


def crashes(folder: Path, count: int) -> None:
    """Print how long after the end of the command the report was there."""
    from emulation.cards import Cards
    from emulation.machine import Machine
    from emulation.wheel import environment

    if not environment().is_made:
        print("a crash: not measured, the emulated device is not made (make device)")
        return
    machine = Machine.ready(Cards((24 << 30,)), folder / "card")
    walls, cpu = [], []
    for number in range(count):
        bundle = folder / f"crash-{number}"
        variables = {**machine.variables(os.environ), "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            watched([str(machine.python), "-c", CRASH], bundle), env=variables, stderr=subprocess.DEVNULL
        )
        spent, after = 0.0, 0.0
        while process.poll() is None:
            spent = own_cpu_seconds(process.pid) or spent
            if not after and _has_ended(bundle):
                after = spent
            time.sleep(0.05)
        walls.append(time.time() - (_exit_time(bundle) or 0.0))
        cpu.append(spent - after)
        assert process.returncode == 1
        assert (bundle / "report.html").exists()
    print(
        f"from the crash to the report, 100,000 events: {statistics.median(walls):.2f} s (goal 2), of them"
        f" {statistics.median(cpu):.2f} s CPU"
    )


def _has_ended(bundle: Path) -> bool:
    try:
        return b'"kind":"exit"' in (bundle / "supervisor.records").read_bytes()[-2000:]
    except OSError:
        return False


def _exit_time(bundle: Path) -> float | None:
    record = next(iter(read_bundle(bundle).supervisor.of_kind("exit")), None)
    return None if record is None else float(record.data["ended"])


def main() -> None:
    """Print the two lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=12, help="pairs of them (default 12)")
    parser.add_argument("--rounds", type=int, default=15, help="of four blocks, two of them bare (default 15)")
    parser.add_argument("--crashes", type=int, default=3)
    parser.add_argument("--instructions", type=int, default=0, metavar="N", help="seeds of hashes (default 0: none)")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each start would compile every module anew
    with tempfile.TemporaryDirectory() as name:
        if options.processes:
            loops(Path(name), options.processes, options.rounds)
        if options.instructions:
            instructions(Path(name), options.instructions)
        if options.crashes:
            crashes(Path(name), options.crashes)


if __name__ == "__main__":
    main()
