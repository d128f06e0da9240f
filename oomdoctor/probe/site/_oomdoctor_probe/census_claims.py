"""Claims tensors for their owners: what is known by its name, what autograd saved, logits, batches, and the rest."""

from __future__ import annotations

from .census_clock import now
from .census_objects import own_tensors
from .census_owners import Owner
from .census_tensors import attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .census_autograd import Graph
    from .census_owners import Owners
    from .census_referrers import Climb
    from .census_tally import Tally
    from .census_tensors import Reader

_LEAST_SHARE = 0.01
"""What is not found by its name is looked for in other ways if it is at least this share of all tensors."""
_MANY = 20000
_SHARE_OF_NAMES = 0.75
_SMALLEST_VOCABULARY = 8192
_MOST_DIMENSIONS_OF_LOGITS = 3
_OF_EMBEDDINGS = ("num_embeddings", "org_vocab_size", "num_embeddings_padded", "num_embeddings_per_partition")
_MAY_BE_LOGITS = ("other", "activations", "saved-for-backward")
_MAY_BE_BATCH = ("other", "activations")


class Claims:
    """Each piece of memory goes to the first that claims it."""

    def __init__(self, reader: Reader, tally: Tally, started: float, allowed: float) -> None:
        self.reader = reader
        self.tally = tally
        self.vocabulary: set[int] = set()
        """How many tokens the models know."""
        self.batch_size = 0
        """The largest batch of a data loader."""
        self._started = started
        self._allowed = allowed
        self.complete = True

    def while_there_is_time(self, items: list[Any], share: float = 1.0) -> Iterator[Any]:
        """Each of them, or as many as this share of the time is enough for."""
        deadline = self._started + share * self._allowed
        for number, item in enumerate(items):
            if number & 127 == 127 and now() > deadline:
                self.complete = False
                return
            yield item

    def claim(self, tensor: object, category: str, owner: Owner) -> int:
        """Count a tensor as its owner's; the bytes that nobody had claimed before."""
        gained = 0
        for piece, storage in self.reader.pieces(tensor):
            look = self.reader.look(piece)
            found = category
            if category in _MAY_BE_LOGITS and self._is_logits(look[0]):
                found = "logits"
            elif category in _MAY_BE_BATCH and self._is_of_batch(look[0], owner):
                found = "batch"
            saved = category == "saved-for-backward"
            gained += self.tally.claim(storage, found, owner, look, saved)
        return gained

    def _is_logits(self, shape: tuple[int, ...]) -> bool:
        return 0 < len(shape) <= _MOST_DIMENSIONS_OF_LOGITS and shape[-1] in self.vocabulary

    def _is_of_batch(self, shape: tuple[int, ...], owner: Owner) -> bool:
        """A loop over a data loader sets it. Of each batch the last may be smaller."""
        return 0 < (shape[0] if shape else 0) <= self.batch_size and owner.is_loop_variable

    def claim_others(self, live: list[Any], owners: Owners, graph: Graph, climb: Climb) -> None:
        """Every other tensor, and what autograd saved behind each: by the names that the walk gave, then by others."""
        left = live
        if len(live) > _MANY:
            # There may not be time for all: the largest are to have a name.
            left = sorted(live, key=lambda tensor: -self._bytes([tensor]))
        for found_upwards in (False, True):
            if found_upwards and self._bytes(left) >= _LEAST_SHARE * self._bytes(live):
                climb.find(left)
            self._claim_named(left, owners, graph)
            left = [tensor for tensor in left if not self._is_claimed(tensor)]
        nameless = Owner("tensors that no variable leads to")
        for tensor in self.while_there_is_time(left):
            for saved in graph.saved_behind(tensor):
                self.claim(saved, "saved-for-backward", nameless)
        for tensor in self.while_there_is_time(left):
            self.claim(tensor, "other", nameless)

    def _claim_named(self, tensors: list[Any], owners: Owners, graph: Graph) -> None:
        """Caches, then what autograd saved by the tensors whose graphs hold it, then what forward passes work on."""
        found = [(tensor, owners.of(tensor)) for tensor in self.while_there_is_time(tensors, _SHARE_OF_NAMES)]
        named = [(tensor, owner, owners.position(tensor)) for tensor, owner in found if owner is not None]
        # A long list explains more than a variable that holds its last element. Within a list its order is kept.
        named.sort(key=lambda one: (-one[1].rank, one[2]))
        for tensor, owner, _ in self.while_there_is_time(named):
            if owner.is_cache or not owner.in_forward:
                self.claim(tensor, "kv" if owner.is_cache else "other", owner)
        for tensor, owner, _ in self.while_there_is_time(named):
            for saved in graph.saved_behind(tensor):
                self.claim(saved, "saved-for-backward", owner)
        for tensor, owner, _ in self.while_there_is_time(named):
            self.claim(tensor, "activations", owner)

    def _is_claimed(self, tensor: Any) -> bool:
        return all([self.tally.is_claimed(storage) for storage in self.reader.storages(tensor)])

    def _bytes(self, tensors: list[Any]) -> int:
        return sum([size for tensor in tensors for _, _, size in self.reader.storages(tensor)])


def vocabulary_of(modules: list[Any], reader: Reader) -> set[int]:
    """How many tokens the models know: rows of embeddings that an output head has as well, else of any embedding.

    A table of positions has many rows too; it has no head, and attention scores are as wide as it.
    """
    rows: set[int] = set()
    others: set[int] = set()
    for module in modules:
        name: str = type.__getattribute__(type(module), "__name__")
        weight = own_tensors(module, "_parameters").get("weight")
        shape = reader.shape(weight) if weight is not None else None
        first = shape[0] if shape is not None and len(shape) == 2 else 0
        if "Embedding" in name:
            space = attributes(module)
            rows.update([size for size in (first, *map(space.get, _OF_EMBEDDINGS)) if type(size) is int])
        else:
            others.add(first)
    large = {size for size in rows if size >= _SMALLEST_VOCABULARY}
    return (large & others) or large


def batch_size_of(loaders: list[Any]) -> int:
    """The largest batch that a data loader makes; 0 where there is none, or none that says its size."""
    largest = 0
    for loader in loaders:
        own = attributes(loader)
        for size in (own.get("batch_size"), attributes(own.get("batch_sampler")).get("batch_size")):
            if type(size) is int:
                largest = max(largest, size)
    return largest
