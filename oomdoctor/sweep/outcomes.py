"""What became of the runs of a setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

HOST = "host"


class Kind(str, Enum):
    """How a run ended."""

    RAN = "ran"
    OUT_OF_MEMORY = "out-of-memory"
    FAILED = "failed"
    """For another reason than memory, or for none that anybody told."""
    TIMED_OUT = "timed-out"


@dataclass(frozen=True)
class Peak:
    """The most that a command held in one place: a device by its own number (`cuda:0`), or the host."""

    where: str
    bytes: int
    known: str
    """How, in words."""
    exact: bool
    """Whether a short peak would have been seen as well; otherwise it was at least this much."""
    total_bytes: int | None = None
    """Of the card, or of the limit that comes first on the host."""
    available_bytes: int | None = None
    """What others had left of that before the command began."""
    allocated_bytes: int | None = None
    """The most that torch's tensors took of it."""
    squeezed: bool = False
    """The allocator had to give memory back to go on: with more room it would have held more."""
    name: str | None = None
    """Of the card, or of the limit."""


@dataclass(frozen=True)
class Attempt:
    """One run."""

    kind: Kind
    peaks: tuple[Peak, ...] = ()
    seconds: float | None = None
    detail: str = ""
    """A sentence, where it did not end well."""
    folder: str | None = None
    """Its incident folder, below that of the sweep."""
    degraded: bool = False
    """It ended well, but had been short of memory on the way."""


@dataclass(frozen=True)
class Outcome:
    """All runs of a setting together: the worst end, the highest peaks."""

    attempts: tuple[Attempt, ...]

    @property
    def kind(self) -> Kind:
        """Out of memory if one was, else failed if one did."""
        kinds = {attempt.kind for attempt in self.attempts}
        return next(kind for kind in (Kind.OUT_OF_MEMORY, Kind.FAILED, Kind.TIMED_OUT, Kind.RAN) if kind in kinds)

    @property
    def told_by(self) -> Attempt:
        """The attempt that decides the kind."""
        return next(attempt for attempt in self.attempts if attempt.kind is self.kind)

    @property
    def degraded(self) -> bool:
        """Whether one was short of memory."""
        return any(attempt.degraded for attempt in self.attempts)

    def peak(self, where: str) -> Peak | None:
        """The highest of the runs that ended well; None where none was seen."""
        return max(self._seen(where), key=lambda peak: peak.bytes, default=None)

    def spread_bytes(self, where: str) -> int:
        """Between the highest and the lowest peak of several runs."""
        sizes = [peak.bytes for peak in self._seen(where)]
        return max(sizes) - min(sizes) if sizes else 0

    def _seen(self, where: str) -> list[Peak]:
        peaks = (peak for attempt in self.attempts if attempt.kind is Kind.RAN for peak in attempt.peaks)
        return [peak for peak in peaks if peak.where == where]


def places(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Where something was seen to be held, devices before the host."""
    peaks = (peak for outcome in outcomes for attempt in outcome.attempts for peak in attempt.peaks)
    return tuple(sorted({peak.where for peak in peaks}, key=lambda where: (where == HOST, len(where), where)))
