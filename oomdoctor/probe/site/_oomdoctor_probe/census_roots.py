"""Where a walk through the user's objects begins: variables of running functions, globals of modules, tracebacks."""

from __future__ import annotations

import sys

from . import frames
from .large_objects import last_line, user_modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType
    from typing import Any

_OPTIMIZED = 1
"""Flag of a code object whose variables are not in a dictionary: that of a function, not of a module or class."""
_MOST_FRAMES = 400
_CALL = ("_call_impl", "_wrapped_call_impl")


class Root:
    """A variable, and the place in the code that speaks of it."""

    __slots__ = ("file", "first", "function", "in_forward", "in_library", "last", "line", "name", "where")

    def __init__(
        self,
        name: str,
        where: str,
        file: str | None,
        line: int | None = None,
        function: str | None = None,
        first: int = 1,
        last: int = sys.maxsize,
        in_forward: bool = False,
    ) -> None:
        self.name = name
        self.where = where
        self.file = file
        self.line = line
        self.function = function
        self.first = first
        self.last = last
        self.in_forward = in_forward
        self.in_library = file is not None and frames.is_library(file)


def of_frames() -> tuple[list[tuple[object, Root]], list[tuple[object, Root]]]:
    """Variables of all running functions of all threads, innermost first: the user's own, then those of libraries."""
    own: list[tuple[object, Root]] = []
    libraries: list[tuple[object, Root]] = []
    for innermost in list(sys._current_frames().values()):
        stack: list[FrameType] = []
        frame: FrameType | None = innermost
        while frame is not None and len(stack) < _MOST_FRAMES:
            if not frames.is_ours(frame.f_code.co_filename):
                stack.append(frame)
            frame = frame.f_back
        outermost_call = max(
            [position for position, one in enumerate(stack) if one.f_code.co_name in _CALL], default=-1
        )
        for position, one in enumerate(stack):
            into = libraries if frames.is_library(one.f_code.co_filename) else own
            into += _variables(one, one.f_lineno, "", position < outermost_call)
    return own, libraries


def of_suspended(suspended: list[Any]) -> Iterator[tuple[object, Root]]:
    """Variables of generators and coroutines that wait."""
    for one in suspended:
        for name in ("gi_frame", "cr_frame", "ag_frame"):
            frame = getattr(one, name, None)
            if frame is not None and not frames.is_ours(frame.f_code.co_filename):
                yield from _variables(frame, frame.f_lineno, ", a suspended function")


def of_tracebacks(tracebacks: list[TracebackType]) -> Iterator[tuple[object, Root]]:
    """Variables of functions that have ended by an exception which somebody still keeps."""
    last = getattr(sys, "last_value", None)
    running = set()
    for frame in list(sys._current_frames().values()):
        one: FrameType | None = frame
        while one is not None:
            running.add(id(one))
            one = one.f_back
    kept = ", kept by sys.last_value" if last is not None else ", kept by an exception's traceback"
    seen = set()
    for traceback in tracebacks:
        frame = traceback.tb_frame
        if id(frame) in running or id(frame) in seen or frames.is_ours(frame.f_code.co_filename):
            continue
        seen.add(id(frame))
        yield from _variables(frame, traceback.tb_lineno or 0, kept)


def _variables(frame: FrameType, line: int, more: str, in_forward: bool = False) -> list[tuple[object, Root]]:
    code = frame.f_code
    if not code.co_flags & _OPTIMIZED:
        return []  # a module's: its variables are globals
    function = getattr(code, "co_qualname", code.co_name)
    where = "local to %s()%s" % (function, more)
    last = last_line(code)
    return [
        (held, Root(name, where, code.co_filename, line, code.co_name, code.co_firstlineno, last, in_forward))
        for name, held in _read(frame)
    ]


def _read(frame: FrameType) -> list[tuple[str, object]]:
    """The variables of a function, leaving nothing behind.

    Up to Python 3.12 asking for them makes a dictionary that stays with the frame and keeps what was in it alive; it is
    emptied, unless somebody else has it too: the user called `locals()` and kept what it gave. That one is up to date
    now, as after another call, and only the entry for itself is taken out again, which would keep it alive for ever.
    """
    space = frame.f_locals
    items = list(space.items())
    if type(space) is dict:
        for name in [name for name, held in items if held is space]:
            del space[name]
        if sys.getrefcount(space) <= 3:
            space.clear()
    return items


def of_globals() -> Iterator[tuple[object, Root]]:
    """Globals of the user's modules, with the line where the module's own code stands if it still runs."""
    running = {}
    for frame in list(sys._current_frames().values()):
        one: FrameType | None = frame
        while one is not None:
            if not one.f_code.co_flags & _OPTIMIZED:
                running[id(one.f_globals)] = one.f_lineno
            one = one.f_back
    for module in user_modules([]):
        space = vars(module)
        file = space.get("__file__")
        name = space.get("__name__")
        where = "global in %s" % _module_name(name, file)
        for variable, held in list(space.items()):
            if not variable.startswith("__"):
                line = running.get(id(space))
                function = "<module>" if line is not None else None
                yield held, Root(variable, where, file if isinstance(file, str) else None, line, function)


def _module_name(name: object, file: object) -> str:
    """The script's file, or the module's own name."""
    if name == "__main__" and isinstance(file, str):
        return file.rpartition("/")[2]
    return name if isinstance(name, str) else "a module"


def of_closure(function: Any) -> list[tuple[object, Root]]:
    """Variables that a function took with it from the one that made it."""
    code = function.__code__
    cells = function.__closure__ or ()
    where = "in the closure of %s()" % function.__qualname__.replace(".<locals>", "")
    last = last_line(code)
    found = []
    for name, cell in zip(code.co_freevars, cells):  # noqa: B905 (Python 3.10)
        try:
            held = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
        root = Root(name, where, code.co_filename, code.co_firstlineno, code.co_name, code.co_firstlineno, last)
        found.append((held, root))
    return found
