"""Training with a batch whose activations, saved for backward, do not fit."""

import torch
from models import LanguageModel, batch_of, descend, loss_of

CAUSE = {"cause": "activation-peak"}

with torch.device("cuda"):
    model = LanguageModel()
for _ in range(3):
    loss_of(model, batch_of(48, 1024)).backward()
    descend(model)
