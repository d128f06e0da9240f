"""Collections of all kinds: what lies in them, in their order, and how many elements they have.

Asked of the base class, never of an object's own class, whose methods may be the user's. What a queue or a cache keeps
in a collection of its own counts as its elements: `ahead.put(batch)` fills `ahead`, not the deque inside it.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from types import FunctionType

from .census_tensors import attributes, derives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BUILT_IN: tuple[Any, ...] = (list, tuple, dict, set, frozenset, deque)
_BY_NAME: dict[str, Any] = {base.__name__: base for base in _BUILT_IN}
SEQUENCES = ("list", "tuple")
_LONG = 4096
_INNER = {
    ("queue", "Queue"): "queue",
    ("asyncio.queues", "Queue"): "_queue",
    ("collections", "UserDict"): "data",
    ("collections", "UserList"): "data",
    ("weakref", "WeakKeyDictionary"): "data",
}
"""Classes of the standard library that keep their elements in a collection: under which attribute."""
SIMPLE_QUEUE, CACHE, OUTER = "SimpleQueue", "lru_cache", "outer"
COLLECTIONS = frozenset((*_BY_NAME, SIMPLE_QUEUE, CACHE, OUTER))


def collection_kind(of: type) -> str | None:
    """How a class of collections is read; None for any other class."""
    for base in _BUILT_IN:
        if derives(of, base):
            name: str = base.__name__
            return name
    # Not imported here: where the user's code has not done so, there is no such object.
    if _derives_from(of, "_queue", "SimpleQueue"):
        return SIMPLE_QUEUE
    if _derives_from(of, "functools", "_lru_cache_wrapper"):
        return CACHE
    return OUTER if any(_derives_from(of, *place) for place in _INNER) else None


def _derives_from(of: type, module: str, name: str) -> bool:
    base = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return base is not None and derives(of, base)


def inner_attribute(of: type) -> str | None:
    """Where a class of the standard library keeps its elements."""
    return next((inner for place, inner in _INNER.items() if _derives_from(of, *place)), None)


def length(held: Any, kind: str) -> int | None:
    """Number of elements; None where there is none to be had."""
    if kind == SIMPLE_QUEUE:
        return int(vars(sys.modules["_queue"])["SimpleQueue"].qsize(held))
    if kind == CACHE:
        results = _results(held)
        return None if results is None else dict.__len__(results)
    if kind == OUTER:
        held, kind = _inner(held)
    base = _BY_NAME.get(kind)
    return None if base is None else int(base.__len__(held))


def elements(held: Any, kind: str) -> list[object]:
    """What lies in a collection, in its order; of a dictionary the values."""
    if kind == SIMPLE_QUEUE:
        return _queued(held)
    if kind == CACHE:
        return _cached(held)
    if kind == OUTER:
        held, kind = _inner(held)
    base = _BY_NAME.get(kind)
    if base is None:
        return []
    if kind == "dict":
        return list(dict.values(held))
    found = _in_sequence(held) if type(held) in (list, tuple) else list(base.__iter__(held))
    if kind in SEQUENCES and len(found) > _LONG and not any(map(gc.is_tracked, found[:64])):
        return []  # a long list of numbers
    return found


def _in_sequence(held: Any) -> list[object]:
    """In order. One that C code is still filling has holes, which end the process when they are read: the collector's
    own functions pass over them.
    """
    found = gc.get_referents(held)
    found.reverse()
    return found


def is_unfinished(held: Any) -> bool:
    """Whether it is a tuple that C code is still filling; Python refuses to finish one that somebody else refers to."""
    return type(held) is tuple and len(gc.get_referents(held)) < len(held)


def as_dictionary(held: Any, kind: str) -> dict[Any, Any] | None:
    """The dictionary that it is or keeps its elements in; None for what is none."""
    if kind == OUTER:
        held, kind = _inner(held)
    return held if kind == "dict" else None


def is_by_name(dictionary: dict[Any, Any] | None) -> bool:
    """Whether there is something in it, and all its keys are strings."""
    return bool(dictionary) and all(type(key) is str for key in list(dictionary or ()))


def _inner(held: Any) -> tuple[Any, str]:
    inner = attributes(held).get(inner_attribute(type(held)) or "")
    kind = collection_kind(type(inner))
    return (inner, kind) if kind in _BY_NAME else (None, "")


def _queued(queue: Any) -> list[object]:
    """Up to Python 3.12 there is a list inside, with None in the places of what was taken out already."""
    inside = [held for held in gc.get_referents(queue) if not issubclass(type(held), type)]
    if len(inside) == 1 and type(inside[0]) is list and sys.version_info < (3, 13):
        return [held for held in inside[0] if held is not None]
    return inside


def _results(cache: Any) -> dict[Any, Any] | None:
    """The dictionary of a `functools.lru_cache`."""
    try:
        own = object.__getattribute__(cache, "__dict__")
    except Exception:
        own = None
    return next((held for held in gc.get_referents(cache) if type(held) is dict and held is not own), None)


def _cached(cache: Any) -> list[object]:
    """Keys and results. The dictionary of a bounded cache has links for values, which hide what they hold."""
    results, function = _results(cache), cached_function(cache)
    values = list((results or {}).values())
    if not any(type(value).__name__ == "_lru_list_elem" for value in values[:1]):
        return values
    found = [held for held in gc.get_referents(cache) if held is not results and held is not function]
    return [held for held in found if not issubclass(type(held), type)]


def cached_function(cache: Any) -> Any:
    """The function whose results a `functools.lru_cache` keeps."""
    return next((held for held in reversed(gc.get_referents(cache)) if type(held) is FunctionType), None)
