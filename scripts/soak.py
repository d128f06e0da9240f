"""A day under `oomdoctor run` in twenty minutes: whether its memory stays flat and its folder small (`make soak`).

    python scripts/soak.py [--minutes N] [--hours N]

Nothing waits as long as in a real day: the supervisor and the probe look as often as in all its hours, and count ten
minutes as so many seconds less. The command prints a line a second of that day, starts a process every five minutes,
lets memory rise and fall by more than a hundredth of the machine's, catches an error now and then, and, where the
emulated device has been made (`make device`), allocates on it between two looks. Exit status 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "device"))

MOST_BUNDLE_BYTES = 20_000_000
MOST_GROWTH_BYTES = 2 << 20
"""Of the supervisor or the relay, from the second tenth of the time to the last."""
MOST_SLOPE_BYTES = 500_000
"""Of the same, in the last half: a table of Python's that is made anew once, at its next size, takes as much."""
_LINE = "epoch 3 step {step} loss 0.{step:06d} lr 3.0e-05 tokens/s 12345.6 grad norm 0.98765 eta 11:22:33"


def supervise(speed: float, looks: str, words: list[str]) -> None:
    """Be `oomdoctor run` with samplers that look `speed` times as often, and leave a byte for each look in `looks`."""
    from oomdoctor.cli.main import main as oomdoctor
    from oomdoctor.collect import sampler
    from oomdoctor.run import watch

    class Faster(sampler.Sampler):
        def __init__(self, look, interval, delay, name):  # type: ignore[no-untyped-def]
            count = os.open(f"{looks}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

            def counted() -> float | None:
                os.write(count, b".")
                return look()  # type: ignore[no-any-return]

            super().__init__(counted, interval / speed, delay, name)

    sampler.Thinner.EARLY_SECONDS /= speed
    sampler.MOST_OF_A_CORE = 1.0
    watch.Sampler = Faster  # type: ignore[misc]
    sys.argv = ["oomdoctor", "run", *words]
    oomdoctor()


def work(speed: float, hours: float) -> None:
    """Be the command that is watched."""
    steps, whole = round(hours * 3600), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    torch = _device(speed)
    begun, step, held, tensors = time.monotonic(), 0, b"", []
    while step < steps:
        print(_LINE.format(step=step), flush=True)
        held = b"" if held else bytes(whole // 40)  # address space only
        if torch is not None:
            tensors = [torch.empty((1 + step % 7) << 20, device="cuda")]
        time.sleep(max(0.0, begun + step / speed - time.monotonic()))
        before, step = step, max(step + 1, int((time.monotonic() - begun) * speed))
        if before // 300 != step // 300:
            subprocess.run([sys.executable, "-c", "pass"], check=True)
        if before // 600 != step // 600:
            try:
                bytearray(1 << 60)
            except MemoryError:
                print("skipped a batch", file=sys.stderr, flush=True)
    del held, tensors


def _device(speed: float):  # type: ignore[no-untyped-def]
    """Import torch on the emulated device, with a probe that looks as often as in the day; None without one."""
    try:
        import torch
        from _oomdoctor_probe import sampler
    except ImportError:
        return None
    sampler._INTERVAL_SECONDS /= speed
    sampler._EARLY_SECONDS /= speed
    return torch if torch.cuda.is_available() else None


class Memory:
    """The resident memory of the supervisor and of the relay beside it, over time."""

    def __init__(self, supervisor: int) -> None:
        self._supervisor = supervisor
        self.seen: dict[str, list[int]] = {"supervisor": [], "relay": []}

    def look(self) -> None:
        """Note what they hold now."""
        for name, pid in (("supervisor", self._supervisor), ("relay", self._relay())):
            if pid and (size := _resident_bytes(pid)):
                self.seen[name].append(size)

    def _relay(self) -> int | None:
        """The child that is a fork of the supervisor, not the command."""
        try:
            own = Path(f"/proc/{self._supervisor}/cmdline").read_bytes()
            children = Path(f"/proc/{self._supervisor}/task/{self._supervisor}/children").read_text().split()
            return next((int(pid) for pid in children if Path(f"/proc/{pid}/cmdline").read_bytes() == own), None)
        except OSError:
            return None

    def growth(self, name: str) -> int:
        """From the second tenth of the time to the last, by their medians."""
        sizes = self.seen[name]
        tenth = max(1, len(sizes) // 10)
        early, late = sorted(sizes[tenth : 2 * tenth]), sorted(sizes[-tenth:])
        return late[len(late) // 2] - early[len(early) // 2]

    def at_thirds(self, name: str) -> tuple[int, int, int]:
        """What it held after each third of the time."""
        sizes = self.seen[name] or [0]
        one, two, three = (sizes[max(0, len(sizes) * third // 3 - 1)] for third in (1, 2, 3))
        return one, two, three

    def slope(self, name: str) -> float:
        """The line through the last half of the time, by least squares: bytes in the whole of it."""
        sizes = self.seen[name][len(self.seen[name]) // 2 :]
        middle = (len(sizes) - 1) / 2
        spread = sum((at - middle) ** 2 for at in range(len(sizes)))
        return sum((at - middle) * size for at, size in enumerate(sizes)) / spread * len(sizes) if spread else 0.0


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _machine(folder: Path) -> tuple[str, dict[str, str]]:
    """The Python that the command runs with, and its environment."""
    from emulation.cards import Cards
    from emulation.machine import Machine
    from emulation.wheel import environment

    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    if not environment().is_made:
        return sys.executable, variables
    machine = Machine.ready(Cards((4 << 30,)), folder / "card")
    return str(machine.python), {**machine.variables(os.environ), "PYTHONPATH": str(ROOT)}


def soak(minutes: float, hours: float) -> bool:
    """Run it and print what came out; whether the goals were met."""
    speed = hours * 60 / minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python, variables = _machine(folder)
        bundle, looks = folder / "bundle", folder / "looks"
        looks.mkdir()
        command = [python, __file__, "--work", str(speed), str(hours)]
        words = ["--report", "never", "--output", str(bundle), "--", *command]
        begun = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, __file__, "--supervise", str(speed), str(looks), *words],
            env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        memory = Memory(process.pid)
        while process.poll() is None:
            memory.look()
            time.sleep(1)
        size = sum(file.stat().st_size for file in bundle.rglob("*") if file.is_file())
        print(f"{hours:g} hours in {(time.monotonic() - begun) / 60:.1f} minutes, status {process.returncode}")
        told = ", ".join(f"{file.name} {file.stat().st_size:,}" for file in sorted(looks.iterdir()))
        print(f"looks: {told}; really {2 * hours * 3600:,.0f} each")
        for each, sizes in memory.seen.items():
            print(
                f"{each:12} {max(sizes) / 1e6:6.1f} MB at most, {memory.growth(each) / 1e6:+.2f} MB in the end (goal 2)"
            )
            thirds = ", ".join(f"{size / 1e6:.2f}" for size in memory.at_thirds(each))
            print(f"             {thirds} MB after each third; last half {memory.slope(each) / 1e6:+.3f} MB (goal 0.5)")
        print(f"the folder   {size / 1e6:6.1f} MB (goal 20)")
        for file in sorted(bundle.rglob("*"), key=lambda file: -file.stat().st_size)[:5]:
            print(f"    {file.relative_to(bundle)}: {file.stat().st_size:,} bytes")
        flat = all(memory.growth(each) <= MOST_GROWTH_BYTES for each in memory.seen)
        flat = flat and all(memory.slope(each) <= MOST_SLOPE_BYTES for each in memory.seen)
        return flat and size <= MOST_BUNDLE_BYTES and process.returncode == 0


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["--supervise"]:
        supervise(float(sys.argv[2]), sys.argv[3], sys.argv[4:])
    elif sys.argv[1:2] == ["--work"]:
        work(float(sys.argv[2]), float(sys.argv[3]))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--minutes", type=float, default=20)
        parser.add_argument("--hours", type=float, default=24)
        options = parser.parse_args()
        sys.exit(not soak(options.minutes, options.hours))


if __name__ == "__main__":
    main()
