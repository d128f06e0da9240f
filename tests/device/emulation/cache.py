"""Where what was made is kept, outside the repository, and how makers keep out of each other's way."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_MADE = ".made"
"""The last file that a maker writes: a folder without it is half made."""


def cache_folder() -> Path:
    """OOMDOCTOR_DEVICE_CACHE, or a folder in the user's cache."""
    chosen = os.environ.get("OOMDOCTOR_DEVICE_CACHE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base).absolute() / "oomdoctor-device"


def is_made(folder: Path) -> bool:
    """Whether the folder was made to the end."""
    return (folder / _MADE).exists()


def made(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, made by `make` if it is not there yet. One process makes it, others wait; what is half made goes."""
    if is_made(folder):
        return folder
    with _alone(folder.with_name(folder.name + ".lock")):
        if not is_made(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                make(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            (folder / _MADE).touch()
    return folder


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # ends with the file, and with the process
        yield
