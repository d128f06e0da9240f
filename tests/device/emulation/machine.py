"""An emulated machine: cards, the file that holds them, and the torch that runs on them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .build import stand_in
from .cards import Cards
from .errors import CannotEmulate
from .wheel import DEFAULT_TORCH, environment, make_environment, why_not


@dataclass(frozen=True)
class Machine:
    """What a command needs to find in its environment."""

    cards: Cards
    card_file: Path
    programs: Path
    """Where its python lies."""
    libraries: Path
    """Where the stand-in lies, under all names of NVIDIA's libraries."""

    @staticmethod
    def ready(cards: Cards, card_file: Path, torch: str = DEFAULT_TORCH) -> Machine:
        """A machine; what it needs is made if it is not there yet. Raises CannotEmulate."""
        if reason := why_not(torch):
            raise CannotEmulate(reason)
        wanted = environment(torch)
        make_environment(wanted)
        return Machine(cards, card_file, wanted.programs, stand_in(wanted))

    @property
    def python(self) -> str:
        """Its Python, which has torch."""
        return str(self.programs / "python")

    def variables(self, others: Mapping[str, str]) -> dict[str, str]:
        """The environment `others`, on this machine: its python first on PATH, the stand-in before other libraries.

        Programs of other environments are not disturbed: the stand-in's folder holds only NVIDIA's names.
        """
        changed = {**others, **self.cards.variables(self.card_file)}
        for name, first in (("PATH", self.programs), ("LD_LIBRARY_PATH", self.libraries)):
            changed[name] = os.pathsep.join(filter(None, [str(first), others.get(name)]))
        return changed
