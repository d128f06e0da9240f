"""What a training was to need, by the formulas of `oomdoctor estimate --train`, beside what was observed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..estimate.parts import Part
from ..estimate.training import (
    ACTIVATIONS,
    GRADIENTS,
    LOGITS,
    OVERHEAD,
    PARAMETERS,
    STATES,
    TrainingBudget,
    state_parts,
    training_budget,
)
from ..language import _
from ..model.estimated import Estimated, EstimatedPart
from ..model.facts import FactSet
from ..model.units import format_bytes
from .asked_training import AskedTraining
from .beside import beside, differs, what_differs_most

_OBSERVED = {
    PARAMETERS: ("owner.weights_bytes",),
    GRADIENTS: ("owner.gradients_bytes",),
    STATES: ("owner.optimizer_bytes",),
    ACTIVATIONS: ("owner.activations_bytes",),
    LOGITS: ("owner.logits_bytes",),
    OVERHEAD: ("oom.outside_allocator_bytes",),
}


def estimated_training(asked: AskedTraining, facts: FactSet) -> Estimated:
    """The estimate; of parameters, gradients and states only, where the model or the batch is not known."""
    settings, model = asked.settings, asked.model
    budget = training_budget(model, settings) if asked.whole_step and model is not None else None
    hidden = model.architecture.hidden if model is not None else None
    wanted = (
        budget.parts
        if budget is not None
        else state_parts(asked.parameters, hidden, settings, frozen_bytes=asked.frozen_bytes)
    )
    rows = tuple(
        beside(part.name, part.bytes, f"{part.known}: {part.formula}", _OBSERVED[part.name], facts)
        for part in wanted
        if part.name in _OBSERVED
    )
    sentences = [*_needed(wanted, budget, asked), *_made_so_far(rows), *_apart(rows)]
    sharded = f", ZeRO {settings.zero} x {settings.ranks}" if settings.zero else ""
    words = _("training of {parameters} parameters, {optimizer}, {precision}{sharded}, on a card of {size}").format(
        parameters=f"{asked.parameters:,}", optimizer=settings.optimizer, precision=settings.precision,
        sharded=sharded, size=format_bytes(settings.capacity_bytes),
    )  # fmt: skip
    return Estimated(words, rows, tuple(sentences))


def _needed(parts: Sequence[Part], budget: TrainingBudget | None, asked: AskedTraining) -> Iterator[str]:
    """What a step asks for, and whether any batch fits."""
    capacity, settings = asked.settings.capacity_bytes, asked.settings
    states = sum(part.bytes for part in parts if part.name in (PARAMETERS, GRADIENTS, STATES))
    if states > capacity:
        yield _(
            "Parameters, gradients and optimizer states alone are {size}, more than the card has ({capacity}): no batch"
            " is small enough."
        ).format(size=format_bytes(states), capacity=format_bytes(capacity))
        return
    if budget is None:
        yield _(
            "Parameters, gradients and optimizer states are {size} of {capacity}; what a batch adds is not told."
        ).format(size=format_bytes(states), capacity=format_bytes(capacity))
        return
    yield _(
        "A step with {batch} x {tokens} tokens needs {size} of {capacity} at its peak; {states} of it are parameters,"
        " gradients and optimizer states."
    ).format(
        batch=settings.batch, tokens=f"{settings.sequence:,}", size=format_bytes(budget.total_bytes),
        capacity=format_bytes(capacity), states=format_bytes(states),
    )  # fmt: skip
    if budget.max_batch < settings.batch:
        yield (
            _("A batch of {count} fits with this length.").format(count=budget.max_batch)
            if budget.max_batch
            else _("Not even a batch of one fits with this length.")
        )
    else:
        yield _("A batch of {count} fits by the estimate, headroom included.").format(count=budget.max_batch)


def _made_so_far(rows: Sequence[EstimatedPart]) -> Iterator[str]:
    """States are made parameter by parameter in the first step: what is there when it fails is not all."""
    states = next((row for row in rows if row.what == STATES), None)
    if states is None or states.observed_bytes is None:
        return
    if states.observed_bytes < states.estimated_bytes and differs(states):
        yield _("Of the optimizer's states {made} were made when it failed; {rest} were still to come.").format(
            made=format_bytes(states.observed_bytes),
            rest=format_bytes(states.estimated_bytes - states.observed_bytes),
        )


def _apart(rows: Sequence[EstimatedPart]) -> Iterator[str]:
    """The part of which there was most more than estimated. Less may only not be made yet, parameters aside."""
    more = [
        row
        for row in rows
        if differs(row) and (row.what == PARAMETERS or (row.observed_bytes or 0) > row.estimated_bytes)
    ]
    if more:
        yield what_differs_most(more)
    elif any(row.observed_bytes is not None for row in rows):
        yield _("Nothing that was observed is more than was estimated.")
