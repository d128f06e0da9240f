"""What earlier censuses of this process saw of its collections, so that a later one can say how they grew.

Names and numbers only: no collection is kept alive. One that is at another address is another collection, though it
may have the same name.
"""

from __future__ import annotations

from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .census_owners import Owner

_MOST = 2000


class Lengths:
    """The first that was seen of each."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str | None, int], tuple[float, int]] = {}

    def earlier(self, owner: Owner) -> tuple[int, float] | None:
        """How many elements it had, and how many seconds ago; this census counts for later ones."""
        if owner.length is None or not owner.container:
            return None
        key = owner.text, owner.file, owner.container
        now = monotonic()
        known = self._seen.get(key)
        if known is None or known[1] > owner.length:
            # New, or emptied meanwhile: it starts to grow now.
            if len(self._seen) < _MOST or known is not None:
                self._seen[key] = now, owner.length
            return None
        return known[1], now - known[0]
