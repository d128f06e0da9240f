"""How far the reading, or a simulation, is, while it takes long: on a terminal a bar of which nothing stays.

Elsewhere one sentence says what is read, once it has taken very long.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..language import _
from ..model.printable import one_line
from ..model.units import format_bytes
from .output import is_terminal, say

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_SECONDS = 1.0
_LONG_SECONDS = 10.0
_BETWEEN_SECONDS = 0.1


@contextmanager
def progress_bar() -> Iterator[Watched]:
    """Gives what is to be told how far it is."""
    if not is_terminal(sys.stderr):
        yield Watched(Remark().reading, None)
        return
    bar = Bar()
    try:
        yield Watched(bar.reading, bar.simulating)
    finally:
        bar.close()


@dataclass(frozen=True)
class Watched:
    """Whom to tell of each kind of work; None where nobody looks."""

    reading: Callable[[str, int, int | None], None] | None
    """Input, bytes done, all its bytes or None."""
    simulating: Callable[[str, int, int], None] | None
    """Input, steps done, all steps."""


class Remark:
    """One sentence for a reading that takes long where nobody could see a bar."""

    def __init__(self) -> None:
        self._due = time.monotonic() + _LONG_SECONDS

    def reading(self, path: str, _done_bytes: int, _size_bytes: int | None) -> None:
        """Some of an input is read."""
        if time.monotonic() >= self._due:
            self._due = math.inf
            say(_("the reading takes long; it has come to {path}").format(path=one_line(path)))


class Bar:
    """One bar at a time; each kind of work has its own second of patience."""

    def __init__(self) -> None:
        self._simulating = False
        self._began = self._told = time.monotonic()
        self._shown: Progress | None = None

    def reading(self, path: str, done_bytes: int, size_bytes: int | None) -> None:
        """So many bytes of an input are read."""
        self._tell(path, done_bytes, size_bytes, simulating=False)

    def simulating(self, path: str, done: int, of: int) -> None:
        """So many steps of a recorded run are simulated."""
        self._tell(path, done, of, simulating=True)

    def _tell(self, path: str, done_bytes: int, size_bytes: int | None, *, simulating: bool) -> None:
        """Draws the bar anew, not more often than one can see."""
        now = time.monotonic()
        if simulating is not self._simulating:
            self.close()
            self._shown, self._simulating, self._began = None, simulating, now
        if now - self._began < _PATIENCE_SECONDS or now - self._told < _BETWEEN_SECONDS:
            return
        self._told = now
        if self._shown is None:
            self._shown = _drawn(self._simulating)
        (task,) = self._shown.task_ids
        self._shown.update(task, description=one_line(path[-50:]), completed=done_bytes, total=size_bytes, refresh=True)

    def close(self) -> None:
        """Takes the bar off the terminal."""
        if self._shown is not None:
            self._shown.stop()


def _drawn(simulating: bool) -> Progress:
    # Imported late: most inputs are read before anybody would want to see a bar.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        """In binary units as all other sizes; rich's own column is decimal."""

        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{format_bytes(task.speed)}/s", style="progress.data.speed")

    doing = _("simulating {what}") if simulating else _("reading {what}")
    counted = (MofNCompleteColumn(),) if simulating else (DownloadColumn(binary_units=True), Speed())
    bar = Progress(
        TextColumn(doing.format(what="{task.description}"), markup=False),
        BarColumn(),
        *counted,
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
    )
    bar.add_task("", total=None)
    bar.start()
    return bar
