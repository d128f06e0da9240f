"""A walk from the user's variables through what they hold, so that each tensor can be called by a name.

Breadth first: the shortest way gives the name. Up to four ways to an object are kept, because a tensor that a list of
forty holds says more than the same tensor in a variable of the moment.
"""

from __future__ import annotations

import gc
import types
from collections import deque

from . import census_containers, census_roots
from .census_clock import now
from .census_containers import COLLECTIONS
from .census_tensors import attributes, class_attributes, derives, mro, slots

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
_LONG = 1024
_LOOKED_AT = 16
_LOOKED_AT_BELOW = 20
_MOST_NAMED_KEYS = 16
"""A dictionary of more entries is a store, and its keys are no names."""
_LEAVES = (
    types.ModuleType, types.CodeType, types.FrameType, types.TracebackType, types.BuiltinFunctionType,
    types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType,
)  # fmt: skip
"""What is a root itself, or leads to everything."""
_NOT_FOLLOWED = frozenset(("_parameters", "_buffers", "_non_persistent_buffers_set", "__builtins__"))
_ELEMENT = "[*]"


class Walk:
    """What has been reached, and by which ways. Drop it when the census ends."""

    def __init__(self, reader: Reader, module: type | None, deadline: float, running: set[int]) -> None:
        self.held: dict[int, Any] = {}
        self.edges: dict[int, list[Edge]] = {}
        self.complete = True
        self.reader = reader
        self._module = module
        self._deadline = deadline
        self._kinds: dict[int, str] = {}
        self._slotted: dict[int, bool] = {}
        self._own_modules = census_roots.own_module_names()
        self._running = running
        self._steps = 0

    def follow(self, roots: Iterable[tuple[object, Root]]) -> None:
        """Walk from these variables as far as there is time."""
        queue: deque[tuple[Any, int]] = deque()
        for variable, of in roots:
            self._reach(variable, (0, "", of), 0, queue)
        self._go_on(queue)

    def lead(self, held: Any, edge: Edge) -> None:
        """Go on from an object that was found otherwise, whatever it is; `edge` leads to it if nothing else does."""
        if id(held) not in self.edges:
            self.held[id(held)] = held
            self.edges[id(held)] = [edge]
        self._go_on(deque([(held, 0)]))

    def _go_on(self, queue: deque[tuple[Any, int]]) -> None:
        while queue and self.complete:
            holder, depth = queue.popleft()
            try:
                if self._is_long_and_barren(holder):
                    continue
                for held, step, root in self._inside(holder):
                    self._reach(held, (id(holder), step, root), depth + 1, queue)
                    self._steps += 1
                    if self._steps & 1023 == 0 and now() > self._deadline:
                        self.complete = False
                        return
            except Exception:
                # Changed by another thread meanwhile, or stranger than foreseen.
                continue

    def _is_long_and_barren(self, holder: Any) -> bool:
        """Whether a few of very many elements lead to no tensor: samples of a dataset, say, not worth the time.

        What is in there all the same is found upwards, from the tensor.
        """
        kind = self.kind(holder)
        if kind not in COLLECTIONS or (census_containers.length(holder, kind) or 0) <= _LONG:
            return False
        inside = census_containers.elements(holder, kind)
        step = max(1, (len(inside) - 1) // (_LOOKED_AT - 1))
        return not any([self._leads_to_tensor(inside[position]) for position in range(0, len(inside), step)])

    def _leads_to_tensor(self, held: Any) -> bool:
        queue: deque[Any] = deque([held])
        seen: set[int] = set()
        while queue and len(seen) < _LOOKED_AT_BELOW:
            one = queue.popleft()
            kind = self.kind(one)
            if kind in ("tensor", "module"):
                return True
            if kind == "leaf" or id(one) in seen or not gc.is_tracked(one):
                continue
            seen.add(id(one))
            for number, (inner, _, _) in enumerate(self._inside(one)):
                queue.append(inner)
                if number >= _LOOKED_AT_BELOW:
                    break
        return False

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
        if known == "class" and type.__getattribute__(held, "__module__") not in self._own_modules:
            # What hangs at the classes of libraries is found from what they are used for.
            return "leaf"
        return known

    def _classify(self, of: type) -> str:
        if derives(of, self.reader.tensor):
            return "tensor"
        if self._module is not None and derives(of, self._module):
            return "module"
        collection = census_containers.collection_kind(of)
        if collection is not None:
            return collection
        if any(derives(of, leaf) for leaf in _LEAVES):
            return "leaf"
        for base, kind in ((type, "class"), (BaseException, "exception"), (types.FunctionType, "function")):
            if derives(of, base):
                return kind
        module = type.__getattribute__(of, "__module__")
        if isinstance(module, str) and module.startswith(__package__):
            return "leaf"
        return "instance"

    def _inside(self, holder: Any) -> Iterator[tuple[object, str, Root | None]]:
        kind = self.kind(holder)
        if kind in COLLECTIONS:
            yield from self._elements(holder, kind)
            if type(holder) not in (list, tuple, dict, set, frozenset, deque):
                yield from self._attributes(holder, kind)
        elif kind == "function":
            for held, root in (*census_roots.of_closure(holder), *census_roots.of_defaults(holder)):
                yield held, "", root
            yield from self._attributes(holder, kind)
        elif kind == "class":
            for name, held in class_attributes(holder).items():
                if not name.startswith("__"):
                    yield held, ".%s" % name, None
        else:
            if kind == "exception":
                for held, root in census_roots.of_exception(holder, self._running):
                    yield held, "", root
            yield from self._attributes(holder, kind)

    def _elements(self, holder: Any, kind: str) -> Iterator[tuple[object, str, Root | None]]:
        dictionary = census_containers.as_dictionary(holder, kind)
        if dictionary is not None and dict.__len__(dictionary) <= _MOST_NAMED_KEYS:
            for key, held in list(dict.items(dictionary)):
                if type(key) is not str:
                    yield held, _ELEMENT, None
                elif key not in _NOT_FOLLOWED:
                    yield held, "[%r]" % key, None
            return
        fields = class_attributes(type(holder)).get("_fields") if kind == "tuple" else None
        names = list(fields) if type(fields) is tuple else []
        for number, held in enumerate(census_containers.elements(holder, kind)):
            yield held, ".%s" % names[number] if number < len(names) else _ELEMENT, None
        if kind == census_containers.CACHE:
            yield census_containers.cached_function(holder), "", None

    def _attributes(self, holder: Any, kind: str) -> Iterator[tuple[object, str, Root | None]]:
        inner = census_containers.inner_attribute(type(holder)) if kind == census_containers.OUTER else None
        own = attributes(holder)
        if kind not in ("tensor", "module", "function") and self._has_slots(type(holder)):
            own.update(slots(holder))
        for name, held in own.items():
            if kind == "module" and name == "_modules" and isinstance(held, dict):
                for child, module in list(held.items()):
                    yield module, _ELEMENT if str(child).isdigit() else ".%s" % child, None
            elif name not in _NOT_FOLLOWED and name != inner:
                yield held, ".%s" % name, None
        if kind in ("instance", "exception"):
            # Objects of C may hold others where no attribute shows them.
            known = {id(held) for held in own.values()}
            known.add(id(_own_dictionary(holder)))
            for held in gc.get_referents(holder):
                if id(held) not in known:
                    yield held, "", None
            yield type(holder), "", None

    def _has_slots(self, of: type) -> bool:
        known = self._slotted.get(id(of))
        if known is None:
            known = self._slotted[id(of)] = any(["__slots__" in class_attributes(one) for one in mro(of)])
        return known

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
        return census_containers.length(held, self.kind(held))


def _own_dictionary(held: object) -> object:
    try:
        return object.__getattribute__(held, "__dict__")
    except Exception:
        return None
