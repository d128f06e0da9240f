"""Figures of an input that tells no whole to divide: each by itself, to one scale, against what is not known. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..diagnose.own_command import filled, own_command
from ..facts.deriver import failed_devices
from ..language import N_, _
from ..model.diagnosis import Diagnosis, Verdict
from ..model.units import format_bytes
from .palette import Category, category_of
from .text import to_copy

_WIDEST = 0.72
"""Of the picture, the largest figure: what is not known takes the rest."""
_MOST = 3
_LIMIT = N_("the limit")

_FIGURES = (
    (("oom.requested_bytes", "host.failed_request_bytes", "engine.kv_refused_bytes"), N_("asked for"), True),
    (("lookalike.kernel_resource_required_bytes",), N_("asked for"), True),
    (("lookalike.kernel_resource_limit_bytes", "oom.allowed_bytes"), _LIMIT, False),
    (("engine.host_needed_bytes",), N_("asked for on the host"), True),
    (("engine.weights_bytes",), N_("weights"), False),
    (("oom.allocated_bytes",), N_("allocated by torch"), False),
    (("engine.in_use_at_profile_bytes",), N_("in use when it was profiled"), False),
    (("host.evicted_used_bytes",), N_("used by what was evicted"), False),
    (("engine.kv_available_bytes",), N_("room for keys and values at start"), False),
    (("engine.host_available_bytes", "oom.free_bytes"), N_("free at the failure"), False),
)
"""By what they are called on the first screen: facts, and whether they are what was asked for."""


@dataclass(frozen=True)
class LooseFigure:
    """A figure without a whole."""

    name: str
    size: str
    category: Category
    asked: bool
    width: float
    """Fraction of the picture."""
    open_ended: bool
    """What it is a part of is not known; where a limit is told it is."""


@dataclass(frozen=True)
class LooseView:
    """What is known of the sizes, and what would tell the rest."""

    figures: tuple[LooseFigure, ...]
    said: str
    in_words: str


def view_loose(diagnosis: Diagnosis) -> LooseView | None:
    """For a failure without a budget; None where there is nothing to say of it."""
    if diagnosis.budgets or diagnosis.nothing_read or diagnosis.verdict is Verdict.NO_FAILURE:
        return None
    found: list[tuple[str, int, bool]] = []
    for names, label, asked in _FIGURES:
        size = next((size for name in names for size in _sizes(diagnosis, name) if size > 0), None)
        if size is not None and all(size != other for _name, other, _asked in found):
            found.append((label, size, asked))
    found = found[:_MOST]
    largest = max((size for _name, size, _asked in found), default=1)
    limited = any(name == _LIMIT for name, _size, _asked in found)
    widest = 1.0 if limited else _WIDEST
    figures = tuple(
        LooseFigure(_(name), format_bytes(size), category_of(f"{name} "), asked, widest * size / largest, not limited)
        for name, size, asked in found
    )
    words = _("; ").join(f"{each.name} {each.size}" for each in figures)
    return LooseView(figures, _said(diagnosis, figures), words)


def _sizes(diagnosis: Diagnosis, name: str) -> tuple[int, ...]:
    members = (*failed_devices(diagnosis.facts), None)
    found = (diagnosis.facts.size(name, member) for member in members)
    return tuple(size for size in found if size is not None)


def _said(diagnosis: Diagnosis, figures: tuple[LooseFigure, ...]) -> str:
    if diagnosis.verdict is Verdict.NOT_OUT_OF_MEMORY:
        return ""
    said = _("How the memory was divided was not measured.")
    if figures:
        said = _("What else was held, and of how much, was not measured.")
    if any(each.kind == "bundle" for each in diagnosis.inputs):
        return said
    return said + _(" `{command}` records it.").format(command=to_copy(_watched_run(diagnosis)))


def _watched_run(diagnosis: Diagnosis) -> str:
    command = own_command(diagnosis.facts)
    return "oomdoctor run -- <your command>" if command is None else filled("oomdoctor run -- <your command>", command)
