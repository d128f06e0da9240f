"""What a sweep has measured so far, in its folder: framed records, appended, never changed.

The record `sweep` says what is measured; each record `run` is one run that has ended. A run that was interrupted leaves
none, and is run again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..bundle.records import Record, RecordWriter, bounded_lines, read_lines
from ..errors import BundleError, OomdoctorError, UsageError
from ..language import _
from .outcomes import Attempt, Kind, Outcome, Peak
from .variables import Cell, Variable, all_cells, values_of

NAME = "sweep.records"
SCHEMA = "oomdoctor.sweep-records/1"
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Measured:
    """What is measured: runs of another one say nothing of it."""

    command: tuple[str, ...]
    """With its placeholders, and without secrets."""
    environment: tuple[tuple[str, str], ...]
    variables: tuple[str, ...]
    until: str | None
    cards: tuple[tuple[str, int], ...]
    """Name and size of each card of the machine."""
    digest: str = ""
    """Of the command and the variables in full."""


class State:
    """The open record of a sweep. Only one process has it at a time."""

    def __init__(self, folder: Path, measured: Measured, variables: Sequence[Variable], fresh: bool) -> None:
        """Opens the folder, making it where it is missing, and reads what is there.

        `fresh`: earlier runs do not count. Raises UsageError where it belongs to another sweep, or is in use, and
        BundleError where it cannot be read or written.
        """
        self.folder = folder
        self._variables = variables
        self._attempts: dict[tuple[str, ...], list[Attempt]] = {}
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BundleError(
                _("cannot write to {folder}: {why}").format(folder=folder, why=error.strerror or error)
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                _("{folder} is in use by another sweep, or a run of one has not ended").format(folder=folder)
            ) from error
        try:
            self._read(measured, fresh)
            self._writer = _writer(folder / NAME)
            if fresh or not self._begun:
                self._writer.append({"kind": "sweep", "time": time.time(), "schema": SCHEMA, **asdict(measured)})
        except OSError as error:
            os.close(self._lock)
            raise BundleError(
                _("cannot write {path}: {why}").format(path=folder / NAME, why=error.strerror or error)
            ) from error
        except OomdoctorError:
            os.close(self._lock)
            raise

    def outcomes(self) -> dict[Cell, Outcome]:
        """Of the settings of this sweep that have been run."""
        by_values = {self._key(cell): cell for cell in all_cells(self._variables)}
        return {
            by_values[key]: Outcome(tuple(attempts)) for key, attempts in self._attempts.items() if key in by_values
        }

    def forget(self, unwanted: Sequence[Kind]) -> None:
        """Runs that ended so are done again."""
        for key, attempts in list(self._attempts.items()):
            if Outcome(tuple(attempts)).kind in unwanted:
                del self._attempts[key]

    def add(self, cell: Cell, attempt: Attempt) -> None:
        """A run has ended. Raises BundleError where that cannot be written."""
        self._attempts.setdefault(self._key(cell), []).append(attempt)
        values = values_of(self._variables, cell)
        try:
            self._writer.append({"kind": "run", "time": time.time(), "values": values, **_plain(attempt)})
        except OSError as error:
            raise BundleError(
                _("cannot write {path}: {why}").format(path=self.folder / NAME, why=error.strerror or error)
            ) from error

    def close(self) -> None:
        """Let others have it."""
        self._writer.close()
        with contextlib.suppress(OSError):
            os.close(self._lock)

    def _key(self, cell: Cell) -> tuple[str, ...]:
        return tuple(values_of(self._variables, cell).values())

    def _read(self, measured: Measured, fresh: bool) -> None:
        self._begun = False
        try:
            with (self.folder / NAME).open("rb") as stream:
                records = read_lines(bounded_lines(stream, _MOST_BYTES)).records
        except FileNotFoundError:
            return
        except OSError as error:
            raise BundleError(
                _("cannot read {path}: {why}").format(path=self.folder / NAME, why=error.strerror or error)
            ) from error
        begun: Mapping[str, Any] | None = None
        for record in records:
            if record.kind == "sweep":
                self._attempts.clear()
                begun = record.data
            elif record.kind == "run":
                self._take(record)
        self._begun = begun is not None
        if fresh:
            self._attempts.clear()
        elif begun is not None:
            self._refuse_other(begun, measured)

    def _refuse_other(self, data: Mapping[str, Any], measured: Measured) -> None:
        if data.get("schema") != SCHEMA:
            raise BundleError(
                _("{folder} was written by another version of oomdoctor; name another folder").format(
                    folder=self.folder / NAME
                )
            )
        mine = _as_read(asdict(measured))
        cards = data.get("cards")
        if cards and mine["cards"] and cards != mine["cards"]:
            raise UsageError(
                _("{folder} was measured on other cards; name another folder, or --fresh").format(folder=self.folder)
            )
        for name, what in (
            ("command", _("another command")),
            ("environment", _("other --env")),
            ("variables", _("other variables")),
            ("until", _("another --until")),
            ("digest", _("another command")),
        ):
            if data.get(name) != mine[name]:
                raise UsageError(
                    _("{folder} holds a sweep with {what}; name another folder, or --fresh").format(
                        folder=self.folder, what=what
                    )
                )

    def _take(self, record: Record) -> None:
        values = record.data.get("values")
        attempt = _attempt(record.data)
        if isinstance(values, dict) and attempt is not None:
            key = tuple(str(values.get(variable.name)) for variable in self._variables)
            self._attempts.setdefault(key, []).append(attempt)


def _writer(path: Path) -> RecordWriter:
    """Appends to what is there; a last line that was cut short stays by itself."""
    with path.open("ab+") as stream:
        size = stream.seek(0, os.SEEK_END)
        if size:
            stream.seek(size - 1)
            if stream.read() != b"\n":
                stream.write(b"\n")
    return RecordWriter(path)


def _as_read(value: Any) -> Any:
    """What JSON makes of it: lists for tuples."""
    if isinstance(value, dict):
        return {name: _as_read(each) for name, each in value.items()}
    return [_as_read(each) for each in value] if isinstance(value, (list, tuple)) else value


def _plain(attempt: Attempt) -> dict[str, Any]:
    return {"ended": attempt.kind.value, **{k: v for k, v in asdict(attempt).items() if k != "kind"}}


def _attempt(data: Mapping[str, Any]) -> Attempt | None:
    try:
        names = {each.name for each in fields(Peak)}
        peaks = [{name: value for name, value in peak.items() if name in names} for peak in data["peaks"]]
        return Attempt(
            kind=Kind(data["ended"]),
            peaks=tuple(Peak(**peak) for peak in peaks),
            seconds=data.get("seconds"),
            detail=str(data.get("detail") or ""),
            folder=data.get("folder"),
            degraded=data.get("degraded") is True,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
