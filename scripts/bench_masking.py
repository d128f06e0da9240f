"""How fast what a command prints is masked, plain and in colours (`make bench`).

    python scripts/bench_masking.py [--megabytes N] [--runs N] [--pieces BYTES]

Each kind is a few lines as programs print them, repeated with numbers that change, and is fed in the pieces in which
the relay masks a flood. User CPU time of one process, the best of the runs. Every kind names tokens and keys that are
no secrets, as logs of training and serving do; the last holds a secret in every hundredth line.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from oomdoctor.bundle.redact import StreamMasker  # noqa: E402

_PLAIN = (
    "2026-03-04 12:00:01,123 INFO train.loop: epoch 3 step {n} loss 0.{n:06d} lr 3.0e-05 tokens/s 12345.6\n",
    "2026-03-04 12:00:01,125 INFO serve.engine: Avg prompt throughput: {n}.4 tokens/s, GPU KV cache usage: 41.2%\n",
    "2026-03-04 12:00:01,127 DEBUG data: batch {n} shapes (8, 4096), (8, 4096) keys input_ids labels\n",
)
_COLOURED = (
    "\x1b[32m2026-03-04 12:00:01.123\x1b[0m | \x1b[1mINFO    \x1b[0m | \x1b[36mtrain\x1b[0m:\x1b[36mloop\x1b[0m:"
    "\x1b[36m42\x1b[0m - \x1b[1mstep {n} loss 0.{n:06d} tokens/s 12345.6\x1b[0m\n",
    "\x1b[2;36m[12:00:01]\x1b[0m\x1b[2;36m \x1b[0m\x1b[34mINFO    \x1b[0m kv cache \x1b[1;36m{n}\x1b[0m blocks, "
    "\x1b[1;36m41.2\x1b[0m% \x1b[2mengine.py\x1b[0m\x1b[2m:\x1b[0m\x1b[2m118\x1b[0m\n",
)
_BAR = ("\r\x1b[K\x1b[38;5;39mEpoch 3\x1b[0m:  41%|\x1b[32m████▏     \x1b[0m| {n}/99999 [00:12<00:17, 5.1it/s]",)
_SECRETS = (*_COLOURED * 49, "\x1b[1mHF_TOKEN\x1b[0m=\x1b[32mhf" + "_abcdefghijklmnopqrstuvwx{n}\x1b[0m\n")
KINDS = {"plain": _PLAIN, "coloured": _COLOURED, "a progress bar": _BAR, "coloured, with secrets": _SECRETS}


def text(lines: tuple[str, ...], size_bytes: int) -> bytes:
    """`size_bytes` of these lines and the rest of the last."""
    made, length, number = [], 0, 0
    while length < size_bytes:
        line = lines[number % len(lines)].format(n=number).encode()
        made.append(line)
        length, number = length + len(line), number + 1
    return b"".join(made)


def seconds(act: Callable[[], object]) -> float:
    """The user CPU time that it takes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    act()
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before


def masked(data: bytes, piece_bytes: int) -> int:
    """Feed it piece by piece; the length of what comes out."""
    masker = StreamMasker()
    pieces = range(0, len(data), piece_bytes)
    return sum(len(masker.feed(data[at : at + piece_bytes])) for at in pieces) + len(masker.flush())


def main() -> None:
    """Print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=16)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pieces", type=int, default=1 << 20, metavar="BYTES")
    options = parser.parse_args()
    print(f"masking, MB/s by user CPU time, best of {options.runs}; {options.megabytes:g} MB each (goal 20)")
    for kind, lines in KINDS.items():
        data = text(lines, int(options.megabytes * 1e6))
        best = min(seconds(lambda data=data: masked(data, options.pieces)) for _ in range(options.runs))
        print(f"    {kind:24} {len(data) / 1e6 / max(best, 1e-9):6.1f}", flush=True)


if __name__ == "__main__":
    main()
