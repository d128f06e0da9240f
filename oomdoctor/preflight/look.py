"""All checks, in the order in which people need them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..language import _
from .cards import check_cards
from .checkpoint import read_checkpoint
from .finding import Check, Finding, Level
from .fit import check_fit
from .host import check_disk, check_limits, check_memory, check_shm
from .measured import Measured
from .overhead import NotMeasured
from .setup import Setup
from .shares import check_shares
from .visible import check_visible
from .words import check_words

_ORDER = (Level.FAIL, Level.WARN, Level.UNSEEN, Level.FINE)


@dataclass(frozen=True)
class Outlook:
    """What was found, the worst first, and what it was found with."""

    setup: Setup
    findings: tuple[Finding, ...]
    measured: tuple[Measured, ...] = ()
    not_measured: tuple[NotMeasured, ...] = ()

    def of(self, level: Level) -> tuple[Finding, ...]:
        """The findings of a level."""
        return tuple(each for each in self.findings if each.level is level)

    @property
    def stands_in_the_way(self) -> bool:
        """Whether something will fail."""
        return bool(self.of(Level.FAIL))


def check_all(setup: Setup) -> Outlook:
    """Everything that can be said before the run. A check that breaks is said not to have been seen."""
    found = list(_all(setup))
    return Outlook(setup, tuple(sorted(found, key=lambda each: _ORDER.index(each.level))))


def _all(setup: Setup) -> Iterator[Finding]:
    checkpoint = read_checkpoint(setup.asked.model) if setup.asked.model is not None else None
    checks: tuple[tuple[str, Check], ...] = (
        (_("the command and its settings"), check_words),
        (_("the visible cards"), check_visible),
        (_("the cards"), check_cards),
        (_("shares of the cards"), check_shares),
        (_("whether the model fits"), check_fit),
        (_("host memory"), lambda setup: check_memory(setup, checkpoint)),
        (_("shared memory"), check_shm),
        (_("limits"), check_limits),
        (_("room on disk"), lambda setup: check_disk(setup, checkpoint)),
    )
    yield from _python(setup)
    for what, check in checks:
        try:
            yield from check(setup)
        except Exception as error:  # one check must not take the others with it
            yield Finding(
                "check",
                Level.UNSEEN,
                _("What concerns {what}").format(what=what),
                _("The check broke: {kind}: {why}").format(kind=type(error).__name__, why=error),
            )


def _python(setup: Setup) -> Iterator[Finding]:
    found = setup.interpreter
    if found.path is None:
        if setup.command.program in ("llama.cpp", "ollama"):
            return
        yield Finding("python", Level.UNSEEN, _("Which Python and torch the command uses"), found.how)
        return
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    if "torch" not in found.versions:
        yield Finding(
            "python",
            Level.UNSEEN,
            _("torch's version: none is installed for {path}").format(path=found.path),
            _("Looked into its packages without running it ({how})").format(how=found.how),
        )
    if versions:
        yield Finding("python", Level.FINE, f"{versions} ({found.how})", figures=dict(found.versions))
