"""Categories of memory and their colours: one thing has one colour in every bar, table and chart.

The hues are those of Okabe and Ito, told apart with any common colour vision; some are lightened so that dark ink
on them stays readable. Colour is never the only sign: every part has its name beside it, and what is idle, free or
unexplained is drawn as a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass

INK = "#14171c"
"""Text on a coloured segment, in both colour schemes."""


@dataclass(frozen=True)
class Category:
    """A kind of memory. `words` are looked for in a part's name, in the order of `CATEGORIES`."""

    key: str
    label: str
    colour: str
    words: tuple[str, ...] = ()


CATEGORIES = (
    Category("unattributed", "unattributed", "#b9bec7", ("unattributed", "unexplained", "unaccounted")),
    Category("idle", "idle in the allocator", "#f0e442", ("idle", "fragment", "unallocated", "inactive", "releasable")),
    Category("free", "free", "#ffffff", ("free", "available", "unused", "left for")),
    Category("others", "other processes", "#e2733a", ("other process", "foreign", "neighbour", "other user", "others")),
    Category("gradients", "gradients", "#7fc8ee", ("gradient", "grads")),
    Category("optimizer", "optimizer state", "#d58fb6", ("optimizer", "optimiser", "adam", "moments", "master")),
    Category(
        "activations", "activations", "#efa71f",
        ("activation", "workspace", "temporar", "compute buffer", "logits", "saved for backward"),
    ),
    Category("kv", "keys and values", "#2fb58c", ("kv", "keys and values", "key/value", "past_key")),
    Category("weights", "weights", "#5aa2dc", ("weight", "parameter", "buffers of the model", "model")),
    Category(
        "context", "context and libraries", "#9aa3b0",
        ("context", "librar", "driver", "nccl", "cublas", "cudnn", "kernel", "non-torch", "outside", "graph"),
    ),
    Category("held", "live, kind not known", "#c3b18a"),
)  # fmt: skip

_BY_KEY = {category.key: category for category in CATEGORIES}
UNATTRIBUTED = _BY_KEY["unattributed"]
FREE = _BY_KEY["free"]
HELD = _BY_KEY["held"]

_DRAWN_LAST = ("idle", "unattributed", "free")


def category_of(name: str) -> Category:
    """The category a budget part, owner or curve belongs to by its name."""
    lowered = name.lower()
    return next((each for each in CATEGORIES if any(word in lowered for word in each.words)), HELD)


def draw_order(category: Category) -> int:
    """Held memory first and free last: the request that did not fit is drawn from where free memory begins."""
    return _DRAWN_LAST.index(category.key) + 1 if category.key in _DRAWN_LAST else 0
