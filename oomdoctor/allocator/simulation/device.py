"""The device as the driver gives it out: a number of free bytes, and addresses nobody used before."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from ...model.units import MIB

_FIRST_ADDRESS = 1 << 62
"""Above every address that a driver gives. New ones go down from there, as those of Linux do; a driver may differ."""
_ALIGNMENT = 2 * MIB


@dataclass
class Device:
    """What the driver has left, and what the process may take of it.

    What other processes and the context hold stays as it was; that memory is in pages, so that whatever is free serves.
    """

    free_bytes: int
    total_bytes: int | None = None
    allowed_bytes: int | None = None
    """What the allocator of the process may reserve (memory fraction); None: no bound."""
    hint: int | None = None
    """Address at which the next segment came to stand when the run was recorded."""
    next_address: int = _FIRST_ADDRESS
    """New segments come to stand below it."""
    _ranges: list[tuple[int, int]] = field(default_factory=list)
    """First address and size of what stands, by address."""

    def take(self, size_bytes: int) -> bool:
        """Take memory; whether there was enough."""
        if size_bytes > self.free_bytes:
            return False
        self.free_bytes -= size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Give memory back."""
        self.free_bytes += size_bytes

    def place(self, size_bytes: int) -> int:
        """Where a new segment or reservation comes to stand."""
        address, self.hint = self.hint, None
        if address is None or not self._is_vacant(address, size_bytes):
            self.next_address -= -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
            address = self.next_address
        self.occupy(address, size_bytes)
        return address

    def occupy(self, address: int, size_bytes: int) -> None:
        """Something stands there."""
        insort(self._ranges, (address, size_bytes))

    def vacate(self, address: int, size_bytes: int) -> None:
        """It does no longer."""
        del self._ranges[bisect_left(self._ranges, (address, size_bytes))]

    def _is_vacant(self, address: int, size_bytes: int) -> bool:
        at = bisect_left(self._ranges, (address, 0))
        if at < len(self._ranges) and self._ranges[at][0] < address + size_bytes:
            return False
        return at == 0 or sum(self._ranges[at - 1]) <= address
