"""How large a Python object is, with what it contains.

Nothing of the user's is run: no `__sizeof__`, `__len__`, property or `__class__` of his classes, only the slots of the
built-in types they derive from. Types of numpy, torch and pandas are known by name, so that none of them is imported.
"""

from __future__ import annotations

import sys
from itertools import islice
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_IS_MADE = 1 << 9
"""The flag of types that are made while the program runs, as by `class`."""
_DEEPEST = 8
_MOST_OBJECTS = 20000
_SAMPLE = 64

_SEQUENCES = (list, tuple)
_SETS = (set, frozenset)
_FLAT = (str, bytes, bytearray, int, float, complex, bool, type(None), memoryview, range)
_PLAIN = (*_SEQUENCES, *_SETS, dict, *_FLAT)


def is_plain(kind: type) -> bool:
    """Whether it is a built-in type, which has no attributes of the user's."""
    return kind in _PLAIN or kind is type(sys) or kind.__module__ == "builtins" and kind is not type


def own_size(held: Any) -> int:
    """Bytes of the object alone."""
    try:
        return _own_size(held)
    except Exception:
        return 0


class Measure:
    """The size of one object: of itself, with all it contains, and its number of elements."""

    def __init__(self, held: object, deadline: float) -> None:
        self.complete = True
        self.extrapolated = False
        self._left = _MOST_OBJECTS
        self._deadline = deadline
        self._seen: set[object] = set()
        self.length = _length(held)
        self.own_bytes = _own_size(held)
        self.deep_bytes = int(self._deep(held, 0))

    def _deep(self, held: object, depth: int) -> float:
        identity = _identity(held)
        if identity in self._seen:
            return 0
        self._left -= 1
        if self._left < 0 or (self._left % 64 == 0 and monotonic() > self._deadline):
            self.complete = False
            return 0
        self._seen.add(identity)
        size: float = _own_size(held)
        if issubclass(type(held), _FLAT):
            return size
        parts, count = _contents(held)
        if not parts:
            return size
        if depth >= _DEEPEST:
            self.complete = False
            return size
        inside = 0.0
        distinct = 0
        for part in parts:
            distinct += _identity(part) not in self._seen
            inside += self._deep(part, depth + 1)
        if count > len(parts):
            self.complete = False
            # A sample that repeats itself comes from few elements held many times.
            if distinct > len(parts) // 4:
                self.extrapolated = True
                inside *= count / len(parts)
        return size + inside


def _length(held: object) -> int | None:
    for kind in (*_SEQUENCES, *_SETS, dict, str, bytes, bytearray):
        if issubclass(type(held), kind):
            length: int = kind.__len__(held)  # type: ignore[arg-type]
            return length
    kind = _known(held)
    if kind is not None and kind.__name__ in ("deque", "array"):
        return int(kind.__len__(held))
    return None


def _own_size(held: Any) -> int:
    kind = type(held)
    base: Any
    for base in _PLAIN:
        if issubclass(kind, base):
            return int(base.__sizeof__(held))
    known = _known(held)
    if known is None:
        return _size_by_type(held)
    return _known_size(known, held)


def _size_by_type(held: Any) -> int:
    """As its built-in type tells it. `object` multiplies by a number of items that a generator or a frame has not."""
    kind = type(held)
    builtins = (base for base in kind.__mro__ if base.__module__ == "builtins" and not base.__flags__ & _IS_MADE)
    builtin: Any = next(builtins)
    if builtin.__sizeof__ is object.__sizeof__ and kind.__itemsize__:
        return int(kind.__basicsize__)
    return int(builtin.__sizeof__(held))


def _known(held: Any) -> Any:
    """The type of another library that this object is or derives from, if it is one we can measure."""
    for kind in type(held).__mro__:
        if (kind.__module__, kind.__name__) in _KNOWN:
            return kind
    return None


