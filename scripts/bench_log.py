"""How fast logs are read, beside a bare read, `wc -l` and one `bytes.find` of the same file (`make bench`).

    python scripts/bench_log.py [--megabytes N] [--runs N] [--only WORD] [--large]

The logs are generated, the same every time, each with one out-of-memory message in the middle. Speeds are bytes by CPU
seconds (of the child for `wc`), the best of the runs, taken in turn: what other programs do meanwhile can only lower
them. Then 100,000 messages that differ, and the rules. `--large` streams 2 GB into `oomdoctor analyze -` as well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from oomdoctor.facts import derive_facts
from oomdoctor.model.events import EventKind
from oomdoctor.playbook.load import load_playbook
from oomdoctor.playbook.match import match_rules
from oomdoctor.readers.inputs import read_inputs
from oomdoctor.readers.log.engine import read_log

SAMPLES = Path(__file__).parent.parent / "sample_logs"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {request} MiB. GPU 0 has a total capacity of"
    " 79.25 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of"
    " the allocated memory 76.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated."
)


def training(chance: random.Random) -> Iterator[str]:
    """A trainer: progress bars that carriage returns overwrite, a line of figures a hundred steps."""
    step = 0
    while True:
        for _ in range(100):
            step += 1
            done = step % 3125 / 3125
            bar = ("█" * int(done * 20)).ljust(20)
            yield (
                f"\rEpoch {step // 3125}: {done:4.0%}|{bar}| {step % 3125}/3125 [{step // 120:02d}:{step % 60:02d}"
                f"<{(3125 - step % 3125) // 120:02d}:{step % 60:02d},  {1.9 + chance.random() / 5:.2f}it/s, "
                f"loss={2 + chance.random():.3f}]"
            )
        yield (
            f"\n{{'loss': {2 + chance.random():.4f}, 'grad_norm': {chance.random():.4f}, 'learning_rate': "
            f"{chance.random() / 1000:.3e}, 'epoch': {step / 3125:.2f}}}\n"
            f"[2026-11-29 12:{step // 60 % 60:02d}:{step % 60:02d}] INFO trainer.py:412 step {step} loss"
            f" {2 + chance.random():.4f} lr 1.0e-4 tokens/s {chance.randrange(8000, 9900)}"
            " gpu memory allocated 61.2 GB\n"
        )


def serving(chance: random.Random) -> Iterator[str]:
    """A vLLM server under light load: a line of figures, which is read, for every nineteen requests."""
    second = 0
    while True:
        second += 10
        clock = f"11-29 {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        for _ in range(9):
            name = f"chatcmpl-{chance.getrandbits(128):032x}"
            yield (
                f"INFO {clock} [logger.py:43] Received request {name}: prompt: None, params: SamplingParams(n=1,"
                f" temperature={chance.random():.1f}, top_p=0.95, max_tokens={chance.randrange(64, 4096)}, seed=None,"
                " stop=[], ignore_eos=False, logprobs=None), prompt_token_ids: None, lora_request: None.\n"
                f"INFO {clock} [async_llm.py:270] Added request {name}.\n"
                f"INFO:     10.0.0.{chance.randrange(256)}:{chance.randrange(30000, 60000)} - "
                '"POST /v1/chat/completions HTTP/1.1" 200 OK\n'
            )
        yield (
            f"INFO {clock} [loggers.py:118] Engine 000: Avg prompt throughput: {chance.random() * 900:.1f} tokens/s,"
            f" Avg generation throughput: {chance.random() * 900:.1f} tokens/s, Running: {chance.randrange(64)} reqs,"
            f" Waiting: {chance.randrange(4)} reqs, GPU KV cache usage: {chance.random() * 90:.1f}%, Prefix cache hit"
            f" rate: {chance.random() * 90:.1f}%\n"
        )


def coloured(chance: random.Random) -> Iterator[str]:
    """The same server, as it prints on a terminal: names of processes in colours."""
    for text in serving(chance):
        for line in text.splitlines(keepends=True):
            yield f"\x1b[1;36m(APIServer pid=4117)\x1b[0;0m {line}"


def decoding(chance: random.Random) -> Iterator[str]:
    """An SGLang server, of which nearly every line is figures that are read: the hardest of them."""
    tokens = 9000
    while True:
        for _ in range(40):
            tokens += chance.randrange(-300, 320)
            yield (
                f"[2026-11-29 12:{tokens // 60 % 60:02d}:{tokens % 60:02d} TP0] Decode batch. #running-req:"
                f" {chance.randrange(64)}, #token: {tokens}, token usage: {chance.random():.2f}, cuda graph: True, gen"
                f" throughput (token/s): {chance.random() * 900:.2f}, #queue-req: {chance.randrange(3)}\n"
            )
        yield '[2026-11-29 12:00:00] INFO:     10.0.0.7:51322 - "POST /generate HTTP/1.1" 200 OK\n' * 4


def system(chance: random.Random) -> Iterator[str]:
    """A machine's system log: kernel, systemd, containers, sessions."""
    seconds = 0.0
    while True:
        seconds += chance.random()
        clock = f"Nov 29 {int(seconds) // 3600 % 24:02d}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d} node17"
        yield (
            f"{clock} kernel: [{seconds:12.6f}] eth0: renamed from veth{chance.getrandbits(28):07x}\n"
            f"{clock} kernel: [{seconds:12.6f}] audit: type=1400 audit(17{chance.getrandbits(27)}.137:77):"
            ' apparmor="STATUS" operation="profile_load" profile="unconfined" name="docker-default"\n'
            f"{clock} systemd[1]: Started Session {chance.randrange(9999)} of User train.\n"
            f'{clock} containerd[{chance.randrange(400, 9999)}]: time="2026-11-29T12:00:00.137Z" level=info'
            f' msg="shim disconnected" id={chance.getrandbits(256):064x} namespace=moby\n'
            f"{clock} sshd[{chance.randrange(400, 99999)}]: Accepted publickey for train from"
            f" 10.0.0.{chance.randrange(256)} port {chance.randrange(30000, 60000)} ssh2: ED25519"
            f" SHA256:{chance.getrandbits(200):050x}\n"
            f"{clock} CRON[{chance.randrange(400, 99999)}]: (root) CMD (command -v debian-sa1 && debian-sa1 1 1)\n"
        )


