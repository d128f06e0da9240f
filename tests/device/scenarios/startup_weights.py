"""A 13B-shaped model in half precision (48 layers of 600 MiB) is built on a card of 24 GiB."""

import torch
from torch import nn

CAUSE = {"cause": "weights-exceed-device", "owner": "layers", "frees_gib": 11.8}

WIDTH = 5120

torch.set_default_dtype(torch.float16)
layers = nn.ModuleList()
for _ in range(48):
    with torch.device("cuda"):
        layer = {
            "qkv": nn.Linear(WIDTH, 3 * WIDTH),
            "projection": nn.Linear(WIDTH, WIDTH),
            "up": nn.Linear(WIDTH, 4 * WIDTH),
            "down": nn.Linear(4 * WIDTH, WIDTH),
        }
    layers.append(nn.ModuleDict(layer))
