"""The report as JSON: the contract `oomdoctor.report/1` that other programs read (see report.schema.json)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from .. import __version__
from ..model.diagnosis import (
    Budget,
    Comparison,
    Diagnosis,
    EvidenceItem,
    Finding,
    Holding,
    Incident,
    Misuse,
    Remedy,
    Setting,
)
from ..model.failed_request import FailedRequest
from ..model.window import Window

SCHEMA = "oomdoctor.report/1"

_SURROGATE = re.compile("[\ud800-\udfff]")


def render(diagnosis: Diagnosis) -> str:
    """The report as one JSON object.

    Only ASCII is written: the text is often read in a terminal, where a raw C1 control or direction mark would act.
    """
    return json.dumps(as_json_object(diagnosis), indent=2, allow_nan=False, ensure_ascii=True) + "\n"


def as_json_object(diagnosis: Diagnosis) -> dict[str, Any]:
    """The report as the contract's object: sizes are integers in bytes, times seconds, what is unknown is null."""
    report = {
        "schema": SCHEMA,
        "oomdoctor": __version__,
        "fingerprint": diagnosis.fingerprint,
        "verdict": diagnosis.verdict.value,
        "summary": diagnosis.summary,
        "diagnoses": [_finding(finding) for finding in diagnosis.findings],
        "budget": [_budget(budget) for budget in diagnosis.budgets],
        "owners": [_owner(holding) for holding in diagnosis.holdings],
        "incidents": [
            {
                "when": each.when_seconds,
                "where": each.where,
                "cause": each.cause,
                "source": each.source,
                **({"then": each.then} if each.then else {}),
                **_explained(each),
            }
            for each in diagnosis.incidents
        ],
        "missing": [
            {"what": each.what, "why": each.why, "how_to_get_it": each.how_to_get_it} for each in diagnosis.missing
        ],
        "misuses": [_misuse(each) for each in diagnosis.misuses],
        "comparisons": [_comparison(each) for each in diagnosis.comparisons],
        **({"estimate": asdict(diagnosis.estimated)} if diagnosis.estimated is not None else {}),
        "failed_requests": [_failed_request(each) for each in diagnosis.failed_requests],
        "windows": [_window(each) for each in diagnosis.windows],
        "facts": {
            key: {
                "value": fact.value,
                "unit": diagnosis.facts.specs[fact.name].type.value,
                "source": str(fact.source),
            }
            for key, fact in diagnosis.facts.items()
            # A number that is none is not a fact: it is left out like everything else that is unknown.
            if not _is_not_a_number(fact.value)
        },
        "inputs": [
            {"path": each.path, "kind": each.kind, "status": each.status, "why": each.why} for each in diagnosis.inputs
        ],
    }
    portable: dict[str, Any] = _portable(report)
    return portable


def _explained(incident: Incident) -> dict[str, Any]:
    said: dict[str, Any] = {} if incident.verdict is None else {"verdict": incident.verdict.value}
    why = incident.explanation
    if why is not None:
        said["diagnosis"] = {
            "rule": why.rule,
            "cause": why.cause,
            "title": why.title,
            "confidence": why.confidence.value,
        }
    return said


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "cause": finding.cause,
        "family": finding.family,
        "title": finding.title,
        "confidence": finding.confidence.value,
        "by_precedent": finding.by_precedent,
        "scope": dict(finding.scope),
        "explain": finding.explain,
        "owner": finding.owner,
        "evidence": [_evidence(item) for item in finding.evidence],
        "remedies": [_remedy(remedy) for remedy in finding.remedies],
        "not_remedies": [{"what": each.what, "why": each.why} for each in finding.not_remedies],
        "to_confirm": [{"what": each.what, "command": each.command} for each in finding.to_confirm],
    }