def records(chance: random.Random) -> Iterator[str]:
    """Lines of JSON."""
    while True:
        yield (
            json.dumps(
                {
                    "timestamp": f"2026-11-29T12:00:{chance.randrange(60):02d}.{chance.randrange(1000):03d}Z",
                    "level": "info",
                    "logger": "train.loop",
                    "rank": chance.randrange(8),
                    "step": chance.randrange(100_000),
                    "loss": round(2 + chance.random(), 4),
                    "memory_allocated_bytes": chance.getrandbits(36),
                    "message": "step finished; gradients reduced over the data-parallel group",
                }
            )
            + "\n"
        )


KINDS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "training": training,
    "serving": serving,
    "serving, coloured": coloured,
    "serving, every line read": decoding,
    "system log": system,
    "JSON lines": records,
}


def write(path: Path, kind: str, size_bytes: int) -> None:
    """A log of a kind and about that size."""
    written, buried = 0, False
    with path.open("wb") as file:
        for text in KINDS[kind](random.Random(1)):
            if written >= size_bytes // 2 and not buried:
                buried = True
                file.write(f"\n{OOM.format(request='2.50')}\n".encode())
            raw = text.encode()
            file.write(raw)
            written += len(raw)
            if written >= size_bytes:
                return


def read_bare(path: Path) -> None:
    """Every byte once, a chunk at a time."""
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass


def find_one(path: Path) -> None:
    """One literal that is not there, a chunk at a time."""
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            chunk.find(b"no such words")


def count_lines(path: Path) -> None:
    """`wc -l`"""
    subprocess.run(["wc", "-l", path], stdout=subprocess.DEVNULL, check=True)


def read_ours(path: Path) -> None:
    """The reader of logs."""
    with path.open("rb") as file:
        reading = read_log(file, path.name)
    if not any(event.kind is EventKind.DEVICE_OOM for event in reading.events):
        raise RuntimeError(f"{path.name}: the message in the middle was not found")


def cpu_seconds(work: Callable[[Path], None], path: Path) -> float:
    """CPU time of this process and its children."""
    before = os.times()
    work(path)
    after = os.times()
    return sum(after[:4]) - sum(before[:4])


def measure_kinds(kinds: list[str], size_bytes: int, runs: int) -> None:
    """Prints a line for each kind of log: MB/s."""
    works = {"bare read": read_bare, "wc -l": count_lines, "find": find_one, "read_log": read_ours}
    print(f"MB/s by CPU time, best of {runs}; {size_bytes / 1e6:.0f} MB each")
    print(f"{'log':26}" + "".join(f"{name:>12}" for name in works))
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.log"
            write(path, kind, size_bytes)
            size = path.stat().st_size
            best = dict.fromkeys(works, float("inf"))
            for _ in range(runs):
                for name, work in works.items():
                    best[name] = min(best[name], cpu_seconds(work, path))
        print(f"{kind:26}" + "".join(f"{size / 1e6 / max(took, 0.01):12.0f}" for took in best.values()), flush=True)


def measure_distinct(count: int) -> None:
    """Prints how long as many messages take of which no two are equal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        path.write_text("".join(OOM.format(request=number) + "\n" for number in range(1, count + 1)))
        print(f"{count:,} different out-of-memory messages: {cpu_seconds(read_ours, path):.1f} s")


def measure_rules(runs: int) -> None:
    """Prints how long the whole playbook takes over the facts of each sample."""
    playbook = load_playbook()
    slowest, worst = "", 0.0
    for path in sorted(SAMPLES.iterdir()):
        facts = derive_facts(read_inputs([path]))
        best = float("inf")
        for _ in range(runs):
            before = time.process_time()
            match_rules(playbook, facts)
            best = min(best, time.process_time() - before)
        if best > worst:
            slowest, worst = path.name, best
    print(f"{len(playbook.rules)} rules over the facts of {slowest}, the slowest sample: {worst * 1000:.1f} ms")


def measure_large(size_bytes: int) -> None:
    """Prints the peak memory of `analyze` that reads so much from its standard input, and its speed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        write(path, "serving", 32 << 20)
        block = path.read_bytes()
    command = [sys.executable, "-m", "oomdoctor", "analyze", "-", "--format", "json"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    if process.stdin is None:
        raise RuntimeError("no pipe")
    for _ in range(size_bytes // len(block)):
        process.stdin.write(block)
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"analyze ended with wait status {status}")
    took = usage.ru_utime + usage.ru_stime
    print(
        f"{size_bytes / 1e9:.0f} GB of a server's log through a pipe into analyze: {took:.1f} s CPU,"
        f" {size_bytes / 1e6 / took:.0f} MB/s, peak memory {usage.ru_maxrss / 1024:.0f} MiB"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=64, help="size of each log")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="kinds of logs whose names hold this")
    parser.add_argument("--large", action="store_true", help="2 GB through standard input as well")
    options = parser.parse_args()
    measure_kinds([kind for kind in KINDS if options.only in kind], options.megabytes * 1_000_000, options.runs)
    measure_distinct(100_000)
    measure_rules(options.runs * 5)
    if options.large:
        measure_large(2_000_000_000)


if __name__ == "__main__":
    main()
