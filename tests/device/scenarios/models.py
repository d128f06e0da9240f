"""Models of the usual shapes, for scenarios: nothing is computed, so only sizes and lifetimes matter."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


class Block(nn.Module):
    """A transformer's block; `materialise` writes the attention scores out instead of using the fused kernel."""

    def __init__(self, width: int, heads: int, materialise: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.materialise = materialise
        self.before_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.before_mlp = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention over the whole sequence."""
        if not self.materialise:
            return functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        scores = queries @ keys.transpose(-1, -2)
        return scores.softmax(-1) @ values

    def forward(self, x: Tensor) -> Tensor:
        """One layer."""
        batch, length, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)
        attended = self.attend(queries, keys, values).transpose(1, 2).reshape(batch, length, width)
        x = x + self.projection(attended)
        return x + self.down(functional.gelu(self.up(self.before_mlp(x))))


class LanguageModel(nn.Module):
    """Embedding, blocks, and a head as wide as the vocabulary."""

    def __init__(
        self,
        width: int = 1024,
        layers: int = 12,
        heads: int = 16,
        vocabulary: int = 32000,
        longest: int = 4096,
        materialise: bool = False,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads, materialise) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits."""
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batch_of(size: int, length: int, vocabulary: int = 32000) -> Tensor:
    """Token ids on the device."""
    return torch.randint(0, vocabulary, (size, length), device="cuda")


def descend(model: LanguageModel, rate: float = 1e-4) -> None:
    """A step of plain gradient descent, without state. Making one of torch's optimizers imports its compiler."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= rate * parameter.grad
            parameter.grad = None


def loss_of(model: LanguageModel, ids: Tensor) -> Tensor:
    """The usual training loss."""
    logits = model(ids)
    return functional.cross_entropy(logits.view(-1, logits.shape[-1]), ids.view(-1))
