"""Inference that would fit the card alone; another process, not ours, holds 18.5 GiB of it."""

import torch
from models import LanguageModel, batch_of

CAUSE = {"cause": "other-process", "neighbours": [["hold", "18.5GiB"]], "frees_gib": 18.91}

torch.set_default_dtype(torch.float16)
with torch.device("cuda"):
    model = LanguageModel(width=2048, layers=16)
with torch.no_grad():
    for size in (1, 4, 16, 64):
        model(batch_of(size, 2048))
