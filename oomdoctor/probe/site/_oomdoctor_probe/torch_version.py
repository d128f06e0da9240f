"""Which torch it is, where what the probe may do depends on that."""

from __future__ import annotations

from .whole import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LISTENED_TO_FROM = (2, 1)


def version_of(torch: Any) -> tuple[int, ...]:
    """Major and minor; (0,) where they cannot be told."""
    parts = [whole_number(part) for part in str(torch.__version__).split("+")[0].split(".")[:2]]
    return (0,) if None in parts else tuple(part for part in parts if part is not None)


def may_be_listened_to(torch: Any) -> bool:
    """Whether Python may run from within the allocator, and other threads ask it for its figures meanwhile.

    Before 2.1 torch calls observers, and drops the stacks it has recorded, with the allocator's lock held, and both
    wait for Python's lock; a thread that has Python's and asks for figures waits for the allocator's. What does not
    hang without the probe must not hang with it.
    """
    return version_of(torch) >= _LISTENED_TO_FROM
