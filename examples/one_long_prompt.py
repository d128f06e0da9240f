"""A server whose attention is quadratic meets one long prompt among short ones (for a CUDA device of 24 GiB)."""

import torch

HEADS, WIDTH = 16, 128


@torch.no_grad()
def attend(tokens):
    """Attention with the whole score matrix in memory: heads × tokens × tokens."""
    query, key, value = (torch.randn(HEADS, tokens, WIDTH, device="cuda", dtype=torch.float16) for _ in range(3))
    scores = query @ key.transpose(-1, -2)
    return scores.softmax(-1) @ value


weights = torch.randn(2 << 30, device="cuda", dtype=torch.float16)
for tokens in (512, 2048, 900, 4096, 1200, 700, 26_000, 512):
    attend(tokens)
    print(f"{tokens} tokens: peak {torch.cuda.max_memory_allocated() >> 20} MiB", flush=True)
