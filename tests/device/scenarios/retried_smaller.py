"""The largest batch that fits is looked for: each failure is caught and half of it tried. It ends well."""

import time

import torch
from models import LanguageModel, batch_of, loss_of

CAUSE = {"cause": "not-oom-recovered", "verdict": "degraded", "status": 0}

with torch.device("cuda"):
    model = LanguageModel()
size = 128
while size:
    try:
        loss_of(model, batch_of(size, 1024)).backward()
        break
    except torch.cuda.OutOfMemoryError:
        pass
    model.zero_grad()
    size //= 2
for _ in range(3):
    loss_of(model, batch_of(size, 1024)).backward()
    model.zero_grad()
print("batch", size)
time.sleep(0.5)  # autograd's thread may still be at work when backward returns; Python ending under it aborts
