"""Names that stand for the true ones, the same in every report, and the private file that tells which is which."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import UsageError
from ..language import _

KINDS = ("user", "host", "address", "directory", "file", "process")
_SCHEMA = "oomdoctor.pseudonyms/1"
_LOCK_SECONDS = 120.0
"""Another report that is being made of much input holds the names as long as that takes."""


class Pseudonyms:
    """Gives each true name of a kind one pseudonym: `user1`, `host2`, `file3.py`."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}

    def of(self, kind: str, true: str, suffix: str = "") -> str:
        """The pseudonym, made when the name is first met; `suffix` is what of the name may stay (`.py`)."""
        known = self._by_kind[kind]
        if true not in known:
            known[true] = f"{kind}{len(known) + 1}{suffix}"
        return known[true]

    def has(self, kind: str, true: str) -> bool:
        """Whether a name was met."""
        return true in self._by_kind[kind]

    def known(self, kind: str) -> dict[str, str]:
        """The names of a kind that were met, with their pseudonyms."""
        return dict(self._by_kind[kind])


def default_file() -> Path:
    """Where the names of this user are kept: they stay the same from one report to the next. Raises UsageError."""
    state = os.environ.get("XDG_STATE_HOME")
    try:
        folder = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise UsageError(_("there is no home folder for the pseudonyms; name a file with --pseudonyms")) from error
    return folder / "oomdoctor" / "pseudonyms.json"


@contextmanager
def kept_pseudonyms(path: Path) -> Iterator[Pseudonyms]:
    """The names of the file, and those met meanwhile written to it; two at once do not lose each other's.

    Raises UsageError where the file is something else or cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise UsageError(
            _("cannot keep the pseudonyms in {path}: {why}").format(path=path, why=error.strerror)
        ) from error
    try:
        _lock(lock, path)
        names = _load(path)
        yield names
        _save(names, path)
    finally:
        os.close(lock)


def _lock(lock: int, path: Path) -> None:
    """Raises UsageError where another process holds the names for long: a stopped one would do so for ever."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise UsageError(
                    _("another process holds {path}; name another file with --pseudonyms").format(path=path)
                ) from error
            time.sleep(0.02)
        except OSError as error:
            raise UsageError(
                _("cannot keep the pseudonyms in {path}: {why}").format(path=path, why=error.strerror)
            ) from error


def _load(path: Path) -> Pseudonyms:
    """Those of the file; none where there is no such file."""
    names = Pseudonyms()
    try:
        stored = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return names
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            _("{path} cannot be read as pseudonyms ({why}); name another file with --pseudonyms").format(
                path=path, why=error
            )
        ) from error
    if not isinstance(stored, dict) or stored.get("schema") != _SCHEMA:
        raise UsageError(_("{path} holds no pseudonyms; name another file with --pseudonyms").format(path=path))
    for kind in KINDS:
        kept = stored.get(kind, {})
        if not isinstance(kept, dict) or not all(isinstance(each, str) for each in kept.values()):
            raise UsageError(
                _("{path}: {kind} is no table of names; name another file with --pseudonyms").format(
                    path=path, kind=repr(kind)
                )
            )
        names._by_kind[kind].update(kept)
    return names


def _save(names: Pseudonyms, path: Path) -> None:
    """Write the file, for its owner's eyes only, whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    text = json.dumps({"schema": _SCHEMA, **{kind: names.known(kind) for kind in KINDS}}, ensure_ascii=False, indent=1)
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise UsageError(
            _("cannot write the pseudonyms to {path}: {why}").format(path=path, why=error.strerror)
        ) from error
