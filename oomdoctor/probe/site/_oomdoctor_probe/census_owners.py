"""Who holds a tensor, in the words of the user's code."""

from __future__ import annotations

import sys

from .growth_site import line_that_adds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .census_roots import Root
    from .census_walk import Walk

_CACHE_NAMES = ("kv_cache", "kvcache", "key_cache", "value_cache", "past_key", "k_cache", "v_cache", "layer_past")
_PAIRS = (("k", "v"), ("key", "value"), ("keys", "values"), ("key_cache", "value_cache"), ("k_cache", "v_cache"))
_FEWEST_OF_LIBRARY = 4


class Owner:
    """A named holder. `name` is what the code calls it, in `file` from line `first` to `last`."""

    __slots__ = (
        "file", "first", "function", "in_forward", "in_library", "is_cache", "kind", "last", "length", "line", "name",
        "parts", "text",
    )  # fmt: skip

    def __init__(self, text: str, root: Root | None = None, length: int | None = None) -> None:
        self.text = text
        self.length = length
        self.kind = ""
        self.file = root.file if root is not None else None
        self.line = root.line if root is not None else None
        self.function = root.function if root is not None else None
        self.name = root.name if root is not None else ""
        self.first = root.first if root is not None else 1
        self.last = root.last if root is not None else sys.maxsize
        self.in_forward = False
        self.in_library = root is not None and root.in_library
        self.is_cache = False
        self.parts: dict[str, int] = {}

    @property
    def rank(self) -> int:
        """How much is said by naming it: a long collection says most, arguments passed within a library least."""
        if self.in_library and (self.length or 0) < _FEWEST_OF_LIBRARY:
            return 0
        return self.length if self.length is not None else 1

    def place(self) -> tuple[int | None, bool]:
        """The line where the code adds to a collection, and True; otherwise where the stack stood, and False."""
        if self.length is not None and self.name:
            line = line_that_adds(self.file, self.name, self.first, self.last)
            if line is not None:
                return line, True
        return self.line, False


class Owners:
    """Finds the owner of anything that the walk has reached."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._of_container: dict[int, Owner] = {}
        self._by_text: dict[tuple[str, str | None, int], Owner] = {}

    def of(self, held: object) -> Owner | None:
        """The best name for what holds this object; None where the walk has not met it."""
        best: Owner | None = None
        best_rank = (-1, False)
        for holder, step, root in self._walk.edges.get(id(held), ()):
            if step.startswith("["):
                owner = self._container(holder, 0)
            else:
                owner = self._direct(id(held), holder, step, root)
            # `net` of the script says more than `self` in the method of it that runs.
            rank = owner.rank, root is None or not (root.in_forward or root.name == "self")
            if best is None or rank > best_rank:
                best, best_rank = owner, rank
        return best

    def _direct(self, identity: int, holder: int, step: str, root: Root | None) -> Owner:
        """A variable or an attribute that is the object itself."""
        if root is not None:
            steps: list[tuple[str, int]] = []
        else:
            steps, root = self._walk.path(holder)
            steps = [*steps, (step, holder)]
        owner = self._named("", steps, root, None)
        if root is not None and not any(one for one, _ in steps):
            roots = [one for _, _, one in self._walk.edges[identity] if one is not None]
            owner.in_forward = all(one.in_forward for one in roots)
        return owner

    def _container(self, identity: int, depth: int) -> Owner:
        """The longest of the collections nested in each other that hold something, the innermost being `identity`."""
        known = self._of_container.get(identity)
        if known is not None:
            return known
        held = self._walk.held[identity]
        steps, root = self._walk.path(identity)
        if steps and self._is_one_of_many(held, *steps[-1]):
            steps[-1] = "[*]", steps[-1][1]
        length = self._walk.length(held)
        owner = self._named(type(held).__name__, steps, root, length)
        owner.is_cache = owner.is_cache or self._holds_pairs(held)
        if root is not None and not any(step[:1] == "." for step, _ in steps):
            owner.in_forward = root.in_forward
        self._of_container[identity] = owner
        if depth < 8:
            for holder, step, _ in self._walk.edges[identity]:
                if step.startswith("["):
                    outer = self._container(holder, depth + 1)
                    if outer.rank >= owner.rank:
                        owner = outer
        self._of_container[identity] = owner
        return owner

    def _is_one_of_many(self, held: Any, step: str, holder: int) -> bool:
        """Whether a collection hangs in a dictionary beside others of its kind: outputs of each layer, by name."""
        if step == "[*]" or not step.startswith("["):
            return False
        beside = dict.values(self._walk.held[holder])
        return sum(type(other) is type(held) for other in beside) > 1

    def _named(self, kind: str, steps: list[tuple[str, int]], root: Root | None, length: int | None) -> Owner:
        path = "".join(step for step, _ in steps)
        name = (root.name if root is not None else "?") + path
        where = root.where if root is not None else ""
        first_holder = self._walk.held.get(steps[0][1]) if steps else None
        if root is not None and root.name in ("self", "cls") and path[:1] == "." and first_holder is not None:
            of = first_holder if issubclass(type(first_holder), type) else type(first_holder)
            where = "of %s" % type.__getattribute__(of, "__name__")
        text = ("%s '%s' %s" % (kind, name, where)).strip()
        key = (text, root.file if root is not None else None, root.first if root is not None else 0)
        owner = self._by_text.get(key)
        if owner is not None:
            if length is not None:
                owner.length = max(length, owner.length or 0)
            return owner
        owner = self._by_text[key] = Owner(text, root, length)
        owner.kind = kind
        attribute = next((step for step, _ in reversed(steps) if step[:1] == "."), None)
        if attribute is not None:
            owner.name, owner.first, owner.last = attribute, 1, sys.maxsize
        last = name.lower().rsplit(".", 1)[-1]
        classes = [type(self._walk.held[holder]).__name__ for _, holder in steps]
        owner.is_cache = (
            any(one in name.lower() for one in _CACHE_NAMES)
            or last in ("kv", "kvs")
            or any(one.endswith("Cache") for one in classes)
            or bool(steps)
            and self._is_half_of_pair(steps[-1])
        )
        return owner

    def _is_half_of_pair(self, step: tuple[str, int]) -> bool:
        """Whether an attribute is the keys or the values of an object that has both."""
        name, holder = step[0].lstrip("."), self._walk.held.get(step[1])
        kind = self._walk.kind(holder)
        if step[0][:1] != "." or kind not in ("instance", "module"):
            return False
        from .census_tensors import attributes

        own = attributes(holder)
        return any(name in pair and pair[0] in own and pair[1] in own for pair in _PAIRS)

    def _holds_pairs(self, held: Any) -> bool:
        """Whether it is a list of pairs of tensors, all of one class: keys and values of each layer."""
        if self._walk.kind(held) not in ("list", "tuple"):
            return False
        base = list if self._walk.kind(held) == "list" else tuple
        elements = [one for one in list(base.__iter__(held)) if one is not None]
        if len(elements) < 2:
            return False
        for one in (elements[0], elements[-1]):
            kind = self._walk.kind(one)
            if kind not in ("tuple", "list"):
                return False
            pair = list(tuple.__iter__(one) if kind == "tuple" else list.__iter__(one))
            if len(pair) != 2 or not all(self._walk.kind(half) == "tensor" for half in pair):
                return False
            if not self._alike(pair[0], pair[1]):
                return False
        return True

    def _alike(self, left: Any, right: Any) -> bool:
        reader = self._walk.reader
        first, second = reader.shape(left), reader.shape(right)
        return first is not None and len(first) >= 3 and sorted(first) == sorted(second or ())
