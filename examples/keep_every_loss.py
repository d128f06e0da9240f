"""A PyTorch training loop with a common mistake: the losses are kept with their graphs (needs a CUDA device)."""

import torch
from torch import nn

model = nn.Sequential(
    *(nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)) for _ in range(4))
).cuda()
optimizer = torch.optim.AdamW(model.parameters())
losses = []
for step in range(100_000):
    batch = torch.randn(4096, 2048, device="cuda")
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    losses.append(loss)  # the mistake: losses.append(loss.item()) keeps a number
    if step % 5 == 0:
        print(f"step {step}: {torch.cuda.memory_allocated() >> 20} MiB allocated", flush=True)
