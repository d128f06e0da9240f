"""Somebody else on the card: `neighbour.py hold 18GiB`, or `neighbour.py visit 16GiB SECONDS` (comes and goes).

Prints a line once it holds the memory for the first time; ends when its standard input does.
"""

from __future__ import annotations

import select
import sys
import time

import torch


def main(manner: str, size: str, seconds: str = "1") -> None:
    """Hold `size` GiB until the end, or `seconds` of every two times `seconds`."""
    held_bytes = int(float(size.removesuffix("GiB")) * 2**30)
    while True:
        try:
            held = torch.empty(held_bytes, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            time.sleep(0.05)
            continue
        print("holding", flush=True)
        if ended_within(None if manner == "hold" else float(seconds)):
            return
        del held
        torch.cuda.empty_cache()
        if ended_within(float(seconds)):
            return


def ended_within(seconds: float | None) -> bool:
    """Wait for the end of standard input."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready)


if __name__ == "__main__":
    main(*sys.argv[1:])
