"""Collections that a comprehension is just making: no variable leads to them yet, but the code says what they become.

`batches = [batch.cuda() for batch in loader]` keeps its list where Python shows it to nobody until it is done.
"""

from __future__ import annotations

import sys

from . import frames
from .census_roots import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from .census_roots import Stacks

_MAKES = {"<listcomp>": (list,), "<dictcomp>": (dict,), "<setcomp>": (set,), "<genexpr>": (list, set, dict)}
"""Up to Python 3.11 a comprehension is a function of its own; a generator expression always is."""
_INLINED = sys.version_info >= (3, 12)


def under_way(stacks: Stacks) -> list[tuple[tuple[type, ...], Root]]:
    """What may be under way, each with the name that it will have, where the code gives it one."""
    found: list[tuple[tuple[type, ...], Root]] = []
    for stack in stacks.stacks:
        for position, (frame, line) in enumerate(stack):
            if frames.is_library(frame.f_code.co_filename):
                continue
            makes = _MAKES.get(frame.f_code.co_name)
            outer = next((one for one in stack[position:] if one[0].f_code.co_name not in _MAKES), None)
            if outer is None:
                continue
            text = frames.code_at(outer[0].f_code.co_filename, outer[1] if makes else line)
            if makes is None and _INLINED and _has_comprehension(text):
                makes = (list, set, dict)
            if makes is not None:
                found.append((makes, _root(outer, text)))
    return found


def _has_comprehension(text: str) -> bool:
    opens = min([text.find(bracket) for bracket in "[{" if bracket in text] or [-1])
    return opens >= 0 and " for " in text[opens:] and " in " in text[opens:]


def _root(place: tuple[FrameType, int], text: str) -> Root:
    frame, line = place
    code = frame.f_code
    target, assigned, _ = text.partition(" = ")
    target = target.partition(":")[0].strip()
    name = target if assigned and all([part.isidentifier() for part in target.split(".")]) else ""
    where = "being made in %s()" % getattr(code, "co_qualname", code.co_name)
    if code.co_name == "<module>":
        where = "being made in %s" % code.co_filename.rpartition("/")[2]
    return Root(name, where, code.co_filename, line, code.co_name, line, line)
