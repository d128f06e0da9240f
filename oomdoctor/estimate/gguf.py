"""A GGUF file's metadata and tensor list, without its data.

Layout (ggml's docs/gguf.md): `GGUF`, version, number of tensors, number of metadata pairs; the pairs (key, type,
value); the tensors (name, dimensions, type, offset). Strings have a length in eight bytes before them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import InputRefused
from ..language import _
from .files import StoredTensor

MAGIC = b"GGUF"
_MOST_PAIRS, _MOST_TENSORS, _MOST_ITEMS = 100_000, 1_000_000, 4_000_000
_MOST_STRING, _KEPT_ITEMS, _MOST_DEPTH = 1 << 24, 4096, 2
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_ALIGNMENT = 32
"""Of the data and of each tensor in it, unless `general.alignment` says another."""

BLOCKS = {
    0: ("f32", 1, 4), 1: ("f16", 1, 2), 2: ("q4_0", 32, 18), 3: ("q4_1", 32, 20), 6: ("q5_0", 32, 22),
    7: ("q5_1", 32, 24), 8: ("q8_0", 32, 34), 9: ("q8_1", 32, 40), 10: ("q2_k", 256, 84), 11: ("q3_k", 256, 110),
    12: ("q4_k", 256, 144), 13: ("q5_k", 256, 176), 14: ("q6_k", 256, 210), 15: ("q8_k", 256, 292),
    16: ("iq2_xxs", 256, 66), 17: ("iq2_xs", 256, 74), 18: ("iq3_xxs", 256, 98), 19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18), 21: ("iq3_s", 256, 110), 22: ("iq2_s", 256, 82), 23: ("iq4_xs", 256, 136),
    24: ("i8", 1, 1), 25: ("i16", 1, 2), 26: ("i32", 1, 4), 27: ("i64", 1, 8), 28: ("f64", 1, 8),
    29: ("iq1_m", 256, 56), 30: ("bf16", 1, 2), 34: ("tq1_0", 256, 54), 35: ("tq2_0", 256, 66),
    39: ("mxfp4", 32, 17), 40: ("nvfp4", 64, 36), 41: ("q1_0", 128, 18),
}  # fmt: skip
"""ggml_type → name, values a block, bytes a block (gguf-py's GGML_QUANT_SIZES)."""

Value = int | float | bool | str | tuple[int | float | bool | str, ...]


@dataclass(frozen=True)
class GgufFile:
    """What stands before the data. Of a long list only its length is kept."""

    metadata: dict[str, Value]
    lengths: dict[str, int]
    tensors: tuple[StoredTensor, ...]


def read_gguf(path: Path) -> GgufFile:
    """The file's metadata and tensors. Raises InputRefused for what no writer makes."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return _Reader(file, path, size).read()
    except OSError as error:
        raise InputRefused(f"{path}: {error.strerror}") from error


class _Reader:
    def __init__(self, file: BinaryIO, path: Path, size: int) -> None:
        self._file, self._path, self._size = file, path, size

    def read(self) -> GgufFile:
        if self._bytes(4) != MAGIC:
            raise self._refusal(_("not a GGUF file"))
        version = self._number("I")
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        if swapped in (1, 2, 3) and version not in (1, 2, 3):
            raise self._refusal(
                _("a big-endian GGUF file (version {version}); little-endian ones are read").format(version=swapped)
            )
        if version not in (2, 3):
            raise self._refusal(_("GGUF version {version} is not read, 2 and 3 are").format(version=version))
        tensors, pairs = self._number("Q"), self._number("Q")
        if tensors > _MOST_TENSORS or pairs > _MOST_PAIRS:
            raise self._refusal(
                _("{tensors} tensors and {pairs} pairs of metadata are not those of a model").format(
                    tensors=tensors, pairs=pairs
                )
            )
        metadata: dict[str, Value] = {}
        lengths: dict[str, int] = {}
        for _number in range(pairs):
            key = self._string()
            kind = self._number("I")
            if kind == _ARRAY:
                items, lengths[key] = self._array(0)
                if items is not None:
                    metadata[key] = items
            else:
                metadata[key] = self._scalar(kind)
        placed = [self._tensor() for _number in range(tensors)]
        self._refuse_cut(placed, metadata.get("general.alignment"))
        return GgufFile(metadata, lengths, tuple(tensor for tensor, _offset in placed))

    def _refuse_cut(self, placed: list[tuple[StoredTensor, int]], alignment: Value | None) -> None:
        """Offsets count from the end of the header, aligned."""
        step = _ALIGNMENT if alignment is None else alignment
        if isinstance(step, bool) or not isinstance(step, int) or step < 1:
            raise self._refusal(f"general.alignment is {str(step)[:40]!r}")
        start = -(-self._file.tell() // step) * step
        for tensor, offset in placed:
            end = start + offset + tensor.bytes
            if tensor.bytes and end > self._size:
                raise self._refusal(
                    _("{name} ends at byte {end} of a file of {size} bytes: it was cut short").format(
                        name=repr(tensor.name[:60]), end=f"{end:,}", size=f"{self._size:,}"
                    )
                )

    def _tensor(self) -> tuple[StoredTensor, int]:
        """A tensor and where its data begin."""
        name = self._string()
        dimensions = self._number("I")
        if not 0 <= dimensions <= 8:
            raise self._refusal(f"{name[:60]!r} has {dimensions} dimensions")
        shape = [self._number("Q") for _number in range(dimensions)]
        kind, offset = self._number("I"), self._number("Q")
        if kind not in BLOCKS:
            raise self._refusal(
                _("{name} has the element type {kind}, whose size is not known").format(name=repr(name[:60]), kind=kind)
            )
        dtype, values, size = BLOCKS[kind]
        elements = math.prod(shape)
        if shape and shape[0] % values:
            raise self._refusal(
                _("a row of {name} is not in whole blocks of {dtype}").format(name=repr(name[:60]), dtype=dtype)
            )
        if elements // values * size > self._size:
            raise self._refusal(_("{name} is larger than the file").format(name=repr(name[:60])))
        return StoredTensor(name, dtype, elements, elements // values * size), offset

    def _array(self, depth: int) -> tuple[tuple[int | float | bool | str, ...] | None, int]:
        """Its items, None if there are too many to be dimensions, and their number."""
        kind, count = self._number("I"), self._number("Q")
        if count > _MOST_ITEMS or depth > _MOST_DEPTH:
            raise self._refusal(_("a list of {count} items in the metadata").format(count=count))
        if kind in _SCALARS:
            raw = self._bytes(count * struct.calcsize("<" + _SCALARS[kind]))
            return (struct.unpack(f"<{count}{_SCALARS[kind]}", raw) if count <= _KEPT_ITEMS else None), count
        step: Callable[[], object] = self._skip_string if kind == _STRING else lambda: self._array(depth + 1)
        if kind not in (_STRING, _ARRAY):
            raise self._refusal(_("metadata of the unknown type {kind}").format(kind=kind))
        for _number in range(count):
            step()
        return None, count

    def _scalar(self, kind: int) -> int | float | bool | str:
        if kind == _STRING:
            return self._string()
        if kind not in _SCALARS:
            raise self._refusal(_("metadata of the unknown type {kind}").format(kind=kind))
        found: int | float | bool = struct.unpack("<" + _SCALARS[kind], self._bytes(struct.calcsize(_SCALARS[kind])))[0]
        return found

    def _number(self, form: str) -> int:
        return int(struct.unpack("<" + form, self._bytes(struct.calcsize("<" + form)))[0])

    def _string(self) -> str:
        return self._bytes(self._string_length()).decode("utf-8", "replace")

    def _skip_string(self) -> None:
        self._bytes(self._string_length())

    def _string_length(self) -> int:
        length = self._number("Q")
        if length > _MOST_STRING:
            raise self._refusal(_("a string of {length} bytes").format(length=length))
        return length

    def _bytes(self, count: int) -> bytes:
        found = self._file.read(count)
        if len(found) != count:
            raise self._refusal(_("it ends within its header"))
        return found

    def _refusal(self, why: str) -> InputRefused:
        return InputRefused(f"{self._path}: {why}")
