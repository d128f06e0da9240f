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
        file.truncate(len(head) + 64 + place)
