"""Somebody else on the card: `neighbour.py hold 18GiB`, or `neighbour.py visit 16GiB SECONDS` (comes and goes).

Prints a line once it holds the memory for the first time; ends when its standard input does.
"""

from __future__ import annotations

import ctypes
import select
import sys
import time

cuda = ctypes.CDLL("libcuda.so.1")  # without torch, which takes seconds to import


def main(manner: str, size: str, seconds: str = "1") -> None:
    """Hold `size` GiB until the end, or `seconds` of every two times `seconds`."""
    held_bytes = int(float(size.removesuffix("GiB")) * 2**30)
    while True:
        held = ctypes.c_void_p()
        if cuda.cudaMalloc(ctypes.byref(held), ctypes.c_size_t(held_bytes)):
            time.sleep(0.05)
            continue
        print("holding", flush=True)
        if ended_within(None if manner == "hold" else float(seconds)):
            return
        cuda.cudaFree(held)
        if ended_within(float(seconds)):
            return


def ended_within(seconds: float | None) -> bool:
    """Wait for the end of standard input."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready)


if __name__ == "__main__":
    main(*sys.argv[1:])
