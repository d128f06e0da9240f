"""What an empty process was measured to take, kept from one call to the next in the user's cache folder."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ..errors import UsageError
from ..estimate.engines import LLAMA_CPP, Engine
from ..language import _

SCHEMA = "oomdoctor.overhead/1"
_MOST_BYTES = 1 << 20
_MOST_ENTRIES = 64
_ALIKE = 0.05
"""A card whose memory differs by less than this from the size asked about is taken to be of that kind."""


@dataclass(frozen=True)
class Measured:
    """One measurement, of one kind of card, driver and torch."""

    gpu: str
    driver: str
    torch: str | None
    """None: the driver's context alone was measured, without torch."""
    total_bytes: int
    context_bytes: int
    """What the context takes, before any library was used."""
    libraries_bytes: int
    """What using the libraries once added, beside what torch's allocator keeps."""
    allocator_bytes: int
    """What torch's allocator kept by then; no part of the overhead, as an estimate counts it elsewhere."""
    how: str
    """'process' by NVML's table of processes, or 'device' by the change of the whole card."""
    time_seconds: float

    @property
    def bytes(self) -> int:
        """Context and libraries."""
        return self.context_bytes + self.libraries_bytes

    @property
    def words(self) -> str:
        """Where it comes from."""
        day = time.strftime("%Y-%m-%d", time.gmtime(self.time_seconds))
        torch = f"torch {self.torch}" if self.torch else _("without torch")
        return _("oomdoctor check --overhead: {gpu}, driver {driver}, {torch}, {day}").format(
            gpu=self.gpu, driver=self.driver, torch=torch, day=day
        )


def store_path() -> Path:
    """The file, in XDG_CACHE_HOME."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "oomdoctor" / "overhead.json"


def read_measured() -> tuple[Measured, ...]:
    """What is kept, the newest first; what is not understood counts for nothing."""
    try:
        path = store_path()
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return ()
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError, RuntimeError):
        return ()
    entries = content.get("measured") if isinstance(content, dict) and content.get("schema") == SCHEMA else None
    found = [one for entry in entries if (one := _entry(entry)) is not None] if isinstance(entries, list) else []
    return tuple(sorted(found, key=lambda one: -one.time_seconds))


def keep_measured(new: list[Measured]) -> Path:
    """Put measurements in the place of older ones of the same card, driver and torch. Raises UsageError."""
    path = store_path()
    keys = {(one.gpu, one.driver, one.torch) for one in new}
    kept = [*new, *(one for one in read_measured() if (one.gpu, one.driver, one.torch) not in keys)][:_MOST_ENTRIES]
    text = json.dumps({"schema": SCHEMA, "measured": [asdict(one) for one in kept]}, indent=1) + "\n"
    temporary = ""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, temporary = tempfile.mkstemp(dir=path.parent, prefix=".overhead")  # readable by the user only
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise UsageError(
            _("the measurement cannot be kept in {path}: {why}").format(path=path, why=error.strerror)
        ) from error
    return path


def measured_overhead(capacity_bytes: int, engine: Engine | None) -> Measured | None:
    """The newest one of a card of about that size: with torch, or for an engine without torch the context alone."""
    plain = engine is LLAMA_CPP
    for one in read_measured():
        if (one.torch is None) == plain and abs(one.total_bytes - capacity_bytes) <= _ALIKE * capacity_bytes:
            return one
    return None


def _entry(entry: object) -> Measured | None:
    if not isinstance(entry, dict) or set(entry) != {each.name for each in fields(Measured)}:
        return None
    texts = [entry["gpu"], entry["driver"], entry["how"], *([entry["torch"]] if entry["torch"] is not None else [])]
    sizes = [entry[name] for name in ("total_bytes", "context_bytes", "libraries_bytes", "allocator_bytes")]
    if not all(isinstance(each, str) and len(each) < 200 for each in texts):
        return None
    if not all(type(each) is int and 0 <= each < 1 << 50 for each in sizes) or not sizes[0]:
        return None
    seconds = entry["time_seconds"]
    if type(seconds) not in (int, float) or not 0 <= seconds < 1 << 40:
        return None
    return Measured(**entry)
