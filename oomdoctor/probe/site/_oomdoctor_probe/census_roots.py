"""Where a walk through the user's objects begins: variables of running functions, globals of modules, tracebacks."""

from __future__ import annotations

import sys

from . import frames
from .census_tensors import derives
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
_BACKWARD = ("backward", "_engine_run_backward")
_UNPACKS, _CHECKPOINT = "unpack_hook", ("torch/utils/checkpoint.py", "torch\\utils\\checkpoint.py")
FORWARD, BACKWARD, RECOMPUTED = "forward", "backward", "recomputed"


class Root:
    """A variable, and the place in the code that speaks of it."""

    __slots__ = (
        "behind", "by_error", "file", "first", "function", "in_forward", "in_library", "last", "line", "name",
        "where", "work",
    )  # fmt: skip

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
        behind: int = 0,
        by_error: bool = False,
    ) -> None:
        self.name = name
        self.where = where
        self.file = file
        self.line = line
        self.function = function
        self.first = first
        self.last = last
        self.in_forward = in_forward
        self.behind = behind
        """id() of the exception whose traceback keeps the variable, or of the module whose forward pass works on it."""
        self.by_error = by_error
        """The function has ended by an exception, which keeps the variable."""
        self.work = ""
        """What a library works on for the user: FORWARD, BACKWARD or RECOMPUTED."""
        self.in_library = file is not None and frames.is_library(file)

    def lend_to(self, work: str, module: int, caller: tuple[FrameType, int] | None) -> None:
        """Say what a library does with the variable for the user, and where the user's code has asked for that."""
        self.work, self.behind = work, module
        self.in_forward = self.in_forward or work in (FORWARD, RECOMPUTED)
        if caller is not None:
            code = caller[0].f_code
            self.file, self.line, self.function = code.co_filename, caller[1], code.co_name
            self.first, self.last = 1, 0


class Stacks:
    """The functions that run in all threads, and those that the error which ends the program has come through.

    Those are to be spoken of as running: that their variables are still there is no mistake of anybody's.
    """

    def __init__(self, failing: list[TracebackType | None]) -> None:
        self.stacks: list[list[tuple[FrameType, int]]] = []
        self.running: set[int] = set()
        """id() of their frames."""
        for innermost in list(sys._current_frames().values()):
            self._add(frames.of_thread(innermost))
        # One of them is this very call: a variable of it that is itself would keep the whole census until the
        # collector runs, and with it every tensor of the program.
        del innermost
        for traceback in failing:
            self._add(frames.along(traceback)[::-1])

    def _add(self, stack: list[tuple[FrameType, int]]) -> None:
        theirs = [(frame, line) for frame, line in stack if not frames.is_ours(frame.f_code.co_filename)]
        self.stacks.append([place for place in theirs if id(place[0]) not in self.running][:_MOST_FRAMES])
        self.running.update([id(frame) for frame, _ in stack])

    def variables(self) -> tuple[list[tuple[object, Root]], list[tuple[object, Root]]]:
        """Variables of the running functions, innermost first: the user's own, then those of libraries."""
        own: list[tuple[object, Root]] = []
        libraries: list[tuple[object, Root]] = []
        for stack in self.stacks:
            calls = [position for position, (one, _) in enumerate(stack) if one.f_code.co_name in _CALL]
            outermost = max(calls, default=-1)
            module = id(dict(_read(stack[outermost][0])).get("self")) if calls else 0
            for position, (one, line) in enumerate(stack):
                found = _variables(one, line, "", position < outermost)
                if not frames.is_library(one.f_code.co_filename):
                    own += found
                    continue
                work = FORWARD if position <= outermost else _work_of(one)
                if work:
                    place = next((p for p in stack[position:] if not frames.is_library(p[0].f_code.co_filename)), None)
                    for _, root in found:
                        root.lend_to(work, module if work == FORWARD else 0, place)
                libraries += found
        return own, libraries

    def line_of_module(self, space: dict[str, Any]) -> int | None:
        """Where a module's own code stands, if it still runs."""
        for stack in self.stacks:
            for frame, line in stack:
                if frame.f_globals is space and not frame.f_code.co_flags & _OPTIMIZED:
                    return line
        return None


