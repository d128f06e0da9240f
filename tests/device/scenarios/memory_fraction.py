"""The process may use a quarter of the card, by its own setting; most of the card is free when it runs out."""

import torch
from models import LanguageModel, batch_of, loss_of

CAUSE = {"cause": "memory-cap", "frees_gib": 18.0}

torch.cuda.set_per_process_memory_fraction(0.25)
with torch.device("cuda"):
    model = LanguageModel()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = loss_of(model, batch_of(8, 1024))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