_KNOWN = {
    ("numpy", "ndarray"),
    ("torch", "Tensor"),
    ("pandas.core.frame", "DataFrame"),
    ("pandas.core.series", "Series"),
    ("pandas", "DataFrame"),
    ("pandas", "Series"),
    ("array", "array"),
    ("collections", "deque"),
}


def _known_size(kind: Any, held: Any) -> int:
    if kind.__name__ == "ndarray":
        # A view's bytes belong to its base, which is followed.
        own = kind.base.__get__(held) is None
        return int(object.__sizeof__(held)) + (int(kind.nbytes.__get__(held)) if own else 0)
    if kind.__name__ == "Tensor":
        # Subclasses of Tensor may run code of their own for any question; parameters are the one that does not.
        if type(held).__name__ not in ("Tensor", "Parameter") or held.device.type != "cpu":
            return 0
        return int(_storage(held).nbytes())
    if kind.__name__ in ("DataFrame", "Series"):
        usage = kind.memory_usage(held, index=True, deep=False)
        return int(usage if kind.__name__ == "Series" else usage.sum())
    return int(kind.__sizeof__(held))


def _storage(tensor: Any) -> Any:
    """The memory behind a tensor; torch before 2.0 has the typed one only."""
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def _identity(held: Any) -> object:
    """What makes two objects one: for CPU tensors the memory behind them, which views share."""
    kind = _known(held)
    if kind is not None and kind.__name__ == "Tensor" and type(held).__name__ in ("Tensor", "Parameter"):
        if held.device.type == "cpu":
            return ("storage", _storage(held).data_ptr())
    return id(held)


def _contents(held: Any) -> tuple[list[object], int]:
    """Elements to follow, and how many there are of them in all: of a long container a sample."""
    kind = type(held)
    if issubclass(kind, _SEQUENCES):
        base = list if issubclass(kind, list) else tuple
        count = base.__len__(held)
        if count <= 2 * _SAMPLE:
            return list(base.__iter__(held)), count
        return [base.__getitem__(held, index * (count - 1) // (_SAMPLE - 1)) for index in range(_SAMPLE)], count
    if issubclass(kind, dict):
        return _of_dict(held)
    if issubclass(kind, _SETS):
        base_set: Any = set if issubclass(kind, set) else frozenset
        return list(islice(base_set.__iter__(held), 2 * _SAMPLE)), base_set.__len__(held)
    known = _known(held)
    if known is not None and known.__name__ == "ndarray":
        base_array = known.base.__get__(held)
        return ([] if base_array is None else [base_array]), 1
    if known is not None and known.__name__ == "deque":
        count = known.__len__(held)
        if count <= 2 * _SAMPLE:
            return list(known.__iter__(held)), count
        ends = [*islice(known.__iter__(held), _SAMPLE), *islice(known.__reversed__(held), _SAMPLE)]
        return ends, count
    if known is not None or is_plain(kind):
        return [], 0
    return _of_instance(held)


def _of_dict(held: dict[object, object]) -> tuple[list[object], int]:
    count = dict.__len__(held)
    if count <= 2 * _SAMPLE:
        items = list(dict.items(held))
    else:
        # The first and the last put in: a cache that grows may have grown in the size of its entries too.
        items = [*islice(dict.items(held), _SAMPLE), *islice(reversed(dict.items(held)), _SAMPLE)]
    return [part for item in items for part in item], 2 * count


def _of_instance(held: object) -> tuple[list[object], int]:
    """Attributes of an instance, in its dictionary and in its slots. Classes are not followed."""
    if issubclass(type(held), type):
        return [], 0
    parts: list[object] = []
    try:
        parts.append(object.__getattribute__(held, "__dict__"))
    except AttributeError:
        pass
    for kind in type(held).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            member: Any = kind.__dict__.get(name)
            if type(member).__name__ == "member_descriptor":
                try:
                    parts.append(member.__get__(held))
                except AttributeError:
                    pass  # a slot that has not been set
    return parts, len(parts)