def _work_of(frame: FrameType) -> str:
    code = frame.f_code
    if code.co_name == _UNPACKS and code.co_filename.endswith(_CHECKPOINT):
        return RECOMPUTED
    return BACKWARD if code.co_name in _BACKWARD else ""


def of_suspended(suspended: list[Any]) -> Iterator[tuple[object, Root]]:
    """Variables of generators and coroutines that wait."""
    for one in suspended:
        for name in ("gi_frame", "cr_frame", "ag_frame"):
            frame = getattr(one, name, None)
            if frame is not None and not frames.is_ours(frame.f_code.co_filename):
                yield from _variables(frame, frame.f_lineno, ", a suspended function")


def of_exception(error: BaseException, running: set[int]) -> Iterator[tuple[object, Root]]:
    """Variables of functions that have ended by an exception which somebody still keeps."""
    for frame, line in frames.along(_TRACEBACK.__get__(error)):
        if id(frame) not in running and not frames.is_ours(frame.f_code.co_filename):
            yield from _variables(frame, line, "", behind=id(error), by_error=True)


_TRACEBACK: Any = vars(BaseException)["__traceback__"]


def of_tracebacks(tracebacks: list[TracebackType], running: set[int]) -> Iterator[tuple[object, Root]]:
    """The same where no variable leads to the exception: it is being handled, or a traceback was kept without it."""
    seen = set()
    for traceback in tracebacks:
        frame = traceback.tb_frame
        if id(frame) in running or id(frame) in seen or frames.is_ours(frame.f_code.co_filename):
            continue
        seen.add(id(frame))
        more = ", kept by an exception's traceback"
        yield from _variables(frame, traceback.tb_lineno or 0, more, by_error=True)


def of_notebook() -> Iterator[tuple[object, Root]]:
    """The last error that a prompt or a notebook has shown, which Python keeps."""
    for name in ("last_exc", "last_value"):
        error = vars(sys).get(name)
        if derives(type(error), BaseException):
            yield error, Root("sys.%s" % name, "", None)


def _variables(
    frame: FrameType, line: int, more: str, in_forward: bool = False, behind: int = 0, by_error: bool = False
) -> list[tuple[object, Root]]:
    code = frame.f_code
    if not code.co_flags & _OPTIMIZED:
        return []  # a module's: its variables are globals
    function = getattr(code, "co_qualname", code.co_name)
    where = "local to %s()%s" % (function, more)
    last = last_line(code)
    file, first = code.co_filename, code.co_firstlineno
    return [
        (held, Root(name, where, file, line, code.co_name, first, last, in_forward, behind, by_error))
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


def of_globals(stacks: Stacks) -> Iterator[tuple[object, Root]]:
    """Globals of the user's modules, with the line where the module's own code stands if it still runs."""
    for module in user_modules([]):
        space = vars(module)
        line = stacks.line_of_module(space)
        for variable, held in list(space.items()):
            if not variable.startswith("__"):
                yield held, of_global(variable, space, line)


def of_global(name: str, space: dict[str, Any], line: int | None = None) -> Root:
    """A global of a module, whose variables `space` are."""
    file = space.get("__file__")
    where = "global in %s" % _module_name(space.get("__name__"), file)
    return Root(name, where, file if isinstance(file, str) else None, line, "<module>" if line is not None else None)


def own_module_names() -> set[str]:
    """Names of the user's modules."""
    return {name for module in user_modules([]) if isinstance(name := vars(module).get("__name__"), str)}


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


def of_defaults(function: Any) -> list[tuple[object, Root]]:
    """What the arguments of a function are when they are not given: made once, and kept with the function."""
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][-len(values) :] if values else ()
    where = "default of an argument of %s()" % function.__qualname__.replace(".<locals>", "")
    last = last_line(code)
    return [
        (held, Root(name, where, code.co_filename, code.co_firstlineno, code.co_name, code.co_firstlineno, last))
        for name, held in [*zip(names, values), *(function.__kwdefaults__ or {}).items()]  # noqa: B905 (Python 3.10)
    ]
