"""A walk from the user's variables through what they hold, so that each tensor can be called by a name.

Breadth first: the shortest way gives the name. Up to four ways to an object are kept, because a tensor that a list of
forty holds says more than the same tensor in a variable of the moment.
"""

from __future__ import annotations

import gc
import types
from collections import deque
from functools import partial
from time import monotonic

from . import census_roots
from .census_tensors import attributes, derives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .census_roots import Root
    from .census_tensors import Reader

    Edge = tuple[int, str, "Root | None"]
    """The holder (0 for a variable), the step from it, the variable."""

_DEEPEST = 12
_MOST_EDGES = 4
_MOST_NAMED_KEYS = 16
"""A dictionary of more entries is a store, and its keys are no names."""
_LONG = 4096
_COLLECTIONS = (list, tuple, dict, set, frozenset, deque)
_LEAVES = (type, types.ModuleType, types.CodeType, types.FrameType, types.TracebackType, types.BuiltinFunctionType)
_NOT_FOLLOWED = frozenset(("_parameters", "_buffers", "_non_persistent_buffers_set", "__builtins__"))
_ELEMENT = "[*]"


class Walk:
    """What has been reached, and by which ways. Drop it when the census ends."""

    def __init__(self, reader: Reader, module: type | None, deadline: float) -> None:
        self.held: dict[int, Any] = {}
        self.edges: dict[int, list[Edge]] = {}
        self.complete = True
        self.reader = reader
        self._module = module
        self._deadline = deadline
        self._kinds: dict[int, str] = {}
        self._steps = 0

    def follow(self, roots: Iterable[tuple[object, Root]]) -> None:
        """Walk from these variables as far as there is time."""
        queue: deque[tuple[Any, int]] = deque()
        for variable, of in roots:
            self._reach(variable, (0, "", of), 0, queue)
        while queue and self.complete:
            holder, depth = queue.popleft()
            try:
                for held, step, root in self._inside(holder):
                    self._reach(held, (id(holder), step, root), depth + 1, queue)
                    self._steps += 1
                    if self._steps & 1023 == 0 and monotonic() > self._deadline:
                        self.complete = False
                        return
            except Exception:
                # Changed by another thread meanwhile, or stranger than foreseen.
                continue

    def _reach(self, held: Any, edge: Edge, depth: int, queue: deque[tuple[Any, int]]) -> None:
        if not gc.is_tracked(held):
            return  # numbers, strings, and tuples of them
        identity = id(held)
        known = self.edges.get(identity)
        if known is not None:
            if len(known) < _MOST_EDGES and edge not in known:
                known.append(edge)
            return
        kind = self.kind(held)
        if kind == "leaf":
            return
        self.held[identity] = held
        self.edges[identity] = [edge]
        if depth < _DEEPEST:
            queue.append((held, depth))

    def kind(self, held: object) -> str:
        """How an object is followed."""
        of = type(held)
        known = self._kinds.get(id(of))
        if known is None:
            known = self._kinds[id(of)] = self._classify(of)
        return known

    def _classify(self, of: type) -> str:
        if derives(of, self.reader.tensor):
            return "tensor"
        if self._module is not None and derives(of, self._module):
            return "module"
        for base in _COLLECTIONS:
            if derives(of, base):
                return base.__name__
        if any(derives(of, leaf) for leaf in _LEAVES):
            return "leaf"
        if of is types.FunctionType:
            return "function"
        if of in (types.MethodType, partial, types.CellType):
            return "link"
        module = type.__getattribute__(of, "__module__")
        if isinstance(module, str) and module.startswith(__package__):
            return "leaf"
        return "instance"

    def _inside(self, holder: Any) -> Iterator[tuple[object, str, Root | None]]:
        kind = self.kind(holder)
        if kind in ("list", "tuple", "set", "frozenset", "deque"):
            for held in _elements(holder, kind):
                yield held, _ELEMENT, None
        elif kind == "dict":
            named = dict.__len__(holder) <= _MOST_NAMED_KEYS
            for key, held in list(dict.items(holder)):
                if type(key) is str and named:
                    if key not in _NOT_FOLLOWED:
                        yield held, "[%r]" % key, None
                else:
                    yield held, _ELEMENT, None
        elif kind == "function":
            for held, root in census_roots.of_closure(holder):
                yield held, "", root
        elif kind == "link":
            for held in gc.get_referents(holder):
                yield held, "", None
        else:
            yield from self._attributes(holder, kind)

    def _attributes(self, holder: Any, kind: str) -> Iterator[tuple[object, str, Root | None]]:
        for name, held in attributes(holder).items():
            if kind == "module" and name == "_modules" and isinstance(held, dict):
                for child, module in list(held.items()):
                    yield module, _ELEMENT if str(child).isdigit() else ".%s" % child, None
            elif name not in _NOT_FOLLOWED:
                yield held, ".%s" % name, None
        if kind == "instance":
            for of in type(holder).__mro__:
                slots = type.__getattribute__(of, "__dict__").get("__slots__", ())
                for name in (slots,) if isinstance(slots, str) else tuple(slots):
                    member = type.__getattribute__(of, "__dict__").get(name)
                    if type(member) is types.MemberDescriptorType:
                        try:
                            yield member.__get__(holder), ".%s" % name, None
                        except AttributeError:
                            pass  # not set

    def path(self, identity: int) -> tuple[list[tuple[str, int]], Root | None]:
        """The first way to an object: the steps from a variable with what each leads from, and the variable."""
        steps: list[tuple[str, int]] = []
        while True:
            holder, step, root = self.edges[identity][0]
            if root is not None:
                return steps[::-1], root
            if not holder or len(steps) > _DEEPEST * 2:
                return steps[::-1], None
            steps.append((step, holder))
            identity = holder

    def length(self, held: Any) -> int | None:
        """Number of elements of a collection."""
        kind = self.kind(held)
        for base in _COLLECTIONS:
            if kind == base.__name__:
                return int(base.__len__(held))
        return None


def _elements(holder: Any, kind: str) -> list[object]:
    base: Any = next(base for base in _COLLECTIONS if base.__name__ == kind)
    if base.__len__(holder) > _LONG:
        if kind in ("list", "tuple") and not any(gc.is_tracked(base.__getitem__(holder, i)) for i in range(64)):
            return []  # a long list of numbers
    return list(base.__iter__(holder))
