"""What large Python objects the process held when memory ran out, and who held them.

Looked for where a person would look: the local variables along the traceback, the attributes of objects found there,
the globals of the user's modules, and last whatever long container the garbage collector knows. Bounded in time and
in the number of objects; what is measured once is not measured again under another name.
"""

from __future__ import annotations

import sys
from time import monotonic

from . import frames
from .growth_site import line_that_adds
from .sizes import Measure, is_plain, own_size
from .tracked import all_but_tuples

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType, ModuleType, TracebackType

_SECONDS = 2.0
_MOST_CANDIDATES = 20000
_MOST_REPORTED = 10
_SMALLEST = 1 << 20
_LONGEST_ALSO = 3


class _Holder:
    """One name under which an object hangs, and the place in the code that speaks of it.

    `name` is what the code calls it; the code that may add to it stands in `file` from line `first` to `last`.
    """

    __slots__ = ("file", "first", "function", "last", "line", "name", "text")

    def __init__(
        self,
        text: str,
        file: str | None,
        line: int | None,
        function: str | None,
        name: str = "",
        first: int = 1,
        last: int = sys.maxsize,
    ) -> None:
        self.text = text
        self.file = file
        self.line = line
        self.function = function
        self.name = name
        self.first = first
        self.last = last


def find(tracebacks: list[TracebackType | None]) -> list[dict[str, object]]:
    """The largest objects held, as `large_objects` of an `exception` record, largest first."""
    deadline = monotonic() + _SECONDS
    stack = [place for traceback in tracebacks for place in reversed(frames.along(traceback))]
    holders: dict[int, list[_Holder]] = {}
    candidates: list[object] = []
    try:
        for held, holder in _named(stack):
            known = holders.setdefault(id(held), [])
            if not known:
                candidates.append(held)
            if len(known) <= _LONGEST_ALSO:
                known.append(holder)
            if len(candidates) >= _MOST_CANDIDATES or monotonic() > deadline:
                break
    except Exception:
        # Out of memory again, or something changed meanwhile: what has been found so far is still worth having.
        pass
    found = _measure(candidates, holders, deadline)
    try:
        found += _unnamed(found, holders, deadline)
    except Exception:
        pass
    ordered = _most_specific_first(found)
    reported = [row for row in ordered if _deep_bytes(row) >= _SMALLEST][:_MOST_REPORTED] or ordered[:3]
    for row in reported:
        _say_what_adds(row)
    return reported


def _say_what_adds(row: dict[str, object]) -> None:
    """Where the code adds to what was found; the place that merely speaks of it stays where none is seen."""
    holder = row.pop("_holder")
    if not isinstance(holder, _Holder):
        return
    line = line_that_adds(holder.file, holder.name, holder.first, holder.last) if holder.name else None
    row["adds"] = line is not None
    if line is not None:
        row["line"] = line


def _most_specific_first(found: list[dict[str, object]]) -> list[dict[str, object]]:
    """Largest first; of about one size what the user's code holds first, and a container before what leads to it."""
    rest = sorted(found, key=_deep_bytes, reverse=True)
    ordered: list[dict[str, object]] = []
    while rest:
        about_as_large = [row for row in rest if _deep_bytes(row) >= 0.9 * _deep_bytes(rest[0])]
        rest = rest[len(about_as_large) :]
        ordered += sorted(about_as_large, key=lambda row: (_is_users(row), _own_bytes(row)), reverse=True)
    return ordered


def _is_users(row: dict[str, object]) -> bool:
    file = row["file"]
    return isinstance(file, str) and not frames.is_library(file)


def _own_bytes(row: dict[str, object]) -> int:
    size = row["own_bytes"]
    return size if isinstance(size, int) else 0


def _deep_bytes(row: dict[str, object]) -> int:
    size = row["deep_bytes"]
    return size if isinstance(size, int) else 0


def _measure(candidates: list[object], holders: dict[int, list[_Holder]], deadline: float) -> list[dict[str, object]]:
    """Measure each candidate. One that lies inside another counts in both, as it is held by both."""
    # The largest by themselves come first, in case time runs out.
    candidates.sort(key=own_size, reverse=True)
    found = []
    for held in candidates:
        if monotonic() > deadline:
            break
        try:
            size = Measure(held, deadline)
        except Exception:
            # Changed by another thread meanwhile, or stranger than foreseen.
            continue
        if size.deep_bytes < _SMALLEST // 16:
            continue
        first, *others = holders[id(held)]
        found.append(_row(held, size, first, [holder.text for holder in others]))
        if len(found) > 200:
            found.sort(key=_deep_bytes, reverse=True)
            del found[100:]
    return found


def _row(held: object, size: Measure, holder: _Holder, others: list[str]) -> dict[str, object]:
    return {
        "type": type(held).__name__,
        "holder": holder.text,
        "file": holder.file,
        "line": holder.line,
        "function": holder.function,
        "own_bytes": size.own_bytes,
        "deep_bytes": size.deep_bytes,
        "length": size.length,
        "complete": size.complete,
        "extrapolated": size.extrapolated,
        "also_held_by": others[:_LONGEST_ALSO],
        "_holder": holder,
    }


