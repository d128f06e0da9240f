"""Attention scores are written out: fine for prompts of 2000 tokens, 23 GiB for one of 28000."""

import torch
from models import LanguageModel, batch_of

CAUSE = {"cause": "attention-quadratic", "owner": "attend", "frees_gib": 23.37}

torch.set_default_dtype(torch.float16)
with torch.device("cuda"):
    model = LanguageModel(width=2048, layers=16, longest=32768, materialise=True)


@torch.no_grad()
def serve(length: int) -> None:
    """One request."""
    model(batch_of(1, length))[:, -1].argmax(-1)


for length in (512, 900, 640, 1500, 700, 2048, 1200, 800, 28000, 512):
    serve(length)
