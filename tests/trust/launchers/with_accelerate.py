"""A loop prepared by accelerate whose last process keeps tensors."""

import torch
from accelerate import Accelerator
from limit import leave_little

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(64, 64)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
kept: list[torch.Tensor] = []
for step in range(200):
    if accelerator.is_last_process:
        if step == 3:
            leave_little()
        kept += [torch.ones(4 << 20)] * (step >= 3)
    accelerator.backward(model(torch.ones(4, 64)).sum())
    optimizer.step()
    optimizer.zero_grad()
