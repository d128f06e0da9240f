"""The cards: how many, how large, and the file in which processes share them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .cache import cache_folder, writing
from .errors import CannotEmulate, cannot_write

MIB = 1 << 20
MOST_CARDS = 16
_LARGEST = 16 << 40
"""What fits into the address space that a process has."""

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS.update({f"{_letter}iB": 1024**_power, f"{_letter}B": 1000**_power, _letter: 1024**_power})


def parse_size(text: str) -> int:
    """Bytes of `24GiB`, `420MiB`, `1.5GiB`, `80GB` or plain `1048576`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    unit = _UNITS.get(found[2]) if found else None
    if not found or unit is None:
        raise ValueError(f"{text!r} is no size: 24GiB, 420MiB and so on are")
    size = float(found[1]) * unit
    if size > _LARGEST:
        raise ValueError(f"{text!r} is more than can be emulated: {_LARGEST >> 40} TiB")
    return int(size)


_MAGIC = (0x0D0C7012).to_bytes(4, sys.byteorder)
"""How a card file begins: MAGIC of standin/cards.c."""


def check_card_file(path: Path) -> None:
    """Raises CannotEmulate where the file cannot hold cards, or holds something else that would be lost."""
    if not path.parent.is_dir():
        raise CannotEmulate(f"there is no folder {path.parent} for the card file {path.name}")
    try:
        with open(path, "a+b") as file:  # which makes it, as the first process would
            file.seek(0)
            head = file.read(4)
    except OSError as error:
        raise cannot_write(f"the card file {path}", error, "name another with --shared") from error
    if head not in (b"", _MAGIC, bytes(4)):
        raise CannotEmulate(f"{path} is not a card file: name another, or one that does not exist yet")


@dataclass(frozen=True)
class Cards:
    """All cards of the emulated machine."""

    memory_bytes: Sequence[int] = (24 << 30,)
    """Of each card, as CUDA tells it."""
    context_bytes: int = 420 * MIB
    """What a process takes of each card that it touches."""
    reserve_bytes: int = 0
    """What the driver keeps for itself of each card: in NVML's total, not in CUDA's."""

    def variables(self, file: Path) -> dict[str, str]:
        """The environment variables from which the stand-in makes the card file, if it is not there yet."""
        return {
            "EMULATED_CUDA_CARD": str(file),
            "EMULATED_CUDA_DEVICES": str(len(self.memory_bytes)),
            "EMULATED_CUDA_MEMORY": ",".join(map(str, self.memory_bytes)),
            "EMULATED_CUDA_CONTEXT": str(self.context_bytes),
            "EMULATED_CUDA_RESERVE": str(self.reserve_bytes),
        }


def of_each(sizes: Sequence[int], devices: int | None) -> tuple[int, ...]:
    """The size of each card: the last one given counts for all that follow."""
    count = len(sizes) if devices is None else devices
    if not 1 <= count <= MOST_CARDS:
        raise ValueError(f"there can be 1 to {MOST_CARDS} devices")
    if len(sizes) > count:
        raise ValueError(f"{len(sizes)} sizes for {count} devices")
    return (*sizes, *[sizes[-1]] * (count - len(sizes)))


def private_card() -> Path:
    """A card file of this process and what it becomes or starts. Those of processes that are gone are removed."""
    folder = cache_folder() / "cards"
    with writing(cache_folder()):
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.glob("*.card"):
            pid, _, start = file.stem.partition("-")
            if pid.isdigit() and _started(int(pid)) != start:
                file.unlink(missing_ok=True)
        card = folder / f"{os.getpid()}-{_started(os.getpid())}.card"
        card.touch()
    return card


def _started(pid: int) -> str | None:
    """When a process started, in the kernel's ticks, which `exec` does not change."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
