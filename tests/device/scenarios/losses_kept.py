"""Training keeps every step's loss for a plot, and with each the step's graph."""

import torch
from models import LanguageModel, batch_of, descend, loss_of

CAUSE = {"cause": "retained-tensors", "owner": "losses"}

with torch.device("cuda"):
    model = LanguageModel(width=512, layers=6, heads=8)
losses = []
for _ in range(1000):
    loss = loss_of(model, batch_of(4, 512))
    loss.backward(retain_graph=True)
    descend(model)
    losses.append(loss)  # loss.item() would keep a number
