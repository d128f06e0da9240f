"""Element types: bytes of a row of values, the scales of quantised ones included.

Scales of a block stand in the block. Those of vLLM's `…_per_token_head` are a float32 for each token and head, of keys
and of values (page size in its `kv_cache_interface.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError
from ..language import _
from .tensors import row_elements


@dataclass(frozen=True)
class ElementType:
    """`block_bytes` hold `block_values` values, with what belongs to them (scales, minima)."""

    name: str
    block_values: int
    block_bytes: int
    head_scale_bytes: int = 0
    """Beside the values, for each token and head."""

    def bytes_of(self, values: int) -> int:
        """Bytes of a row of so many values; the last block is whole."""
        return -(-values // self.block_values) * self.block_bytes

    @property
    def is_float(self) -> bool:
        """Whether weights can be cast to it: quantised values have scales, and not all weights become such."""
        return self.block_values == 1 and self.block_bytes > 1

    def row_bytes(self, heads: int, width: int) -> int:
        """Bytes of what so many heads keep of one token."""
        return self.bytes_of(row_elements(heads, width)) + heads * self.head_scale_bytes

    @property
    def bits(self) -> float:
        """Per value."""
        return 8 * self.block_bytes / self.block_values


def _plain(name: str, size: int) -> ElementType:
    return ElementType(name, 1, size)


_FLOATS = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "float8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1, "uint8": 1,
}  # fmt: skip
_ALIASES = {
    "fp32": "float32", "f32": "float32", "fp16": "float16", "f16": "float16", "half": "float16", "float": "float32",
    "bf16": "bfloat16", "fp8": "float8", "fp8_e4m3": "float8", "fp8_e5m2": "float8", "double": "float64",
    "fp4_e2m1": "fp4_mx_block16",
}  # fmt: skip
_BLOCKS = {
    "q8_0": (32, 34), "q5_1": (32, 24), "q5_0": (32, 22), "q4_1": (32, 20), "q4_0": (32, 18), "iq4_nl": (32, 18),
    "nvfp4": (16, 9), "mxfp4": (32, 17), "fp4_mx_block16": (16, 9), "mxfp8": (32, 33),
}  # fmt: skip
"""Values a block and its bytes: 32 values of q8_0 have a two-byte scale (ggml's block structures); 16 of nvfp4 and
of SGLang's fp4_mx_block16 (older: fp4_e2m1), 32 of mxfp4 and mxfp8 a one-byte scale."""

_PER_TOKEN_HEAD = {
    "int8_per_token_head": (1, 1, 4), "fp8_per_token_head": (1, 1, 4), "int4_per_token_head": (2, 1, 4),
}  # fmt: skip

NAMES = (*_FLOATS, *_ALIASES, *_BLOCKS, *_PER_TOKEN_HEAD)


def element_type(name: str) -> ElementType:
    """The type of that name, as frameworks and llama.cpp spell it. Raises UsageError for another."""
    plain = name.lower().removeprefix("torch.")
    plain = _ALIASES.get(plain, plain)
    if plain in _FLOATS:
        return _plain(plain, _FLOATS[plain])
    if plain in _BLOCKS:
        return ElementType(plain, *_BLOCKS[plain])
    if plain in _PER_TOKEN_HEAD:
        return ElementType(plain, *_PER_TOKEN_HEAD[plain])
    raise UsageError(
        _("no element type that is known here: {name}; one of {names}").format(name=repr(name), names=", ".join(NAMES))
    )
