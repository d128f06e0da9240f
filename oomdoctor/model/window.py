"""What a device's allocator did over the recorded window. Sizes in bytes, times in seconds (Unix)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CategoryCourse:
    """Live bytes of one category at each point of the window."""

    name: str
    values_bytes: tuple[int, ...]


@dataclass(frozen=True)
class LineCourse:
    """Live bytes of one owner at each point of the window."""

    owner: str
    """Empty: of all others together."""
    category: str
    """That of most of its bytes; empty for all others together."""
    values_bytes: tuple[int, ...]


@dataclass(frozen=True)
class PhaseSpan:
    """A stretch of the window in which the program mostly did one thing. Times are those of events."""

    name: str
    """'load', 'forward', 'backward', 'optimizer', 'prefill', 'decode', 'generate'."""
    begin_seconds: float
    end_seconds: float
    how_known: str = ""


@dataclass(frozen=True)
class PeakHolding:
    """What one owner held when most was live."""

    owner: str
    category: str
    bytes: int
    count: int


@dataclass(frozen=True)
class OwnerCourse:
    """The allocations of one owner over the window."""

    owner: str
    category: str
    allocations: int
    """In the window; what stood before it is not among them."""
    sizes: int
    """How many different sizes these had."""
    allocated_bytes: int
    """All allocations of the window together."""
    most_live_bytes: int
    live_at_end_bytes: int
    median_lifetime_seconds: float | None
    """Of those that were freed within the window; None where none was, or without times."""


@dataclass(frozen=True)
class PeakRise:
    """The rise to the peak: which allocations made it."""

    foot_bytes: int
    foot_seconds: float
    owners: tuple[PeakHolding, ...]
    """By how much each had more at the peak than at the foot; the largest, not necessarily all."""


@dataclass(frozen=True)
class Window:
    """The recorded window of one device. Curves have a value at each of `times_seconds`."""

    where: str
    events: int
    has_times: bool
    """False: times are numbers of events."""
    times_seconds: tuple[float, ...]
    categories: tuple[CategoryCourse, ...]
    """Together they are what was live; the largest at the peak first."""
    peak_seconds: float
    peak_bytes: int
    peak_is_before: bool
    """The most was live before the window began."""
    peak_may_be_more_bytes: int
    """By how much the peak may be more: of blocks whose allocation is not recorded the rounding is not known."""
    before_bytes: int
    """Live when the window began, rebuilt backwards from the final state."""
    at_peak: tuple[PeakHolding, ...]
    """The largest, then all others as one row; together the peak."""
    rise: PeakRise | None
    owners: tuple[OwnerCourse, ...]
    phases: tuple[PhaseSpan, ...]
    marks: tuple[PhaseSpan, ...]
    """Stretches that the program itself annotated."""
    failure_seconds: float | None
    disagreements: int
    """Contradictions between the events and the final state; 0: they agree."""
    source: str
    lines: tuple[LineCourse, ...] = ()
    """The owners that held most at some time, then all others; together they are what was live."""
