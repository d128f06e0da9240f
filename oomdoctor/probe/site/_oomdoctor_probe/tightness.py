"""Tells when device memory is tight: nearly full, or growing so fast that it soon will be."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_FULL, _EMPTIER = 0.7, 0.6
"""Shares of the limit: tight from the first, until it falls below the second."""
_GROWS_FROM = 0.25
"""Below this share growth does not count: it is the start of the program."""
_SOON_SECONDS = 5.0
_LOOK_BACK_SECONDS = 2.0


class Tightness:
    """What was seen of each device lately."""

    def __init__(self) -> None:
        self._tight = False
        self._seen: dict[int, list[tuple[float, int]]] = {}

    def look(self, now: float, reserved: Mapping[int, int], limits: Mapping[int, int]) -> bool:
        """Whether any device is tight, by its reserved bytes at `now` (seconds of a clock) and the limit for them."""
        enough = _EMPTIER if self._tight else _FULL
        # A list: every device has to be noted.
        tight = [
            size >= enough * limits[device] or self._soon_full(device, now, size, limits[device])
            for device, size in reserved.items()
        ]
        self._tight = any(tight)
        return self._tight

    def _soon_full(self, device: int, now: float, size: int, limit: int) -> bool:
        """Whether growth as over the last two seconds would reach the limit within five."""
        seen = self._seen.setdefault(device, [])
        seen.append((now, size))
        while len(seen) > 2 and seen[1][0] <= now - _LOOK_BACK_SECONDS:
            del seen[0]
        began, before = seen[0]
        if now <= began or size < _GROWS_FROM * limit:
            return False
        return size + (size - before) / (now - began) * _SOON_SECONDS >= limit
