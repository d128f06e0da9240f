"""Training with a batch whose activations, saved for backward, do not fit."""

import torch
from models import LanguageModel, batch_of, loss_of

CAUSE = {"cause": "activation-peak"}

with torch.device("cuda"):
    model = LanguageModel()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = loss_of(model, batch_of(48, 1024))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
