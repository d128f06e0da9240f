"""The losses of all micro-batches stay in a list until the step goes backward; already the first step is too large."""

import torch
from torch import Tensor, nn

CAUSE = {"cause": "activation-peak", "owner": "losses"}


class Net(nn.Module):
    """Eight wide layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4096, 4096) for _ in range(8))

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of the last layer."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters())


def train_step(micro_batches: int) -> None:
    """One update for all micro-batches."""
    losses = []
    for _ in range(micro_batches):
        x = torch.empty(16384, 4096, device="cuda")
        losses.append(net(x).square().mean())
    torch.stack(losses).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


for _step in range(10):
    train_step(16)
