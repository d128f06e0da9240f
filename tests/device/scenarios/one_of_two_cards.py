"""Both halves of a model that needs two cards go to the first."""

import torch
from torch import nn

CAUSE = {"cause": "gpu-imbalance", "devices": 2, "frees_gib": 11.75}


def half() -> nn.Sequential:
    """13 GiB."""
    return nn.Sequential(*(nn.Linear(8192, 8192, bias=False) for _ in range(52)))


torch.set_default_dtype(torch.float32)
torch.empty(1, device="cuda:1")
with torch.device("cuda"):
    first = half()
with torch.device("cuda"):  # cuda:1 was meant
    second = half()
