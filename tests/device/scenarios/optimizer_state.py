"""Weights and gradients take 14 of 24 GiB; Adam's two moments, made at the first step, would take 14 more."""

import torch
from torch import nn

CAUSE = {"cause": "optimizer-state", "owner": "optimizer", "frees_gib": 10.5}

with torch.device("cuda"):
    model = nn.Sequential(*(nn.Linear(8192, 8192, bias=False) for _ in range(28)))
optimizer = torch.optim.AdamW(model.parameters())
model(torch.empty(8, 8192, device="cuda")).sum().backward()
optimizer.step()
