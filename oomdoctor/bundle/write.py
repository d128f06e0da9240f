"""Writes an incident bundle while the command runs. What fails is remembered, never raised: the run goes on."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from ..errors import BundleError
from ..language import _
from .records import RecordWriter

SCHEMA = "oomdoctor.bundle/1"


def holds_incident(directory: Path) -> bool:
    """Whether a run has written into this folder; false also when it cannot be looked into."""
    return any(os.path.lexists(directory / name) for name in ("manifest.json", "supervisor.records"))


class BundleWriter:
    """The supervisor's pen. Its methods may be called from any thread; only the construction raises."""

    def __init__(self, directory: Path) -> None:
        """Create `directory` (0700) and open its records.

        Raises BundleError when it cannot be created, cannot be written, or already holds an incident.
        """
        self.directory = directory
        self._lock = threading.Lock()
        self._failures: list[str] = []
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if holds_incident(directory):
                raise BundleError(
                    _("{directory} already holds an incident; name another folder with --output").format(
                        directory=directory
                    )
                )
            for part in ("probe", "snapshots"):
                (directory / part).mkdir(mode=0o700, exist_ok=True)
            self._records = RecordWriter(directory / "supervisor.records")
        except OSError as error:
            raise BundleError(
                _("Cannot write an incident folder at {directory}: {why}").format(
                    directory=directory, why=error.strerror or error
                )
            ) from error

    @property
    def failures(self) -> tuple[str, ...]:
        """What could not be written, each said once; empty when all was."""
        with self._lock:
            return tuple(self._failures)

    def write_manifest(self, fields: Mapping[str, object]) -> None:
        """Put `manifest.json` in place, whole or not at all."""
        text = json.dumps({"schema": SCHEMA, **fields}, indent=2, default=str) + "\n"
        self.write_file("manifest.json", text.encode("ascii"))

    def write_file(self, name: str, content: bytes) -> None:
        """Put a file of the bundle in place (0600), whole or not at all."""
        target = self.directory / name
        draft = target.with_name(target.name + ".part")
        try:
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "wb") as stream:
                stream.write(content)
            os.replace(draft, target)
        except OSError as error:
            self._remember(name, error)
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)

    def append(self, kind: str, fields: Mapping[str, object]) -> None:
        """Append a record of this kind to `supervisor.records`; `time` is added when `fields` has none."""
        record = {"kind": kind, "time": time.time(), **fields}
        with self._lock:
            try:
                self._records.append(record)
            except (OSError, ValueError, TypeError) as error:
                failure = error
            else:
                return
        self._remember("supervisor.records", failure)

    def close(self) -> None:
        """Close the records; call once, after the last append."""
        self._records.close()

    def discard(self) -> None:
        """Remove what was written, for a command that never started; a folder with other things in it stays."""
        self.close()
        with contextlib.suppress(OSError):
            for file in self.directory.iterdir():
                if file.name == "manifest.json" or file.suffix in (".records", ".log"):
                    file.unlink()
            for folder in (self.directory / "probe", self.directory / "snapshots", self.directory):
                folder.rmdir()

    def _remember(self, name: str, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        sentence = f"{name}: {reason}"
        with self._lock:
            if sentence not in self._failures and len(self._failures) < 20:
                self._failures.append(sentence)