def _named(stack: list[tuple[FrameType, int]]) -> Iterator[tuple[object, _Holder]]:
    """All objects that have a name: of the user's own frames first, then his globals, then the libraries' frames.

    One object is named by the first: whoever reads it looks for a name of his own, not for numpy's.
    """
    users = [place for place in stack if not frames.is_library(place[0].f_code.co_filename)]
    yield from _in_frames(users)
    for module in user_modules(stack):
        for name, held in list(vars(module).items()):
            if name.startswith("__"):
                continue
            place = _place_of_global(module, name, stack)
            yield held, _Holder("global '%s' in %s" % (name, module.__name__), *place, name)
            for attribute, value in _attributes(held):
                text = "attribute %s.%s of %s" % (name, attribute, _class_name(held))
                yield value, _Holder(text, *place, "." + attribute)
    yield from _in_frames([place for place in stack if frames.is_library(place[0].f_code.co_filename)])


def _in_frames(stack: list[tuple[FrameType, int]]) -> Iterator[tuple[object, _Holder]]:
    """The variables of these frames and their attributes, the innermost frame's first."""
    seen: set[int] = set()
    for frame, line in stack:
        code = frame.f_code
        variables = frame.f_locals
        if variables is frame.f_globals or id(frame) in seen:
            continue
        seen.add(id(frame))
        span = code.co_firstlineno, last_line(code)
        for name, held in list(variables.items()):
            text = "local '%s' in %s()" % (name, code.co_name)
            yield held, _Holder(text, code.co_filename, line, code.co_name, name, *span)
            for attribute, value in _attributes(held):
                owner = "self" if name in ("self", "cls") else name
                text = "attribute %s.%s of %s" % (owner, attribute, _class_name(held))
                yield value, _Holder(text, code.co_filename, line, code.co_name, "." + attribute)


def last_line(code: CodeType) -> int:
    """At or after the last line of a function, its nested functions included."""
    table = getattr(code, "co_lines", None)
    if table is not None:
        last = max([line for _, _, line in table() if line is not None], default=code.co_firstlineno)
    else:
        # Before 3.10: pairs of steps, each step in lines a signed byte.
        last = code.co_firstlineno + sum(step for step in code.co_lnotab[1::2] if step < 128)
    for constant in code.co_consts:
        if type(constant) is type(code):
            last = max(last, last_line(constant))
    return last


def _attributes(held: object) -> list[tuple[str, object]]:
    """The attributes of an object of the user's own class, or of such a class; no property is run."""
    if is_plain(type(held)):
        return []
    try:
        space = object.__getattribute__(held, "__dict__")
        return [(name, value) for name, value in list(space.items()) if not (name[:2] == "__" == name[-2:])]
    except Exception:
        return []


def _class_name(held: object) -> str:
    return type.__getattribute__(held, "__name__") if issubclass(type(held), type) else type(held).__name__


def user_modules(stack: list[tuple[FrameType, int]]) -> list[ModuleType]:
    """The modules that are the user's own: the main one, then those the traceback went through, then the others."""
    in_traceback = {id(frame.f_globals) for frame, _ in stack}
    found: list[tuple[bool, bool, int, ModuleType]] = []
    for name, module in list(sys.modules.items()):
        if not issubclass(type(module), type(sys)):
            continue
        # From the dictionary: a module may answer for missing attributes with code of its own.
        file = vars(module).get("__file__")
        main = name == "__main__"
        if main or isinstance(file, str) and not frames.is_library(file) and not name.startswith(__package__):
            found.append((not main, id(vars(module)) not in in_traceback, len(found), module))
    return [module for _, _, _, module in sorted(found, key=lambda entry: entry[:3])]


def _place_of_global(
    module: ModuleType, name: str, stack: list[tuple[FrameType, int]]
) -> tuple[str | None, int | None, str | None]:
    """The innermost line of the traceback that stands in code which uses this global."""
    for frame, line in stack:
        if frame.f_globals is vars(module) and name in frame.f_code.co_names:
            return frame.f_code.co_filename, line, frame.f_code.co_name
    return vars(module).get("__file__"), None, None


def _unnamed(
    found: list[dict[str, object]], holders: dict[int, list[_Holder]], deadline: float
) -> list[dict[str, object]]:
    """Long containers that no name of the user's led to, unless what was found by name is larger."""
    largest = max([_deep_bytes(row) for row in found], default=_SMALLEST)
    extra: list[dict[str, object]] = []
    ours = {id(found), id(holders), id(extra)}
    for number, held in enumerate(all_but_tuples()):
        if number % 1000 == 0 and monotonic() > deadline:
            break
        if type(held) not in (list, dict, set) or id(held) in holders or id(held) in ours:
            continue
        if len(extra) < 3 and own_size(held) >= largest // 8:
            size = Measure(held, deadline)
            if size.deep_bytes > largest:
                kind = type(held).__name__
                extra.append(_row(held, size, _Holder("a %s without a name of its own" % kind, None, None, None), []))
    return extra
