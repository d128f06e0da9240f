"""What autograd keeps for backward passes: found by walking the graph behind live tensors.

Reading what a node saved (`_saved_x`) gives the tensor itself, except where `saved_tensors_hooks` were in force: there
it runs the unpack hook, which is the user's code and may copy to the device. Each such attribute has a twin,
`_raw_saved_x`, that says whether it has a hook (its `unpack_hook`); what has one is skipped, and what its pack hook
returned is the user's object anyway. An older torch does not say: there the walk is left out if any function is alive
that looks like an unpack hook.

A tensor that was changed in place since (a weight after a step of the optimizer), or freed, is refused with an error.
An older torch (2.1) writes a C++ stack into each error, which takes up to 20 ms: what is refused so slowly is asked for
ever more rarely, until it is given again.
"""

from __future__ import annotations

from time import thread_time

from .census_clock import now
from .census_tensors import attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .census_tensors import Reader

_RAW = "_raw_saved_"
_SLOW_SECONDS = 0.0005
"""Of computing: a torch that writes no stack refuses in 0.03 ms."""


class _Saved:
    """An attribute under which all nodes of a kind show a saved tensor."""

    __slots__ = ("gap", "name", "passes", "raw_name")

    def __init__(self, raw_name: str) -> None:
        self.raw_name = raw_name
        self.name = "saved_tensors" if raw_name == "_raw_saved_tensors" else raw_name[len("_raw") :]
        self.gap = 0
        """Nodes that are passed over after a refusal."""
        self.passes = 0
        """How many of them are left."""

    def is_passed_over(self) -> bool:
        """Whether it is not asked for this time."""
        self.passes -= 1
        return self.passes >= 0

    def refused_slowly(self) -> None:
        """Ask half as often from now on."""
        self.gap = self.passes = 2 * self.gap + 1


class Graph:
    """The nodes met so far. It keeps them alive, and with them the graph: drop it when the census ends."""

    def __init__(self, torch: Any, reader: Reader, hooks_suspected: bool, deadline: float) -> None:
        saved = getattr(getattr(torch._C, "_autograd", None), "SavedTensor", None)
        self._tells_hooks = saved is not None and hasattr(saved, "unpack_hook")
        self._reader = reader
        self._deadline = deadline
        self._nodes: dict[int, Any] = {}
        self._attributes: dict[int, tuple[Any, list[_Saved]]] = {}
        self.complete = True
        self.possible = self._tells_hooks or not hooks_suspected
        self.hooked = 0
        """Saved tensors that were skipped for their hooks."""

    @property
    def nodes(self) -> int:
        """How many nodes were met."""
        return len(self._nodes)

    def saved_behind(self, tensor: object) -> Iterator[object]:
        """The tensors that the graph behind a tensor keeps, as far as no earlier call has met it."""
        first = self._reader.node(tensor)
        stack = [first] if first is not None and self.possible and self.complete else []
        while stack:
            node = stack.pop()
            if id(node) in self._nodes:
                continue
            self._nodes[id(node)] = node
            if now() > self._deadline:
                self.complete = False
                return
            yield from self._saved(node)
            try:
                stack += [following for following, _ in node.next_functions if following is not None]
            except Exception:
                continue

    def _saved(self, node: Any) -> Iterator[object]:
        kind = type(node)
        known = self._attributes.get(id(kind))
        if known is None:
            # The class is kept with its names, so that its number cannot become another's.
            known = self._attributes[id(kind)] = (kind, [_Saved(name) for name in dir(kind) if name.startswith(_RAW)])
        for saved in known[1]:
            if saved.is_passed_over():
                continue
            begun = thread_time()
            try:
                raw = getattr(node, saved.raw_name)
                if raw is None or self._has_hook(raw):
                    continue
                held = getattr(node, saved.name)
            except Exception:
                if thread_time() - begun > _SLOW_SECONDS:
                    saved.refused_slowly()
                continue
            saved.gap = 0
            for one in held if type(held) in (tuple, list) else (held,):
                if one is not None:
                    yield one
        # A Function of the user's may also put tensors on its context as attributes.
        for one in attributes(node).values():
            if self._reader.is_tensor(one):
                yield one

    def _has_hook(self, raw: Any) -> bool:
        if not self._tells_hooks:
            return False
        for one in raw if type(raw) in (tuple, list) else (raw,):
            if one is not None and one.unpack_hook is not None:
                self.hooked += 1
                return True
        return False
