"""Sees errors about host memory as they are raised, for the program may catch them, and then they reach no hook.

numpy's is an object of a Python class, whose `__init__` can be replaced. IPython, in a notebook too, shows an error and
goes on to the next cell: its way of showing is watched. Python's own MemoryError and torch's error on
the host are made in C: from Python 3.12 on the interpreter tells of each error that is raised. It is asked to only
where a limit of the process makes these errors likely, and only while errors are rare: a program that raises very many
is not held up. Before Python 3.12 those stay unseen, unless the program prints them.
"""

from __future__ import annotations

import sys
from functools import wraps
from time import monotonic

from . import exceptions, imports, process_size, records
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any

_NUMPY = ("numpy._core._exceptions", "numpy.core._exceptions")
_FREE_TOOLS = (4, 3)
"""Numbers of monitoring tools that Python has not given a purpose."""
_LOOK_EVERY = 2048
_TOO_MANY_A_SECOND = 20000


@guarded("watching errors that may be caught")
def watch() -> None:
    """Begin; call once, at the start of the process."""
    for name in _NUMPY:
        imports.when_imported(name, _watch_numpy)
    imports.when_imported("IPython.core.interactiveshell", _watch_ipython)
    limits = process_size.read()
    if sys.version_info >= (3, 12) and ("address_space_limit_bytes" in limits or "data_limit_bytes" in limits):
        _monitor()


@guarded("watching numpy's error about memory")
def _watch_numpy(module: ModuleType) -> None:
    kind = getattr(module, "_ArrayMemoryError", None)
    if kind is None or "__init__" not in vars(kind):
        return
    inherited = kind.__init__
    if inherited.__module__ == __name__:
        return

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        inherited(self, *arguments, **named)
        exceptions.record_raised(self)

    kind.__init__ = __init__


@guarded("watching errors that IPython shows")
def _watch_ipython(module: ModuleType) -> None:
    kind = module.InteractiveShell
    show = kind.showtraceback

    @wraps(show)
    def showtraceback(self: Any, exc_tuple: Any = None, *arguments: Any, **named: Any) -> Any:
        _record_shown(exc_tuple)
        return show(self, exc_tuple, *arguments, **named)

    kind.showtraceback = showtraceback


@guarded("recording an error that IPython shows")
def _record_shown(exc_tuple: Any) -> None:
    error = (exc_tuple or sys.exc_info())[1]
    if error is not None and exceptions.is_memory_error(error):
        exceptions.record(error, fatal=False)


def _monitor() -> None:
    monitoring = vars(sys)["monitoring"]
    tool = next((tool for tool in _FREE_TOOLS if monitoring.get_tool(tool) is None), None)
    if tool is None:
        return
    monitoring.use_tool_id(tool, "oomdoctor")
    raised, since = 0, monotonic()

    def at_raise(_code: CodeType, _offset: int, error: BaseException) -> None:
        nonlocal raised, since
        try:
            raised += 1
            if raised % _LOOK_EVERY == 0:
                now = monotonic()
                if now - since < _LOOK_EVERY / _TOO_MANY_A_SECOND:
                    monitoring.set_events(tool, 0)
                    records.write_error("seeing errors that are caught", "the program raises too many")
                since = now
            kind = type(error)
            if issubclass(kind, MemoryError) or (kind is RuntimeError and exceptions.is_memory_error(error)):
                traceback = error.__traceback__
                # it is told of again in each function that the error passes through
                if traceback is None or traceback.tb_next is None:
                    exceptions.record_raised(error)
        except BaseException:
            # Whatever it is, the program has an error of its own on its way.
            pass

    monitoring.register_callback(tool, monitoring.events.RAISE, at_raise)
    monitoring.set_events(tool, monitoring.events.RAISE)
