"""Tells what is a cache of keys and values: by what it is called, by the classes on the way to it, or by its shape."""

from __future__ import annotations

from .census_containers import SEQUENCES, elements
from .census_tensors import attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .census_walk import Walk

_NAMES = ("kv_cache", "kvcache", "key_cache", "value_cache", "past_key", "k_cache", "v_cache", "layer_past")
_WHOLE_NAMES = ("kv", "kvs")
_PAIRS = (("k", "v"), ("key", "value"), ("keys", "values"), ("key_cache", "value_cache"), ("k_cache", "v_cache"))


def is_cache(name: str, holders: list[Any], steps: list[tuple[str, int]]) -> bool:
    """By the name that the code gives it, or the holders on the way to it and the steps from each."""
    lower = name.lower()
    if any(one in lower for one in _NAMES) or lower.rsplit(".", 1)[-1] in _WHOLE_NAMES:
        return True
    if any(type.__getattribute__(type(holder), "__name__").endswith("Cache") for holder in holders):
        return True
    return bool(steps) and _is_half_of_pair(steps[-1][0], holders[-1])


def _is_half_of_pair(step: str, holder: Any) -> bool:
    """Whether an attribute is the keys or the values of an object that has both."""
    own = attributes(holder)
    return step[:1] == "." and any(step[1:] in pair and pair[0] in own and pair[1] in own for pair in _PAIRS)


def holds_pairs(walk: Walk, held: Any) -> bool:
    """Whether it is a list of pairs of tensors, all of one class: keys and values of each layer."""
    kind = walk.kind(held)
    if kind not in SEQUENCES:
        return False
    layers = [one for one in elements(held, kind) if one is not None]
    return len(layers) >= 2 and all(_is_pair(walk, one) for one in (layers[0], layers[-1]))


def _is_pair(walk: Walk, held: Any) -> bool:
    kind = walk.kind(held)
    pair = elements(held, kind) if kind in SEQUENCES else []
    if len(pair) != 2 or not all(walk.kind(half) == "tensor" for half in pair):
        return False
    first, second = walk.reader.shape(pair[0]), walk.reader.shape(pair[1])
    return first is not None and len(first) >= 3 and sorted(first) == sorted(second or ())
