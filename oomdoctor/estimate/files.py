"""Reading the small parts of model files: bounded, and nothing of them is executed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputRefused
from ..language import _

MOST_JSON_BYTES = 100_000_000
"""The limit of safetensors' own reader for a header; no configuration or index is larger."""
_MOST_TENSORS = 2_000_000
_ELEMENT_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
FLOATS = frozenset(("F16", "BF16", "F32", "F64"))
"""Types that a loader casts; quantised ones stay as they are."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as a header tells it."""

    name: str
    dtype: str
    elements: int
    bytes: int


def read_json(path: Path) -> Any:
    """A JSON file of bounded size. Raises InputRefused."""
    try:
        if path.stat().st_size > MOST_JSON_BYTES:
            raise InputRefused(_("{path}: too large for a configuration").format(path=path))
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InputRefused(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputRefused(_("{path}: not JSON ({why})").format(path=path, why=str(error)[:80])) from error


def read_safetensors(path: Path) -> list[StoredTensor]:
    """The tensors of a safetensors file, from its header alone.

    The file starts with the header's length (8 bytes, little-endian) and the header in JSON; a tensor's place is
    `data_offsets`. Raises InputRefused where they do not lie in the file or contradict the shape.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(MOST_JSON_BYTES, size - 8):
                raise InputRefused(
                    _("{path}: not a safetensors file (a header of {length} bytes)").format(path=path, length=length)
                )
            header = json.loads(file.read(length))
    except OSError as error:
        raise InputRefused(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputRefused(
            _("{path}: its header is not JSON ({why})").format(path=path, why=str(error)[:80])
        ) from error
    if not isinstance(header, dict) or len(header) > _MOST_TENSORS:
        raise InputRefused(_("{path}: its header is not one of tensors").format(path=path))
    room = size - 8 - length
    found = [_tensor(path, name, entry, room) for name, entry in header.items() if name != "__metadata__"]
    if sum(each.bytes for each in found) > room:
        raise InputRefused(_("{path}: its tensors lie over each other").format(path=path))
    return found


def _tensor(path: Path, name: str, entry: object, room: int) -> StoredTensor:
    try:
        if not isinstance(entry, dict):
            raise TypeError
        begin, end = entry["data_offsets"]
        shape, dtype = entry["shape"], entry["dtype"]
        if len(shape) > 32 or not all(type(each) is int and each >= 0 for each in (begin, end, *shape)):
            raise TypeError
        elements = math.prod(shape)
        bits = _ELEMENT_BITS.get(dtype)
    except (KeyError, TypeError, ValueError) as error:
        raise InputRefused(
            _("{path}: the header's entry of {name} is not a tensor").format(path=path, name=repr(name[:80]))
        ) from error
    if not begin <= end <= room or (bits is not None and -(-elements * bits // 8) != end - begin):
        raise InputRefused(
            _("{path}: the place of {name} in the file contradicts its shape or the file's size").format(
                path=path, name=repr(name[:80])
            )
        )
    return StoredTensor(name, dtype, elements, end - begin)
