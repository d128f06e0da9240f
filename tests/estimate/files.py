"""Model files as their writers make them, with headers only where the data does not matter."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

LLAMA_8B = {
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128_256, "torch_dtype": "bfloat16",
    "max_position_embeddings": 131_072, "tie_word_embeddings": False,
}  # fmt: skip
_SIZES = {"BF16": 2, "F16": 2, "F32": 4, "U8": 1, "I32": 4, "F8_E4M3": 1}


def write_config(folder: Path, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps({**LLAMA_8B, **changes}))
    return path


def write_safetensors(path: Path, **tensors: tuple[str, list[int]]) -> int:
    """The file with its data as a hole; the bytes of the tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, (dtype, shape) in tensors.items():
        size = _SIZES[dtype]
        for each in shape:
            size *= each
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + place)
    return place


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: object) -> bytes:
    """A pair's type and value."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    assert isinstance(value, list)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(_string(each) for each in value)
    return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def write_gguf(path: Path, metadata: dict[str, object], tensors: dict[str, tuple[int, list[int], int]]) -> None:
    """Version 3; a tensor is (ggml type, dimensions, bytes), its data a hole."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(_string(key) + _value(value) for key, value in metadata.items())
    place = 0
    for name, (kind, shape, size) in tensors.items():
        head += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, place)
        place += size
    with path.open("wb") as file:
        file.write(head)
        # The data begin at a multiple of 32.
        file.truncate(-(-len(head) // 32) * 32 + place)


def write_llama_8b_gguf(path: Path) -> None:
    """Llama-3.1-8B as llama.cpp quantises it with Q4_K_M: the more important half of two matrices in Q6_K."""
    q4, q6, f32 = (12, 256, 144), (14, 256, 210), (0, 1, 4)
    hidden, inner, rows, words = 4096, 14336, 1024, 128_256
    tensors: dict[str, tuple[int, list[int], int]] = {}

    def add(name: str, kind: tuple[int, int, int], *shape: int) -> None:
        elements = 1
        for each in shape:
            elements *= each
        tensors[name] = (kind[0], list(shape), elements // kind[1] * kind[2])

    add("token_embd.weight", q4, hidden, words)
    add("output.weight", q6, hidden, words)
    add("output_norm.weight", f32, hidden)
    add("rope_freqs.weight", f32, 64)
    for layer in range(32):
        chosen = q6 if layer < 4 or layer >= 28 or (layer - 4) % 3 == 2 else q4
        for name, kind, width in (("attn_q", q4, hidden), ("attn_k", q4, rows), ("attn_v", chosen, rows),
                                  ("attn_output", q4, hidden), ("ffn_gate", q4, inner), ("ffn_up", q4, inner),
                                  ("ffn_down", chosen, inner)):  # fmt: skip
            add(f"blk.{layer}.{name}.weight", kind, hidden, width)
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{name}.weight", f32, hidden)
    keys = {
        "block_count": 32, "embedding_length": hidden, "attention.head_count": 32, "attention.head_count_kv": 8,
        "context_length": 131_072, "feed_forward_length": inner, "vocab_size": words,
    }  # fmt: skip
    pairs: dict[str, object] = {"general.architecture": "llama", **{f"llama.{key}": each for key, each in keys.items()}}
    write_gguf(path, pairs, tensors)
