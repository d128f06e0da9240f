"""Decoding keeps keys and values and grows them by torch.cat, 32 MiB a token, for more tokens than fit."""

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

CAUSE = {"cause": "kv-growth", "owner": "cache"}

BATCH, LAYERS, HEADS, HEAD_WIDTH = 64, 32, 32, 128
WIDTH = HEADS * HEAD_WIDTH


class Layer(nn.Module):
    """Attention with a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.projection = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One token further."""
        queries, keys, values = self.qkv(x).view(BATCH, -1, 3, HEADS, HEAD_WIDTH).permute(2, 0, 3, 1, 4)
        if past is not None:
            keys = torch.cat([past[0], keys], dim=2)
            values = torch.cat([past[1], values], dim=2)
        attended = functional.scaled_dot_product_attention(queries, keys, values)
        return x + self.projection(attended.transpose(1, 2).reshape(BATCH, -1, WIDTH)), (keys, values)


@torch.no_grad()
def decode(layers: nn.ModuleList, tokens: int) -> None:
    """Token by token."""
    cache: list[tuple[Tensor, Tensor] | None] = [None] * len(layers)
    for _ in range(tokens):
        x = torch.empty(BATCH, 1, WIDTH, device="cuda")
        for i, layer in enumerate(layers):
            x, cache[i] = layer(x, cache[i])


torch.set_default_dtype(torch.float16)
with torch.device("cuda"):
    stack = nn.ModuleList(Layer() for _ in range(LAYERS))
decode(stack, 4096)
