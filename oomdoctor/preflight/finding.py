"""What a check says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .setup import Setup


class Level(Enum):
    """How bad it is. What could not be seen has a level of its own: it is never fine."""

    FAIL = "fail"
    WARN = "warn"
    UNSEEN = "not seen"
    FINE = "fine"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    """Which check: a stable name for programs, like `card.processes`."""
    level: Level
    seen: str
    """What was seen, in one sentence; of what was not seen, what it is."""
    why: str = ""
    """Why it matters, or why it could not be seen."""
    do: str = ""
    lines: tuple[str, ...] = ()
    """What to type, to copy."""
    figures: Mapping[str, int | float | str | None] = field(default_factory=dict)
    """Behind the words; sizes end in `_bytes`."""


Check = Callable[["Setup"], Iterable[Finding]]
"""Every check is a function of what was collected; it opens no card and starts nothing."""
