"""Names for what the walk from the user's variables has not reached, found upwards: who refers to it, and who to that.

So are found: what a library keeps in a module or a class of its own, a value that an expression has not yet given a
name, and what lies in an object that does not show it. Each step asks the collector once for a few objects together.
"""

from __future__ import annotations

import gc
import sys
import types

from . import frames
from .census_clock import now
from .census_containers import is_unfinished
from .census_roots import Root, of_global

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .census_walk import Walk

_SAMPLE = 8
_ROUNDS = 4
_HIGHEST = 10
_MOST_ABOVE = 40


class Climb:
    """Looks upwards. `ours`: what of the census itself refers to the user's objects; `making`: names for collections
    that are just being made.
    """

    def __init__(
        self, walk: Walk, ours: list[object], deadline: float, making: Sequence[tuple[tuple[type, ...], Root]] = ()
    ) -> None:
        self._walk = walk
        self._deadline = deadline
        self._making = making
        self._ours = {id(one) for one in (*ours, walk.held, walk.edges)}
        self._modules = {id(vars(one)): one for one in list(sys.modules.values()) if type(one) is types.ModuleType}

    def find(self, lost: list[Any]) -> None:
        """Give the walk ways to these objects; a few are looked for, and the walk goes on from what holds them."""
        self._ours.add(id(lost))
        for _ in range(_ROUNDS):
            left = [one for one in lost if id(one) not in self._walk.edges]
            if not left or now() > self._deadline:
                return
            sample = left[:: max(1, len(left) // _SAMPLE)][:_SAMPLE]
            self._ours.update((id(left), id(sample)))
            if not self._look_above(sample):
                return

    def _look_above(self, sample: list[Any]) -> bool:
        """Whether anything was found."""
        above: dict[int, Any] = {}
        seen: dict[int, Any] = {id(one): one for one in sample}
        roots: dict[int, Root] = {}
        self._ours.update((id(above), id(seen)))
        frontier = sample
        for _ in range(_HIGHEST):
            if not frontier or now() > self._deadline:
                break
            holders = gc.get_referrers(*frontier)
            wanted = {id(one) for one in frontier}
            frontier = []
            self._ours.update((id(holders), id(frontier)))
            for holder in holders[: _MOST_ABOVE * 4]:
                if id(holder) in self._ours or id(holder) in seen:
                    continue
                held = [one for one in gc.get_referents(holder) if id(one) in wanted]
                root = self._root(holder, held)
                if root is not None:
                    # What has a name needs nobody above it, in whatever order the collector gives them.
                    roots.update({id(one): root for one in held if root is not _NOT_A_HOLDER and id(one) not in roots})
                    continue
                held = [one for one in held if id(one) not in above]
                above.update({id(one): holder for one in held})
                if held:
                    seen[id(holder)] = holder
                    if id(holder) not in self._walk.edges and len(frontier) < _MOST_ABOVE:
                        frontier.append(holder)
        found = False
        for one in sample:
            found = self._connect(one, above, roots) or found
        return found

    def _root(self, holder: Any, held: list[Any]) -> Root | None:
        """The name that a holder gives to what it holds, where it ends the search."""
        kind = type(holder)
        if is_unfinished(holder):
            return _BEING_MADE
        if kind is types.FrameType:
            code = holder.f_code
            if frames.is_ours(code.co_filename):
                return _NOT_A_HOLDER
            where = "that %s() works on" % getattr(code, "co_qualname", code.co_name)
            return Root("", where, code.co_filename, holder.f_lineno, code.co_name)
        module = self._modules.get(id(holder))
        if module is not None:
            name = next((name for name, one in list(holder.items()) if any(one is each for each in held)), "?")
            return of_global(str(name), vars(module))
        text = type.__getattribute__(kind, "__module__")
        if isinstance(text, str) and text.startswith(__package__):
            return _NOT_A_HOLDER
        return None

    def _connect(self, lost: Any, above: dict[int, Any], roots: dict[int, Root]) -> bool:
        """Lead the walk down from the highest holder to what was looked for."""
        chain = [lost]
        self._ours.add(id(chain))
        while id(chain[-1]) in above and id(chain[-1]) not in roots and len(chain) <= _HIGHEST:
            chain.append(above[id(chain[-1])])
        top = chain[-1]
        if id(top) not in self._walk.edges and id(top) not in roots and len(chain) == 1:
            return False
        self._walk.lead(top, (0, "", roots.get(id(top)) or self._unnamed(top)))
        for position in range(len(chain) - 1, 0, -1):
            holder, held = chain[position], chain[position - 1]
            if not _is_dictionary_of(held, holder):
                of = chain[position + 1] if position + 1 < len(chain) else None
                if _is_dictionary_of(holder, of):
                    self._walk.lead(held, (id(of), ".%s" % _key(holder, held), None))
                else:
                    self._walk.lead(held, (id(holder), _step(holder, held), None))
        return id(lost) in self._walk.edges

    def _unnamed(self, top: Any) -> Root:
        fitting = [root for makes, root in self._making if type(top) in makes]
        return fitting[0] if len(fitting) == 1 else Root("", "that no variable leads to", None)


_NOT_A_HOLDER = Root("", "", None)
_BEING_MADE = Root("", "collected for a call under way", None)
"""Nothing refers to such a tuple yet, and nothing here may."""


def _is_dictionary_of(held: Any, holder: Any) -> bool:
    """Whether it is where a class or an object has its attributes."""
    if type(held) is not dict or holder is None:
        return False
    if issubclass(type(holder), type):
        return any(held is one for one in gc.get_referents(holder))
    try:
        return object.__getattribute__(holder, "__dict__") is held
    except Exception:
        return False


def _step(holder: Any, held: Any) -> str:
    if type(holder) is dict:
        key = _key(holder, held)
        return "[%r]" % key if type(key) is str else "[*]"
    return "[*]" if type(holder) in (list, tuple, set, frozenset) else ""


def _key(holder: dict[Any, Any], held: Any) -> object:
    return next((key for key, one in list(holder.items()) if one is held), None)
