"""Who holds a tensor, in the words of the user's code."""

from __future__ import annotations

import sys

from .census_caches import cut, holds_pairs, is_called_cache
from .census_containers import CACHE, as_dictionary, cached_function, elements, is_by_name
from .census_roots import BACKWARD, RECOMPUTED
from .growth_site import is_loop_variable, is_made_each_step, line_that_adds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .census_roots import Root
    from .census_walk import Edge, Walk

    Spot = tuple[int, int]
    """id() of a collection, and of the element of it that something lies in; 0: that is the element itself."""

_FEWEST_OF_LIBRARY = 4
_LARGEST_BATCH = 32
"""Tensors that one batch may have."""
_MANY = 4
_DEEPEST = 8
_NOWHERE = (0, 0)


class Owner:
    """A named holder. `name` is what the code calls it, in `file` from line `first` to `last`."""

    __slots__ = (
        "by_error", "by_name", "container", "counted", "file", "first", "function", "in_forward", "in_library",
        "is_cache", "kind", "last", "length", "line", "loops", "name", "parts", "text",
    )  # fmt: skip

    def __init__(self, text: str, root: Root | None = None, length: int | None = None) -> None:
        self.text = text
        self.length = length
        self.container = 0
        """id() of the collection; 0 where it is none, or several of one name."""
        self.kind = ""
        self.file = root.file if root is not None else None
        self.line = root.line if root is not None else None
        self.function = root.function if root is not None else None
        self.name = root.name if root is not None else ""
        self.first = root.first if root is not None else 1
        self.last = root.last if root is not None else sys.maxsize
        self.in_forward = False
        self.in_library = root is not None and root.in_library
        self.by_error = root is not None and root.by_error
        self.by_name = False
        """A dictionary whose keys are all names."""
        self.is_cache = False
        self.loops: bool | None = None
        """Whether the source has a loop that sets it; None: nobody has looked."""
        self.counted = False
        """A collection of this name has been met."""
        self.parts: dict[str, int] = {}

    def stand_for(self, other: Owner) -> None:
        """What has to be changed is where the other one grows."""
        self.length, self.name, self.file, self.line = other.length, other.name, other.file, other.line
        self.function, self.first, self.last = other.function, other.first, other.last

    def move_to(self, function: Any) -> None:
        """Results that are kept are best spoken of where the function is written."""
        if function is not None:
            code = function.__code__
            self.name, self.file, self.line, self.function = "", code.co_filename, code.co_firstlineno, code.co_name

    @property
    def rank(self) -> int:
        """How much is said by naming it: a long collection says most, the names of a library or a failed call least."""
        if self.by_error or (self.in_library and (self.length or 0) < _FEWEST_OF_LIBRARY):
            return 0
        return self.length if self.length is not None else 1

    def place(self) -> tuple[int | None, bool]:
        """The line where the code adds to a collection, and True; otherwise where the stack stood, and False."""
        if self.length is not None and self.name:
            line = line_that_adds(self.file, self.name, self.first, self.last)
            if line is not None:
                return line, True
        return self.line, False

    @property
    def is_of_a_step(self) -> bool:
        """A collection that each step makes anew, and whose graphs are needed until it is full."""
        return self.length is not None and is_made_each_step(self.file, self.name, self.first, self.last)

    @property
    def is_loop_variable(self) -> bool:
        """A variable, or a small collection in one, that a loop sets anew each time."""
        if self.length is not None and self.length > _LARGEST_BATCH:
            return False
        if self.loops is None:
            self.loops = is_loop_variable(self.file, self.name, self.first, self.last)
        return self.loops


