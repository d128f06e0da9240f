"""Requests need 12 GiB for a moment. It works until another process comes for a second, with 16 GiB, and goes again."""

import time

import torch

CAUSE = {"cause": "other-process", "neighbours": [["visit", "16GiB", "1"]], "frees_gib": 16.41}

weights = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
for _ in range(400):
    torch.empty(12 << 30, dtype=torch.uint8, device="cuda")
    torch.cuda.empty_cache()
    time.sleep(0.05)
