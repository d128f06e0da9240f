"""Sees the children of multiprocessing end.

A child catches what its target raises and prints it itself, so no hook is called, and one that was forked leaves
without a shutdown of Python. Nothing of multiprocessing is replaced, for that would show in the traceback it prints:
its finalizers tell of the end. Up to Python 3.12 they run while the exception is still on its way; from 3.13 on they
run later, and the interpreter's own monitoring tells when the one function that catches it has done so.
"""

from __future__ import annotations

import sys

from . import exceptions, finish
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

_FREE_TOOLS = (4, 3)
"""Numbers of monitoring tools that Python has not given a purpose."""


@guarded("watching multiprocessing")
def watch(util: Any) -> None:
    """Prepare for this process being a child, or having some. Called when `multiprocessing.util` is imported."""

    def finalize(_: object = None) -> None:
        util.Finalize(None, _end_of_child, exitpriority=-100)

    if "--multiprocessing-fork" in getattr(sys, "argv", ()):
        # Spawned: this is the child, and nothing is run after a fork in it.
        finalize()
    util.register_after_fork(_anchor, finalize)
    if sys.version_info >= (3, 13):
        _monitor(sys.modules["multiprocessing.process"].BaseProcess._bootstrap.__code__)


@guarded("recording the end of a child process")
def _end_of_child() -> None:
    _record_handled()
    finish.write_end()


def _record_handled() -> bool:
    """Record the exception being handled, if it ends this process as a failure; say whether there was any."""
    error = handled = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        # torch.multiprocessing catches the error, hands it to the parent, and leaves with status 1.
        error = error.__context__ if error.code else None
    if error is not None:
        exceptions.record(error)
    return handled is not None


def _monitor(bootstrap: CodeType) -> None:
    """Be told of each line of the function in which a child spends its life, and of nothing else."""
    monitoring = vars(sys)["monitoring"]
    tool = next(tool for tool in _FREE_TOOLS if monitoring.get_tool(tool) is None)
    monitoring.use_tool_id(tool, "oomdoctor")

    @guarded("recording the end of a child process")
    def at_line(*_: object) -> None:
        if _record_handled():
            monitoring.set_local_events(tool, bootstrap, 0)

    monitoring.register_callback(tool, monitoring.events.LINE, at_line)
    monitoring.set_local_events(tool, bootstrap, monitoring.events.LINE)


class _Anchor:
    """multiprocessing keeps a callback for as long as an object of the caller's lives."""


_anchor = _Anchor()
