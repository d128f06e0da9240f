"""The process may use a quarter of the card, by its own setting; most of the card is free when it runs out."""

import torch
from models import LanguageModel, batch_of, descend, loss_of

CAUSE = {"cause": "memory-cap", "frees_gib": 18.0}

torch.cuda.set_per_process_memory_fraction(0.25)
with torch.device("cuda"):
    model = LanguageModel()
for _ in range(3):
    loss_of(model, batch_of(8, 1024)).backward()
    descend(model)
