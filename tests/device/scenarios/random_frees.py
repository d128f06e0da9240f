"""A cached segment of 22 GiB is cut into pieces, most of which end at random: no hole is as large as their sum."""

import random

import torch
from torch import Tensor

CAUSE = {"cause": "fragmentation"}

MIB, GIB = 1 << 20, 1 << 30


def piece(size: int) -> Tensor:
    """That many bytes of the card."""
    return torch.empty(size, dtype=torch.uint8, device="cuda")


random.seed(7)
warm_up = piece(22 * GIB)
del warm_up
live = []
while torch.cuda.memory_allocated() < 21 * GIB:
    live.append(piece(random.randint(40, 400) * MIB))
live = [one for one in live if random.random() < 0.4]
large = piece(3 * GIB)
