"""A thread fetches batches ahead into a queue without a bound, faster than they are used. Its end goes unnoticed."""

import queue
import threading

import torch
from torch import Tensor

CAUSE = {"cause": "retained-tensors", "status": 0, "owner": "ahead", "frees_gib": 23.5}

ahead: queue.SimpleQueue[Tensor] = queue.SimpleQueue()  # queue.Queue(maxsize=4) was meant


def fetch() -> None:
    """Put one batch after another."""
    for _ in range(1000):
        ahead.put(torch.empty(64, 1 << 20, device="cuda"))


fetcher = threading.Thread(target=fetch, name="fetcher")
fetcher.start()
fetcher.join()
print("batches", ahead.qsize())
