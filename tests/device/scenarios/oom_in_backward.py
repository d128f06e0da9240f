"""The forward pass just fits; the first gradients, made in autograd's own thread, do not."""

import torch
from torch import nn

CAUSE = {"cause": "activation-peak", "frees_gib": 11.5}

WIDTH, BATCH = 4096, 65536  # an activation is 1 GiB

with torch.device("cuda"):
    model = nn.Sequential(*(layer for _ in range(11) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())))
loss = model(torch.empty(BATCH, WIDTH, device="cuda")).sum()
loss.backward()
