"""A small model with a vocabulary of 128256: its logits, and their copies in the loss, are most of what it needs."""

import torch
import torch.nn.functional as functional
from models import LanguageModel, batch_of, descend

CAUSE = {"cause": "logits", "owner": "step", "frees_gib": 13.7}

VOCABULARY = 128256


def step(model: LanguageModel) -> None:
    """The loss is computed in single precision."""
    ids = batch_of(8, 2048, VOCABULARY)
    logits = model(ids).float()
    loss = functional.cross_entropy(logits.view(-1, VOCABULARY), ids.view(-1))
    loss.backward()
    descend(model)


torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    network = LanguageModel(width=512, layers=4, heads=8, vocabulary=VOCABULARY)
for _ in range(3):
    step(network)
