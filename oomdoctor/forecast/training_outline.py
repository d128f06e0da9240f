"""An estimate of training as titles, sentences and tables."""

from __future__ import annotations

from ..compare.outline import Section
from ..estimate.model_input import Model
from ..estimate.training import Training, TrainingBudget
from ..model.units import format_bytes
from .outline import VERDICTS, explained


def training_headline(budget: TrainingBudget, settings: Training) -> str:
    """The answer in one sentence."""
    return (
        f"{VERDICTS[budget.verdict]}: a step with {settings.batch} x {settings.sequence:,} tokens needs"
        f" {format_bytes(budget.total_bytes)} of {format_bytes(settings.capacity_bytes)}"
    )


def training_outline(model: Model, settings: Training, budget: TrainingBudget) -> tuple[Section, ...]:
    """The verdict, the moments of a step, the parts, how they come about."""
    count = f"{model.parameters:,}" if model.parameters is not None else "not known"
    facts = (
        f"headroom: {format_bytes(budget.headroom_bytes)}; {100 * settings.headroom:.0f} % was asked for",
        f"what binds: {budget.binds}",
        f"largest batch with {settings.sequence:,} tokens: {budget.max_batch or 'not even one'}",
        f"parameters: {count}; {settings.optimizer}, {settings.precision}, ZeRO stage {settings.zero} on"
        f" {settings.ranks} rank{'s' if settings.ranks > 1 else ''}",
        f"checkpointing: {'on' if settings.checkpointing else 'off'}",
    )
    parts = tuple(part for part in budget.parts if part.bytes)
    peak = budget.peak.parts
    return (
        Section(training_headline(budget, settings), facts),
        Section(
            "Moments of a step",
            head=("moment", "needs"),
            rows=tuple((moment.name, format_bytes(moment.bytes)) for moment in budget.moments),
            remark="The largest of them counts.",
        ),
        Section(
            "Parts",
            head=("part", "size", "at the peak", "how known"),
            rows=tuple(
                (part.name, format_bytes(part.bytes), "yes" if part.name in peak else "no", part.known)
                for part in parts
            ),
        ),
        Section("How the figures come about", tuple(explained(part) for part in parts)),
    )
