"""The one table of forms, and the reader that follows a piece of output through a log as its lines go by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ...model.devices import DeviceReading
from . import box, gpustat, monitor, query, rows, xml
from .piece import Memory, Piece, TableLine


@dataclass(frozen=True)
class Form:
    """A way of printing what devices hold."""

    name: str
    anchors: tuple[str, ...]
    """Every piece of it holds one of these literals."""
    opens: Callable[[str], bool]
    """Whether a line with an anchor is of this form."""
    piece: Callable[[str, Memory], Piece]
    reaches_back: Callable[[str], bool] | None = None
    """Whether a line above the first anchor is part of the piece; None: the anchor stands in its first line."""
    most_lines_back: int = 60


FORMS: tuple[Form, ...] = (
    Form("nvidia-smi", box.ANCHORS, box.opens, box.Box, lambda text: not text.strip() or box.is_drawn(text)),
    Form("nvidia-smi CSV", rows.ANCHORS, rows.opens, rows.Rows),
    Form("nvidia-smi -q", query.ANCHORS, query.opens, query.Query, query.is_part, 600),
    Form("nvidia-smi -q -x", xml.ANCHORS, xml.is_part, xml.Document, xml.is_part, 600),
    Form("nvidia-smi dmon, pmon", monitor.ANCHORS, monitor.is_header, monitor.Monitor, monitor.is_header, 1),
    Form("gpustat", gpustat.ANCHORS, gpustat.opens, gpustat.Gpustat, gpustat.is_part),
    Form("gpustat --json", gpustat.JSON_ANCHORS, gpustat.is_json, gpustat.GpustatJson, gpustat.is_json),
)
"""In the order in which they are tried."""

ANCHORS: tuple[str, ...] = tuple(dict.fromkeys(anchor for form in FORMS for anchor in form.anchors))


class Follower:
    """Reads the pieces of one log, one at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.memory = Memory()
        self._piece: Piece | None = None
        self._indent = 0
        self._missed = 0

    @property
    def is_open(self) -> bool:
        """Whether a piece may go on."""
        return self._piece is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said of the pieces that were read."""
        return tuple(self.memory.notes)

    def open(self, text: str, anchors: Iterable[str], above: Iterator[str]) -> Sequence[str] | None:
        """Begins the piece that `text` belongs to; returns the lines above that are its too, None if there is none.

        `above` are the lines before, the nearest first.
        """
        there = set(anchors)
        for form in FORMS:
            indent = len(text) - len(text.lstrip())
            if there.isdisjoint(form.anchors) or not form.opens(text.lstrip()):
                continue
            self._piece, self._missed = form.piece(self.path, self.memory), 0
            before = _lines_back(form, above)
            self._indent = min([indent, *(len(line) - len(line.lstrip()) for line in before if line.strip())])
            return before[::-1]
        return None

    def read(self, line: TableLine) -> list[DeviceReading]:
        """The readings that this line completes."""
        if self._piece is None:
            return []
        text = line.text
        own = text[self._indent :] if text[: self._indent].isspace() else text
        if self._piece.take(TableLine(line.number, own, line.time_seconds)):
            self._missed = 0
        else:
            self._missed += 1
            if self._missed > self._piece.patience:
                return self.close()
        return self._piece.hand_out()

    def close(self) -> list[DeviceReading]:
        """The readings that were not complete before the piece ended."""
        if self._piece is None:
            return []
        self._piece.close()
        left, self._piece = self._piece.hand_out(), None
        return left


def _lines_back(form: Form, above: Iterator[str]) -> list[str]:
    """Of the lines above, the nearest first, those that belong to the piece."""
    reaches = form.reaches_back
    if reaches is None:
        return []
    found = []
    for line in islice(above, form.most_lines_back):
        if not reaches(line) and not reaches(line.lstrip()):
            break
        found.append(line)
    return found


def find_devices(lines: Sequence[str], path: str, first_line: int = 1) -> tuple[DeviceReading, ...]:
    """The readings in these lines, of which the first is line `first_line` of `path`; other lines are passed over."""
    follower = Follower(path)
    found: list[DeviceReading] = []
    read_to = 0
    for place, text in enumerate(lines):
        if not follower.is_open and (there := [anchor for anchor in ANCHORS if anchor in text]):
            before = follower.open(text, there, iter(lines[read_to:place][::-1]))
            for back, line in enumerate(before or (), start=-len(before or ())):
                found += follower.read(TableLine(first_line + place + back, line))
        if follower.is_open:
            found += follower.read(TableLine(first_line + place, text))
            read_to = place + 1
    return (*found, *follower.close())
