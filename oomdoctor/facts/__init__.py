"""From evidence to facts: one deriver per subject.

The derivers are loaded when facts are asked for: `check` reads a launch line by functions of this package, and must not
wait for what reads snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..estimate.model_input import Model
    from ..model.evidence import Evidence
    from ..model.facts import FactSet
    from .estimated import Reckoned
    from .simulation import Tell


def derive_facts(evidence: Evidence, model: Model | None = None) -> FactSet:
    """All facts that the evidence gives of the failure in focus; what it does not give is absent.

    `model`: the one that ran, where its files are at hand.
    """
    return derive_all(evidence, model)[0]


def derive_all(
    evidence: Evidence, model: Model | None = None, simulating: Tell | None = None
) -> tuple[FactSet, Reckoned]:
    """The facts, and the estimate that some of them come from. `simulating` is told how far a simulation is."""
    from .derive import facts_of

    return facts_of(evidence, model, simulating)
