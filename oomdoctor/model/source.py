"""Where a statement comes from: every event, fact and budget part carries one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..language import N_


@dataclass(frozen=True)
class Source:
    """A place in the input (path and line, or record), or the facts a value was computed from."""

    path: str | None = None
    """The input as the user named it, or its path inside the bundle."""
    line: int | None = None
    """Counted from 1."""
    record: str | None = None
    """A record, sample, block or event inside `path`, in words: `oom event 3`."""
    derived_from: tuple[str, ...] = ()
    """Names of the facts this was computed from."""

    def __str__(self) -> str:
        if self.derived_from:
            return N_("from {facts}").format(facts=", ".join(self.derived_from))
        place = self.path or N_("unknown source")
        if self.line is not None:
            place += f":{self.line}"
        return f"{place} ({self.record})" if self.record else place


class KnownBy(str, Enum):
    """What tells the category of memory."""

    CENSUS = "census"
    STACKS = "stacks"
    ANNOTATION = "annotation"
    ALLOCATOR = "allocator"
    """Its size, its pool or its state, which nothing else has."""
    MEASURED = "measured"
    """By the driver, or by the probe on the host."""
    NOT_KNOWN = "not known"
