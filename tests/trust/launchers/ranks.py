"""Ranks that sum over gloo: the second keeps tensors until it has no memory left, or is killed."""

import os
import signal
import sys

import torch
import torch.distributed as dist
from limit import leave_little

dist.init_process_group("gloo")
kept, total = [], torch.ones(1000)
for step in range(1000):
    if dist.get_rank() == 1 and step == 5:
        if sys.argv[1:] == ["killed"]:
            os.kill(os.getpid(), signal.SIGKILL)
        leave_little()
    if dist.get_rank() == 1 and step >= 5:
        kept.append(torch.ones(4 << 20))
    dist.all_reduce(total)
