"""Categories of memory and their colours: one thing has one colour in every bar, table and chart.

The fills were searched for the largest least difference between any two, seen with normal vision and without red or
green cones, under the condition that dark ink on each stays readable; a test holds them to it. What the model itself
holds (weights, gradients, optimizer state) is a family of blues. Colour is never the only sign: every part has its name
beside it, and what is idle, free or unexplained is drawn as a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..language import N_

INK = "#14171c"
"""Text on a coloured segment, in both colour schemes."""


@dataclass(frozen=True)
class Category:
    """A kind of memory. A part belongs to the first of `CATEGORIES` one of whose `words` begins a word of its name."""

    key: str
    label: str
    colour: str
    words: tuple[str, ...] = ()


CATEGORIES = (
    Category("unattributed", N_("unattributed"), "#c3c8d0", ("unattributed", "unexplained", "unaccounted")),
    Category(
        "idle", N_("idle in the allocator"), "#e9df8e",
        ("idle", "freed, waiting", "fragment", "unallocated", "inactive", "releasable"),
    ),
    Category("free", N_("free"), "#ffffff", ("free ", "available", "unused", "left for", "below the limit")),
    Category(
        "others", N_("other processes"), "#bb6e36",
        ("other process", "processes on", "foreign", "neighbour", "other user", "others"),
    ),
    Category("gradients", N_("gradients"), "#9baffa", ("gradient", "grads", "grad ")),
    Category("optimizer", N_("optimizer state"), "#e1d7fe", ("optimizer", "optimiser", "adam", "moments", "master")),
    Category(
        "activations", N_("activations"), "#d9b040",
        ("activation", "workspace", "temporar", "compute buffer", "logits", "batches", "attention scores",
         "saved for backward", "copies"),
    ),
    Category("kv", N_("keys and values"), "#639774", ("kv", "keys and values", "key/value", "past_key")),
    Category("weights", N_("weights"), "#567fec", ("weight", "parameter", "buffers of the model", "model")),
    Category(
        "context", N_("context and libraries"), "#9292ac",
        ("context", "librar", "driver", "nccl", "communication", "cublas", "cudnn", "kernel", "non-torch", "outside",
         "graph", "other mappings"),
    ),
    Category("held", N_("live, kind not known"), "#c2c888"),
)  # fmt: skip

_BY_KEY = {category.key: category for category in CATEGORIES}
UNATTRIBUTED = _BY_KEY["unattributed"]
FREE = _BY_KEY["free"]
POOL = _BY_KEY["kv"]
HELD = _BY_KEY["held"]

_DRAWN = (
    "others", "context", "weights", "gradients", "optimizer", "kv", "activations", "held",
    "idle", "unattributed", "free",
)  # fmt: skip


@lru_cache(maxsize=4096)
def category_of(name: str) -> Category:
    """The category a budget part, owner or curve belongs to by its name."""
    # Padded, so that `free ` finds the word and not `freed`.
    lowered = f" {name.lower()} "
    return next((each for each in CATEGORIES if any(_begins(word, lowered) for word in each.words)), HELD)


def _begins(word: str, text: str) -> bool:
    place = text.find(word)
    while place > 0 and text[place - 1].isalnum():
        place = text.find(word, place + 1)
    return place > 0


def draw_order(category: Category) -> int:
    """The place in a bar, the same on every device so that bars can be compared.

    Free comes last: the request that did not fit is drawn from where free memory begins.
    """
    return _DRAWN.index(category.key)
