"""Keeps readings within bounds: of a loop that ran for a week, points enough to draw and judge its curve."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...model.devices import DeviceReading

MOST_POINTS = 2000
"""Readings kept of one device, about."""
_MOST_CURVES = 256


@dataclass
class _Curve:
    """One device's readings: each of a stretch of equal length, the one that shows most in use."""

    stretch: int = 1
    count: int = 0
    kept: list[tuple[int, DeviceReading]] = field(default_factory=list)
    first: tuple[int, DeviceReading] | None = None
    last: tuple[int, DeviceReading] | None = None

    def add(self, order: int, reading: DeviceReading) -> None:
        self.first, self.last = self.first or (order, reading), (order, reading)
        if self.count % self.stretch == 0:
            self.kept.append((order, reading))
        elif _held(reading) > _held(self.kept[-1][1]):
            self.kept[-1] = (order, reading)
        self.count += 1
        if len(self.kept) > MOST_POINTS:
            pairs = zip(self.kept[::2], [*self.kept[1::2], self.kept[-1]], strict=False)
            self.kept = [max(pair, key=lambda one: _held(one[1])) for pair in pairs]
            self.stretch *= 2


class ReadingShelf:
    """Takes readings one by one. All are kept of a device that was looked at fewer than MOST_POINTS times."""

    def __init__(self) -> None:
        self._curves: dict[tuple[int, bool], _Curve] = {}
        self._order = 0

    def add(self, reading: DeviceReading) -> None:
        """Those that show processes only have a curve of their own."""
        key = (reading.index, reading.used_bytes is None)
        if key in self._curves or len(self._curves) < _MOST_CURVES:
            self._order += 1
            self._curves.setdefault(key, _Curve()).add(self._order, reading)

    def readings(self) -> tuple[DeviceReading, ...]:
        """What was kept, in the order of the log; of every device the first and the last are in it."""
        chosen = {
            order: reading
            for curve in self._curves.values()
            for order, reading in (*curve.kept, *filter(None, (curve.first, curve.last)))
        }
        return tuple(chosen[order] for order in sorted(chosen))

    def notes(self) -> tuple[str, ...]:
        """A sentence where not all were kept."""
        thinned = sum(curve.count for curve in self._curves.values() if curve.stretch > 1)
        return (f"{thinned:,} readings of devices were thinned to the highest of each stretch",) if thinned else ()


def _held(reading: DeviceReading) -> int:
    if reading.used_bytes is not None:
        return reading.used_bytes
    return sum(process.used_bytes or 0 for process in reading.processes or ())