def _evidence(item: EvidenceItem) -> dict[str, Any]:
    return {
        "fact": item.fact,
        "value": item.value,
        "unit": item.unit,
        "source": item.source,
        "speaks": item.speaks,
    }


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {
        "id": remedy.id,
        "do": "; check first: ".join(filter(None, (remedy.do, ", ".join(remedy.check_first)))),
        "set": None if remedy.set is None else _setting(remedy.set),
        "frees_bytes": remedy.frees_bytes,
        "effect": remedy.effect.value,
        "enough": remedy.enough,
        "needed_bytes": remedy.needed_bytes,
        "simulated": remedy.simulated,
        "depends_on": list(remedy.depends_on),
        "command": remedy.command,
        "cost": remedy.cost,
        "source": remedy.source,
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return {
        "knob": setting.knob,
        "value": setting.value,
        "lines": list(setting.lines),
        "systems": list(setting.systems),
        "note": setting.note,
    }


def _misuse(misuse: Misuse) -> dict[str, Any]:
    return {
        "what": misuse.what,
        "outcome": misuse.outcome,
        "why": misuse.why,
        "instead": misuse.instead,
        "lines": list(misuse.lines),
        "where": misuse.where,
    }


def _failed_request(failed: FailedRequest) -> dict[str, Any]:
    room = failed.room
    return {
        "where": failed.where,
        "requested_bytes": failed.requested_bytes,
        "needed_bytes": failed.needed_bytes,
        "pool": failed.pool,
        "captured": failed.captured,
        "wanted_bytes": failed.wanted_bytes,
        "device_free_bytes": failed.device_free_bytes,
        "room_bytes": failed.room_bytes,
        "undone_events": failed.undone,
        "may_be_more_bytes": failed.may_be_more_bytes,
        "live_bytes": failed.live_bytes,
        "reserved_bytes": failed.reserved_bytes,
        "short_bytes": failed.short_bytes,
        "largest_hole_bytes": failed.largest_hole_bytes,
        "unused": [asdict(each) for each in failed.unused],
        "pinning": [asdict(each) for each in failed.pinning],
        "churn": [asdict(each) for each in failed.churn],
        "room": None
        if room is None
        else {
            "hole_bytes": room.hole_bytes,
            "given_back_bytes": room.given_back_bytes,
            "in_the_way_bytes": room.in_the_way_bytes,
            "in_the_way_count": room.in_the_way_count,
            "owners": [asdict(each) for each in room.owners],
        },
        "source": failed.source,
    }


def _window(window: Window) -> dict[str, Any]:
    """Without its curves: those are for the picture."""
    return {
        "where": window.where,
        "events": window.events,
        "begin": window.times_seconds[0] if window.has_times else None,
        "end": window.times_seconds[-1] if window.has_times else None,
        "before_bytes": window.before_bytes,
        "peak_bytes": window.peak_bytes,
        "peak_may_be_more_bytes": window.peak_may_be_more_bytes,
        "peak_at": window.peak_seconds if window.has_times and not window.peak_is_before else None,
        "at_peak": [asdict(each) for each in window.at_peak],
        "rise": None
        if window.rise is None
        else {
            "foot_bytes": window.rise.foot_bytes,
            "foot_at": window.rise.foot_seconds if window.has_times else None,
            "owners": [asdict(each) for each in window.rise.owners],
        },
        "owners": [asdict(each) for each in window.owners],
        "phases": list(_phases(window)),
        "disagreements": window.disagreements,
        "source": window.source,
    }


def _phases(window: Window) -> Iterator[dict[str, Any]]:
    """In the order of their first stretches."""
    found: dict[tuple[str, str], list[float]] = {}
    for each in window.phases:
        found.setdefault((each.name, each.how_known), []).append(each.end_seconds - each.begin_seconds)
    for (name, how), took in found.items():
        seconds = round(sum(took), 6) if window.has_times else None
        yield {"name": name, "how_known": how, "stretches": len(took), "seconds": seconds}


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "what": comparison.what,
        "reckoned_bytes": comparison.reckoned_bytes,
        "seen_bytes": comparison.seen_bytes,
        "how_reckoned": comparison.how_reckoned,
        "how_seen": comparison.how_seen,
    }


def _budget(budget: Budget) -> dict[str, Any]:
    return {
        "where": budget.where,
        "total_bytes": budget.total_bytes,
        "parts": [{"name": part.name, "bytes": part.bytes, "how_known": part.how_known} for part in budget.parts],
        "unattributed_bytes": budget.unattributed_bytes,
        **({"moment": budget.moment} if budget.moment else {}),
    }


def _owner(holding: Holding) -> dict[str, Any]:
    return {
        "where": holding.where,
        "category": holding.category or None,
        "owner": holding.owner,
        "bytes": holding.bytes,
        "count": holding.count,
        "how_known": holding.how_known,
        "known_by": holding.known_by.value,
        "parts": [{"name": part.name, "bytes": part.bytes} for part in holding.parts],
    }


def _is_not_a_number(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _portable(value: Any) -> Any:
    """The same with what strict JSON parsers refuse replaced: lone surrogates (undecodable paths) and NaN."""
    if isinstance(value, str):
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if _is_not_a_number(value):
        return None
    if isinstance(value, dict):
        return {_portable(key): _portable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_portable(each) for each in value]
    return value
