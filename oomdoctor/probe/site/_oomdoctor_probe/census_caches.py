"""Tells what is a cache of keys and values: by what it is called, by the classes on the way to it, or by its shape.

A class that is merely named a cache may keep anything. It has to be one of transformers', to be called KVCache, or to
have an attribute for the keys and one for the values.
"""

from __future__ import annotations

from .census_containers import SEQUENCES, as_dictionary, elements
from .census_tensors import attributes, mro

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .census_walk import Walk

    Steps = list[tuple[str, int]]

_NAMES = (
    "kv_cache", "kvcache", "key_cache", "value_cache", "past_key", "k_cache", "v_cache", "cache_k", "cache_v",
    "layer_past",
)  # fmt: skip
_WHOLE_NAMES = ("kv", "kvs")
_PAIRS = (
    ("k", "v"), ("key", "value"), ("keys", "values"), ("key_cache", "value_cache"), ("k_cache", "v_cache"),
    ("cache_k", "cache_v"), ("past_key", "past_value"), ("past_keys", "past_values"),
)  # fmt: skip
_CLASSES = frozenset(
    (
        "DynamicCache", "StaticCache", "HybridCache", "EncoderDecoderCache", "SlidingWindowCache", "QuantizedCache",
        "OffloadedCache", "OffloadedStaticCache", "OffloadedHybridCache", "QuantoQuantizedCache", "SinkCache",
    )
)  # fmt: skip
_WIDEST_HEAD = 512
_CHANNELS = (1, 3)


def is_called_cache(name: str) -> bool:
    """By the name that the code gives it."""
    lower = name.lower()
    return any(one in lower for one in _NAMES) or lower.rsplit(".", 1)[-1] in _WHOLE_NAMES


def is_cache_class(of: type) -> bool:
    """One of transformers', or one that says so."""
    for one in mro(of):
        name: str = type.__getattribute__(one, "__name__")
        module = type.__getattribute__(one, "__module__")
        if name in _CLASSES or "kvcache" in name.lower().replace("_", ""):
            return True
        if name.endswith("Cache") and isinstance(module, str) and module.startswith("transformers"):
            return True
    return False


def cut(walk: Walk, steps: Steps) -> int | None:
    """Of the steps from a variable, the one that leads into the outermost object that is such a cache."""
    for position, (_, holder) in enumerate(steps):
        if walk.kind(walk.held[holder]) != "leaf" and is_cache_class(type(walk.held[holder])):
            return position
    if steps and is_half_of_pair(steps[-1][0], _space(walk, steps[-1][1])):
        return len(steps) - 1
    return None


def _space(walk: Walk, holder: int) -> dict[Any, Any]:
    """The names that an object has for what it holds."""
    held = walk.held[holder]
    kind = walk.kind(held)
    return attributes(held) if kind in ("instance", "module") else as_dictionary(held, kind) or {}


def is_half_of_pair(step: str, beside: dict[Any, Any]) -> bool:
    """Whether a name is that of the keys or the values, and the other is there too."""
    name = step.strip(".[]'")
    return any(name in pair and pair[0] in beside and pair[1] in beside for pair in _PAIRS)


def holds_pairs(walk: Walk, held: Any) -> bool:
    """Whether it is a collection, by layer, of keys and values."""
    kind = walk.kind(held)
    if kind not in (*SEQUENCES, "dict"):
        return False
    layers = [one for one in elements(held, kind) if one is not None]
    return len(layers) >= 2 and all(_is_pair(walk, one) for one in (layers[0], layers[-1]))


def _is_pair(walk: Walk, held: Any) -> bool:
    """Keys and values of one layer; of an encoder and a decoder both, where there are four."""
    kind = walk.kind(held)
    names = as_dictionary(held, kind)
    if names is not None and not any(is_half_of_pair(name, names) for name in names if type(name) is str):
        return False
    inside = elements(held, kind) if kind in (*SEQUENCES, "dict") else []
    if len(inside) not in (2, 4) or not all(walk.kind(one) == "tensor" for one in inside):
        return False
    shapes = [walk.reader.shape(one) or () for one in inside]
    return all(_are_keys_and_values(*shapes[first : first + 2]) for first in range(0, len(shapes), 2))


def _are_keys_and_values(keys: tuple[int, ...], values: tuple[int, ...]) -> bool:
    """As large as each other, and as wide as a head of attention. A batch of images is no cache."""
    if len(keys) < 3 or sorted(keys) != sorted(values):
        return False
    if len(values) == 4 and values[1] in _CHANNELS and values[-1] == values[-2]:
        return False
    return values[-1] <= _WIDEST_HEAD and values[-1] % 8 == 0
