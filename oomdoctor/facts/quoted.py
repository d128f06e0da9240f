"""Documents about failures among the inputs: what they quote is nobody's failure, unless there is nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..language import N_
from ..model.diagnosis import Confidence, Finding, Incident
from ..model.evidence import Evidence

QUOTED = N_("the input reads as a document about such failures, not as the log of one")


def without_documents(evidence: Evidence) -> tuple[Evidence, bool]:
    """The evidence without what documents quote where there is other evidence; whether all of it is quoted."""
    documents = {record.path for record in evidence.inputs if record.kind == "document"}
    if not documents:
        return evidence, False
    own = tuple(event for event in evidence.events if event.source.path not in documents)
    if not own and not evidence.runs and not evidence.snapshots:
        return evidence, True
    excerpts = tuple(excerpt for excerpt in evidence.excerpts if excerpt.path not in documents)
    return replace(evidence, events=own, excerpts=excerpts), False


def as_quoted(incidents: Iterable[Incident]) -> tuple[Incident, ...]:
    """None of them is known to have happened."""
    return tuple(replace(incident, is_memory=False, then=QUOTED) for incident in incidents)


def as_possible(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """What would be the cause if it had; a change to make there is none, for nobody knows of a program to change."""
    return tuple(replace(finding, confidence=Confidence.POSSIBLE, remedies=(), owner=None) for finding in findings)
