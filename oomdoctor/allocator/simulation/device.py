"""The device as the driver gives it out: a number of free bytes, and addresses nobody used before."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.units import MIB

_FIRST_ADDRESS = 1 << 60
"""Above every address that a driver gives."""
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
    next_address: int = _FIRST_ADDRESS
    hint: int | None = None
    """Address at which the next segment came to stand when the run was recorded."""

    def take(self, size_bytes: int) -> bool:
        """Take memory; whether there was enough."""
        if size_bytes > self.free_bytes:
            return False
        self.free_bytes -= size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Give memory back."""
        self.free_bytes += size_bytes

    def address(self, size_bytes: int) -> int:
        """Where a new segment or reservation comes to stand."""
        if self.hint is not None:
            found, self.hint = self.hint, None
            return found
        found = self.next_address
        self.next_address += -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
        return found
