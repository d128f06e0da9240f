"""Keeps the probe's failures out of the user's code."""

from __future__ import annotations

import _thread

from . import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def guarded(what: str) -> Callable[[Callable[..., object]], Callable[..., None]]:
    """Make a function return nothing and raise nothing: what goes wrong in it becomes a `probe-error` record."""

    def decorate(function: Callable[..., object]) -> Callable[..., None]:
        def call(*arguments: Any, **named: Any) -> None:
            try:
                function(*arguments, **named)
            except BaseException as error:
                try:
                    if isinstance(error, KeyboardInterrupt):
                        # Meant for the user's code: let it arrive there as soon as we are out of the way.
                        _thread.interrupt_main()
                    records.write_error(what, error)
                except BaseException:
                    # Not even that could be written; there is nothing left to try.
                    pass

        return call

    return decorate
