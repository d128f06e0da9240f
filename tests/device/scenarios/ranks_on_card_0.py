"""Two ranks, two cards; neither chooses its card, so both build their model on the first."""

import time

import torch
from torch import nn

CAUSE = {"cause": "ranks-on-one-gpu", "devices": 2, "launcher": ["torchrun", "--nproc-per-node", "2"]}

with torch.device("cuda"):  # torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) is missing
    model = nn.ModuleList()
    for _ in range(56):  # 14 GiB
        model.append(nn.Linear(8192, 8192, bias=False))
        time.sleep(0.02)
time.sleep(3)
