"""The derivers, in their order."""

from __future__ import annotations

from ..estimate.model_input import Model
from ..model.evidence import Evidence
from ..model.facts import FactSet
from . import (
    accrual,
    activity,
    adapters,
    allocator,
    census,
    chosen_settings,
    device_course,
    devices,
    ending,
    engine,
    environment,
    explain_request,
    failure,
    host,
    lookalikes,
    model_dimensions,
    named_model,
    orchestrator,
    placement,
    program,
    ranks,
    request,
    sequences,
    simulation,
    statistics,
)
from .deriver import Deriver
from .estimated import Reckoned, estimated, put_facts
from .focus import focus
from .registry import REGISTRY

DERIVERS: tuple[Deriver, ...] = (
    census.derive,
    accrual.derive,
    allocator.derive,
    census.derive_holder,
    failure.derive,
    request.derive,
    statistics.derive,
    activity.derive,
    sequences.derive,
    request.derive_wanted,
    engine.derive,
    model_dimensions.derive,
    named_model.derive,
    adapters.derive,
    devices.derive,
    simulation.derive,
    device_course.derive,
    placement.derive,
    ranks.derive,
    program.derive,
    host.derive,
    orchestrator.derive,
    ending.derive,
    lookalikes.derive,
    environment.derive,
    chosen_settings.derive,
    explain_request.derive,
)
"""In order: the first word on a fact stands, so what is measured comes before what is printed or computed."""


def facts_of(evidence: Evidence, model: Model | None, simulating: simulation.Tell | None) -> tuple[FactSet, Reckoned]:
    """The facts, and the estimate that some of them come from. `simulating` is told how far a simulation is."""
    facts, focused = FactSet(REGISTRY), focus(evidence)
    if model is not None:
        model_dimensions.put_model(model, facts)
    for derive in DERIVERS:
        if derive is simulation.derive:
            simulation.derive(focused, facts, simulating)
        else:
            derive(focused, facts)
    found = estimated(focused, facts, model)
    if found.estimated is not None:
        put_facts(found.estimated, facts)
    return facts, found
