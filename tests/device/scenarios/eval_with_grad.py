"""Training fits. Evaluation takes a larger batch, which would fit too, had it not forgotten torch.no_grad()."""

import torch
from models import LanguageModel, batch_of, loss_of

CAUSE = {"cause": "eval-grad", "owner": "evaluate"}


def evaluate(model: LanguageModel) -> float:
    """The mean loss."""
    model.eval()
    return sum(loss_of(model, batch_of(32, 1024)).item() for _ in range(4)) / 4


with torch.device("cuda"):
    network = LanguageModel()
optimizer = torch.optim.AdamW(network.parameters())
for _ in range(5):
    loss = loss_of(network, batch_of(8, 1024))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
evaluate(network)
