"""Where what was made is kept, outside the repository, and how makers keep out of each other's way."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import cannot_write

_MADE = ".made"
"""The last file that a maker writes: a folder without it is half made."""
_CHOICE = "OOMDOCTOR_DEVICE_CACHE"
_CHOOSE_ANOTHER = f"set {_CHOICE} to a folder that you may write to"


def cache_folder() -> Path:
    """OOMDOCTOR_DEVICE_CACHE, or a folder in the user's cache."""
    chosen = os.environ.get(_CHOICE)
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base).absolute() / "oomdoctor-device"


def why_no_cache() -> str | None:
    """Why nothing can be kept in the cache's folder, which need not be there yet; None where something can."""
    folder = cache_folder()
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not there.is_dir():
        return f"the cache folder {folder} cannot be made: {there} is no folder; {_CHOOSE_ANOTHER}"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"the cache folder {folder} cannot be used: {there} may not be written to; {_CHOOSE_ANOTHER}"
    return None


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Says in a sentence what the system refused in the cache."""
    try:
        yield
    except OSError as error:
        raise cannot_write(f"the cache folder {folder}", error, _CHOOSE_ANOTHER) from error


def is_made(folder: Path) -> bool:
    """Whether the folder was made to the end."""
    return (folder / _MADE).exists()


def unmake(folder: Path) -> None:
    """Have the folder made anew."""
    (folder / _MADE).unlink(missing_ok=True)


def made(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, made by `make` if it is not there yet. One process makes it, others wait; what is half made goes.

    What `make` starts with `close_fds=False` goes on keeping others out should this process be killed meanwhile.
    """
    if is_made(folder):
        return folder
    with writing(folder), _alone(folder.with_name(folder.name + ".lock"), folder):
        if not is_made(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                make(folder)
                (folder / _MADE).touch()
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    return folder


@contextmanager
def _alone(path: Path, folder: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Another process makes {folder}; waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        # The lock ends with the file, and with all processes that have it.
        yield
