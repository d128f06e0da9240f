"""The forward pass just fits; the first gradients, made in autograd's own thread, do not."""

import torch
from torch import nn

CAUSE = {"cause": "activation-peak", "frees_gib": 11.75}

WIDTH, BATCH = 4096, 70000  # an activation is 1.07 GiB; 21 of them fit, the first gradient does not

with torch.device("cuda"):
    model = nn.Sequential(*(layer for _ in range(10) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())))
batch = torch.empty(BATCH, WIDTH, device="cuda")
output = model(batch)
output.sum().backward()
