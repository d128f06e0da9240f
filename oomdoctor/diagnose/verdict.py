"""The one-word outcome, the two sentences that say it, and the fingerprint that groups incidents."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace

from ..model.diagnosis import Budget, Confidence, Finding, Incident, InputRecord, Verdict
from ..model.facts import FactSet, Scope
from ..model.units import format_bytes, format_seconds

FINGERPRINT_VERSION = 1
"""Raised when the parts of the fingerprint change, so that trackers do not mix the two."""


def decide(
    findings: Sequence[Finding], incidents: Sequence[Incident], facts: FactSet, inputs: Sequence[InputRecord]
) -> Verdict:
    """The verdict.

    A finding that is only possible never turns a failure into 'not out of memory', and where nothing failed (a table
    of processes) even a likely one does not make an out-of-memory of it.
    """
    if not any(record.status != "refused" for record in inputs):
        return Verdict.UNDETERMINED
    first = findings[0] if findings else None
    if first and first.confidence is not Confidence.POSSIBLE:
        if first.degraded:
            return Verdict.DEGRADED
        if first.family == "not-oom":
            return Verdict.NOT_OUT_OF_MEMORY
    if any(incident.is_memory for incident in incidents):
        return Verdict.OUT_OF_MEMORY
    if first or incidents or _failed(facts):
        return Verdict.UNDETERMINED
    return Verdict.NO_FAILURE


def _failed(facts: FactSet) -> bool:
    """Something ended badly, whatever it was, or nobody knows how it ended."""
    return (
        facts.value("activity.exception") is not None
        or facts.value("exit.killed") is True
        or facts.value("exit.signal") is not None
        or facts.value("exit.status") not in (None, 0)
        or facts.value("exit.recorded") is False
    )


def summarise(
    verdict: Verdict,
    findings: Sequence[Finding],
    incidents: Sequence[Incident],
    budgets: Sequence[Budget],
    facts: FactSet,
) -> str:
    """Two sentences: what ran out with its numbers, then the cause (or that none is known) and who held it."""
    then = f" {_capitalised(incidents[0].then)}." if incidents and incidents[0].then else ""
    return f"{_what_happened(verdict, incidents, budgets, facts)}{then} {_why(verdict, findings)}"


def _what_happened(verdict: Verdict, incidents: Sequence[Incident], budgets: Sequence[Budget], facts: FactSet) -> str:
    if verdict is Verdict.NO_FAILURE:
        return "The input shows no failure for want of memory."
    if not incidents:
        ending = _ending(facts)
        return f"The input shows no allocation that failed{ending}."
    incident = replace(incidents[0], cause=_capitalised(incidents[0].cause))
    if incident.where == "host":
        return _on_the_host(incident, facts)
    sentence = f"{incident.cause}{_at(incident.where)}"
    numbers = []
    if incident.requested_bytes is not None:
        numbers.append(f"{format_bytes(incident.requested_bytes)} asked for{_as_product(facts)}")
    free = _free_at(incident.where, facts)
    if free is not None:
        numbers.append(f"{format_bytes(free)} free")
    total = next((budget.total_bytes for budget in budgets if budget.where == incident.where), None)
    if total is not None:
        numbers.append(f"{format_bytes(total)} in all")
    return f"{sentence}: {', '.join(numbers)}." if numbers else f"{sentence}."


def _as_product(facts: FactSet) -> str:
    """` (32 heads × 8192 × 8192 × 4 bytes)`; nothing where the size has no product that is known."""
    factors = facts.value("request.factors")
    if factors is None:
        return ""
    return f" ({factors})" if facts.value("request.factors_exact") else f" (agrees with {factors})"


def _capitalised(cause: str) -> str:
    """As a sentence begins; the name of an exception (`numpy.…Error`) stays as it is."""
    return cause[:1].upper() + cause[1:] if cause.split(" ", 1)[0].isalpha() else cause


def _at(where: str) -> str:
    """` on cuda:0`, ` in vllm`, and nothing for a place that says nothing (`the program`)."""
    if not where or where.startswith("the "):
        return ""
    return f" on {where}" if ":" in where else f" in {where}"


def _on_the_host(incident: Incident, facts: FactSet) -> str:
    """`MemoryError in process 7: host memory grew steadily by 504.00 MiB in 3 s until its own limit … stopped it.`"""
    asked = "" if incident.requested_bytes is None else f", {format_bytes(incident.requested_bytes)} asked for"
    growth, seconds = _number("host.growth_bytes", facts), _number("host.watched_seconds", facts)
    grew = ""
    if facts.value("host.growth_steady") is True and growth is not None:
        over = "" if seconds is None else f" in {format_seconds(seconds)}"
        grew = f"host memory grew steadily by {format_bytes(growth)}{over}"
    bound = facts.value("host.bound_hit")
    if grew and bound:
        return f"{incident.cause}{asked}: {grew} until {bound} stopped it."
    if grew or bound:
        return f"{incident.cause}{asked}: {grew or f'{bound} stopped it'}."
    total = _number("host.total_bytes", facts)
    return f"{incident.cause}{asked}{'' if total is None else f'; the machine has {format_bytes(total)}'}."


def _number(name: str, facts: FactSet) -> int | float | None:
    value = facts.value(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _free_at(where: str, facts: FactSet) -> int | None:
    if where not in facts.members(Scope.DEVICE):
        return None
    value = facts.value("oom.free_bytes", where)
    return value if isinstance(value, int) else None


def _ending(facts: FactSet) -> str:
    exception, signal, status = (facts.value(name) for name in ("activity.exception", "exit.signal", "exit.status"))
    if exception:
        return f"; the program ended with {exception}"
    if signal is not None:
        return f"; the program was ended by signal {signal}"
    if status not in (None, 0):
        return f"; the program ended with status {status}"
    if facts.value("exit.recorded") is False:
        return "; how the command ended is not recorded"
    return ""


def _why(verdict: Verdict, findings: Sequence[Finding]) -> str:
    if not findings:
        return {
            Verdict.NO_FAILURE: "What it does not show cannot be excluded.",
            Verdict.UNDETERMINED: "No rule of the playbook matches, so the cause is unknown.",
        }.get(verdict, "No rule of the playbook matches, so the cause is unknown; see what evidence is missing.")
    first = findings[0]
    sure = {"confirmed": "The cause is confirmed", "likely": "The likely cause", "possible": "A possible cause"}
    title = first.title[:1].lower() + first.title[1:] if first.title[:2].istitle() else first.title
    owner = f", held by {first.owner}" if first.owner else ""
    return f"{sure[first.confidence.value]}: {title}{owner} ({first.rule})."


def fingerprint(findings: Sequence[Finding], incidents: Sequence[Incident], facts: FactSet) -> str:
    """`<version>:<12 hex digits>` of the cause and the place in the code, stable across runs, machines and line edits.

    The place is the user's innermost frame without directories and line numbers, else the engine and its phase.
    """
    cause = findings[0].cause if findings else (incidents[0].cause if incidents else "none")
    frame = facts.value("activity.frame") or facts.value("host.failing_line")
    if isinstance(frame, str):
        place = re.sub(r":\d+", "", re.sub(r"\S*" + re.escape(os.sep), "", frame))
    else:
        place = "/".join(str(facts.value(name) or "") for name in ("engine.name", "activity.phase"))
    digest = hashlib.sha256(f"{cause}\n{place}".encode()).hexdigest()
    return f"{FINGERPRINT_VERSION}:{digest[:12]}"