class Owners:
    """Finds the owner of anything that the walk has reached."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._of_container: dict[int, tuple[Owner, Spot]] = {}
        self._by_text: dict[tuple[str, str | None, int], Owner] = {}
        self._spots: dict[int, Spot] = {}
        self._order: dict[int, dict[int, int]] = {}

    def of(self, held: object) -> Owner | None:
        """The best name for what holds this object; None where the walk has not met it."""
        best: Owner | None = None
        best_rank = (-1, False)
        for edge in self._walk.edges.get(id(held), ()):
            owner, spot = self._by_way(id(held), edge)
            root = edge[2]
            # `net` of the script says more than `self` in the method of it that runs.
            rank = owner.rank, root is None or not (root.in_forward or root.name == "self")
            if best is None or rank > best_rank:
                best, best_rank = owner, rank
                self._spots[id(held)] = spot
        return best

    def position(self, held: object) -> int:
        """Where an object, whose owner was asked for before, lies in the collection that is its owner."""
        container, element = self._spots.get(id(held), _NOWHERE)
        if not container:
            return 0
        order = self._order.get(container)
        if order is None:
            inside = elements(self._walk.held[container], self._walk.kind(self._walk.held[container]))
            order = self._order[container] = {id(one): position for position, one in enumerate(inside)}
        return order.get(element or id(held), 0)

    def _by_way(self, identity: int, edge: Edge) -> tuple[Owner, Spot]:
        holder, step, root = edge
        if step.startswith("["):
            owner, spot = self._container(holder, 0)
            return owner, (spot[0], spot[1] or identity)
        return self._direct(identity, holder, step, root)

    def _direct(self, identity: int, holder: int, step: str, root: Root | None) -> tuple[Owner, Spot]:
        """A variable or an attribute that is the object itself, or an attribute of one of many objects."""
        if root is not None:
            steps: list[tuple[str, int]] = []
        else:
            steps, root = self._walk.path(holder)
            steps = [*steps, (step, holder)]
        cache = self._cache(steps, root)
        if cache is not None:
            return cache
        many = self._many(steps, _MANY)
        if many is not None:
            return many
        owner = self._named("", steps, root, None)
        if root is not None and not any(one for one, _ in steps):
            roots = [one for _, _, one in self._walk.edges[identity] if one is not None]
            owner.in_forward = all([one.in_forward for one in roots or [root]])
        return owner, _NOWHERE

    def _cache(self, steps: list[tuple[str, int]], root: Root | None) -> tuple[Owner, Spot] | None:
        """The object that is a cache of keys and values, whole, if one is on the way; of many the collection."""
        position = cut(self._walk, steps)
        if position is None:
            return None
        holder = self._walk.held[steps[position][1]]
        found = self._many(steps[: position + 1], 2)
        if found is None:
            kind: str = type.__getattribute__(type(holder), "__name__")
            found = self._named(kind, steps[:position], root, None), _NOWHERE
        found[0].is_cache = True
        return found

    def _many(self, steps: list[tuple[str, int]], fewest: int) -> tuple[Owner, Spot] | None:
        """The nearest collection of at least so many, in one of whose elements the last step begins."""
        for position in range(len(steps) - 2, -1, -1):
            step, outer = steps[position]
            element = steps[position + 1][1]
            held = self._walk.held[outer]
            if step == "[*]" or self._is_one_of_many(self._walk.held[element], step, outer):
                if (self._walk.length(held) or 0) >= fewest:
                    found, spot = self._container(outer, 0)
                    return found, (spot[0], spot[1] or element)
        return None

    def _container(self, identity: int, depth: int) -> tuple[Owner, Spot]:
        """The longest of the collections nested in each other that hold something, the innermost being `identity`."""
        known = self._of_container.get(identity)
        if known is not None:
            return known
        held = self._walk.held[identity]
        kind = self._walk.kind(held)
        steps, root = self._walk.path(identity)
        cache = self._cache(steps, root)
        if cache is not None:
            self._of_container[identity] = cache
            return cache
        if steps and self._is_one_of_many(held, *steps[-1]):
            steps[-1] = "[*]", steps[-1][1]
        length = self._walk.length(held)
        owner = self._named("lru_cache" if kind == CACHE else type(held).__name__, steps, root, length)
        if kind == CACHE:
            owner.move_to(cached_function(held))
        owner.is_cache = owner.is_cache or holds_pairs(self._walk, held)
        owner.by_name = is_by_name(as_dictionary(held, kind))
        if root is not None and not any(step[:1] == "." for step, _ in steps):
            owner.in_forward = root.in_forward
        owner.container = 0 if owner.counted else identity
        owner.counted = True
        found: tuple[Owner, Spot] = owner, (identity, 0)
        self._of_container[identity] = found
        if depth < _DEEPEST:
            for holder, step, _ in self._walk.edges[identity]:
                if step.startswith("["):
                    outer, spot = self._container(holder, depth + 1)
                    if outer.is_cache or outer.rank >= found[0].rank:
                        found = outer, (spot[0], spot[1] or identity)
        # A collection in an attribute of one of many objects.
        many = self._many(steps, _MANY)
        if many is not None and many[0].rank > found[0].rank:
            found = many
        self._of_container[identity] = found
        return found

    def _is_one_of_many(self, held: Any, step: str, holder: int) -> bool:
        """Whether a collection hangs in a dictionary beside others of its kind: outputs of each layer, by name."""
        if step == "[*]" or not step.startswith("["):
            return False
        around = self._walk.held[holder]
        beside = (as_dictionary(around, self._walk.kind(around)) or {}).values()
        return sum(type(other) is type(held) for other in beside) > 1

    def _named(self, kind: str, steps: list[tuple[str, int]], root: Root | None, length: int | None) -> Owner:
        text = self._work(root, steps)
        if text:
            kind, length, steps = "", None, []
        else:
            text = self._text(kind, steps, root)
        key = (text, root.file if root is not None else None, root.first if root is not None else 0)
        owner = self._by_text.get(key)
        if owner is not None:
            if length is not None:
                owner.length = max(length, owner.length or 0)
            return owner
        owner = self._by_text[key] = Owner(text, root, length)
        owner.kind = kind
        owner.in_forward = root is not None and root.work == RECOMPUTED
        attribute = next((step for step, _ in reversed(steps) if step[:1] == "."), None)
        behind = self._behind(root)
        if behind is not None and behind.length is not None:
            owner.stand_for(behind)
        elif attribute is not None:
            owner.name, owner.first, owner.last = attribute, 1, sys.maxsize
        owner.is_cache = is_called_cache(_name(steps, root))
        return owner

    def _text(self, kind: str, steps: list[tuple[str, int]], root: Root | None) -> str:
        name, where = _name(steps, root), root.where if root is not None else ""
        first_holder = self._walk.held.get(steps[0][1]) if steps else None
        if root is not None and root.name in ("self", "cls") and name[4:5] == "." and first_holder is not None:
            of = first_holder if issubclass(type(first_holder), type) else type(first_holder)
            where = "of %s" % type.__getattribute__(of, "__name__")
        behind = self._behind(root)
        if behind is not None:
            by = "exceptions" if behind.length is not None else "traceback"
            where += ", kept by the %s of %s" % (by, behind.text)
        words = (kind if name or kind else "a value", name and "'%s'" % name, where)
        return " ".join([word for word in words if word])

    def _work(self, root: Root | None, steps: list[tuple[str, int]]) -> str:
        """What a library works on for the user is not called by the library's names."""
        if root is not None and root.work == RECOMPUTED:
            return "what checkpointing computes again for the backward pass"
        if root is None or not root.work or any(step[:1] == "." for step, _ in steps):
            return ""
        if root.work == BACKWARD:
            return "the graph of the backward pass"
        module = self._walk.held.get(root.behind)
        if module is None:
            return "the forward pass"
        kind = type.__getattribute__(type(module), "__name__")
        _, first = self._walk.path(root.behind)
        of = None if first is None or first.work else self._by_first_way(root.behind)
        return "the forward pass of %s" % (kind if of is None else "%s %s" % (kind, of.text))

    def _behind(self, root: Root | None) -> Owner | None:
        """What keeps the exception whose traceback keeps a variable."""
        if root is None or root.work or root.behind not in self._walk.edges:
            return None
        return self._by_first_way(root.behind)

    def _by_first_way(self, identity: int) -> Owner:
        """What the shortest way makes of it. Others may lead through what is being named just now."""
        return self._by_way(identity, self._walk.edges[identity][0])[0]


def _name(steps: list[tuple[str, int]], root: Root | None) -> str:
    return ((root.name if root is not None else "?") + "".join(step for step, _ in steps)).lstrip(".")
