"""The one-word outcome, the two sentences that say it, and the fingerprint that groups incidents."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace

from ..allocator.owners import OF_NO_KIND, WITHOUT_STACK
from ..facts.deriver import failed_devices
from ..facts.device_budget import BEYOND_CAP, FREE, IDLE, IN_USE
from ..facts.live_parts import BY_NO_VARIABLE, BY_VARIABLES, UNDIVIDED
from ..language import _, begun, ngettext, pgettext, told
from ..model.diagnosis import Budget, Confidence, Finding, Incident, InputRecord, Verdict, nothing_read
from ..model.facts import FactSet, Scope
from ..model.places import place_in_words
from ..model.units import format_bytes, format_seconds
from .explained import of_other_failures
from .subject import of_other_devices, uncapitalised

FINGERPRINT_VERSION = 1
"""Raised when the parts of the fingerprint change, so that trackers do not mix the two."""

_RAN_OUT = re.compile(r"device out of memory|CUDA out of memory in process \d+")
"""How `facts.incidents` calls a failed request of a device."""
_MOST_REFUSED = 3
"""Inputs that could not be read of which each has its sentence."""
_OF_A_JOB = ("the program", "step ", "task ")
"""How a failure's place begins where it is that of a job, or says nothing."""
_OF_SEVERAL_LIMITS = ("cgroup-limit",)
"""Causes that stand for limits of several kinds: the rule tells which."""
_OF_NO_KIND = frozenset({FREE, BEYOND_CAP, IN_USE, UNDIVIDED, OF_NO_KIND, WITHOUT_STACK, BY_VARIABLES, BY_NO_VARIABLE})
"""Parts of a budget that say neither what the memory is for nor whose it is."""


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
        or facts.value("activity.cut_off") is True
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
    inputs: Sequence[InputRecord] = (),
    in_focus: Sequence[Incident] | None = None,
) -> str:
    """What ran out with its numbers, the cause (or that none is known) and who held it, then what else failed.

    `in_focus`: those of the incidents that are of the failure that the report is about; None: all.
    """
    if nothing_read(inputs):
        return _nothing_read(inputs)
    in_pieces = any(finding.family == "fragmentation" for finding in findings[:1])
    sentences = [_what_happened(verdict, incidents, budgets, facts, in_pieces=in_pieces)]
    ended = facts.value("exit.ended_otherwise")
    if verdict is Verdict.NOT_OUT_OF_MEMORY and ended is not None and incidents and incidents[0].is_memory:
        # what ended it comes first, or the sentence would say what the verdict denies
        sentences = [_("The program ended with {ending}, not for want of memory.").format(ending=ended), *sentences]
        sentences[1] = _("It had gone on after this: {what}").format(what=sentences[1])
    if incidents and incidents[0].then:
        sentences.append(_("{what}.").format(what=begun(told(incidents[0].then))))
    sentences += of_other_devices(findings, incidents, facts)
    others = [] if in_focus is None else of_other_failures(incidents, in_focus)
    return " ".join([*sentences, why(verdict, findings), *others])


def _nothing_read(inputs: Sequence[InputRecord]) -> str:
    """What each input is instead, and what to do."""
    said = [
        _("Nothing could be read of {path}: {why}.").format(path=record.path or "''", why=told(record.why or ""))
        for record in inputs[:_MOST_REFUSED]
    ]
    more = len(inputs) - _MOST_REFUSED
    if more > 0:
        said.append(ngettext("So it is with one more.", "So it is with {number} more.", more).format(number=more))
    return " ".join(said)


def _what_happened(
    verdict: Verdict,
    incidents: Sequence[Incident],
    budgets: Sequence[Budget],
    facts: FactSet,
    *,
    in_pieces: bool,
) -> str:
    """`in_pieces`: memory was there and idle, so the sentence says how much of it."""
    if verdict is Verdict.NO_FAILURE:
        return _("The input shows no failure for want of memory.")
    if not incidents:
        return _ending(facts)
    incident = replace(incidents[0], cause=begun(told(incidents[0].cause)))
    if _RAN_OUT.fullmatch(incidents[0].cause) and incident.where in facts.members(Scope.DEVICE):
        incident = replace(
            incident, cause=_("{place} ran out of memory").format(place=place_in_words(incident.where)), where=""
        )
    if incident.where == "host":
        return _on_the_host(incident, facts)
    if incident.where == facts.value("host.kernel_victim"):
        return _by_the_kernel(incident.where, facts)
    numbers = [] if incident.requested_bytes is not None else _figures_of(incident, facts)
    if incident.requested_bytes is not None:
        numbers.append(_asked(incident.requested_bytes, facts))
    numbers += _under_own_limit(incident, facts)
    where = incidents[0].where
    if not numbers and _RAN_OUT.fullmatch(incidents[0].cause) and where not in facts.members(Scope.DEVICE):
        numbers = _set_aside(facts)
    free = _free_at(where, facts)
    if free is not None:
        numbers.append(_("{size} free").format(size=format_bytes(free)))
    numbers += _under_cap(where, facts) if free is None else []
    budget = next((budget for budget in budgets if budget.where == where), None)
    idle = None if budget is None or not in_pieces else _idle_in(budget, facts)
    if idle is not None:
        said = pgettext("numbers", ", ").join([*numbers, idle])
        return _("{what}: {numbers}.").format(what=_at(incident), numbers=said)
    largest = None if budget is None else _largest(budget, facts)
    if budget is not None and largest is None:
        numbers.append(_("{size} in all").format(size=format_bytes(budget.total_bytes)))
    if largest is None and where in facts.members(Scope.DEVICE):
        numbers += _grown(where, facts)
    said = pgettext("numbers", ", ").join(numbers)
    if largest is not None:
        said = _("{largest}; {numbers}").format(largest=largest, numbers=said) if said else largest
    what = _at(incident)
    return _("{what}: {numbers}.").format(what=what, numbers=said) if said else _("{what}.").format(what=what)


def _by_the_kernel(victim: str, facts: FactSet) -> str:
    """`The kernel killed python (pid 7) for want of memory: it held 7.56 GiB (anon-rss); the cgroup's limit …`"""
    size, limit, total = (_number(f"host.{name}_bytes", facts) for name in ("kernel_victim", "cgroup_limit", "total"))
    whose = facts.value("host.kernel_killed")
    said = [] if size is None else [_("it held {size} (anon-rss)").format(size=format_bytes(size))]
    if whose == "memcg":
        reached = (
            _("the limit of its cgroup was reached") if limit is None else _("its cgroup's limit of {size} was reached")
        )
        said.append(reached.format(size=format_bytes(limit or 0)))
    elif whose == "global":
        full = _("the machine's memory was full") if total is None else _("the machine's {size} were full")
        said.append(full.format(size=format_bytes(total or 0)))
    what = _("The kernel killed {process} for want of memory").format(process=told(victim))
    if not said:
        return _("{what}.").format(what=what)
    return _("{what}: {numbers}.").format(what=what, numbers=_("; ").join(said))


def _under_own_limit(incident: Incident, facts: FactSet) -> list[str]:
    """The limit that a program keeps for itself, where it refused there: small requests are refused, too."""
    limit = _number("host.heap_limit_bytes", facts)
    asked = _number("host.failed_request_bytes", facts)
    if limit is None or facts.value("host.failed_pool") != "own-limit" or asked != incident.requested_bytes:
        return []
    return [_("the limit was {size}").format(size=format_bytes(limit))]


def _under_cap(where: str, facts: FactSet) -> list[str]:
    """What was held and what a cap allows, of a device whose size and free memory nobody tells."""
    if where not in facts.members(Scope.DEVICE):
        return []
    held, allowed = (facts.size(f"oom.{name}_bytes", where) for name in ("allocated", "allowed"))
    if held is None or allowed is None:
        return []
    return [
        _("{size} held by its tensors").format(size=format_bytes(held)),
        _("{size} allowed").format(size=format_bytes(allowed)),
    ]


def _figures_of(incident: Incident, facts: FactSet) -> list[str]:
    """What was wanted and what there was, of a failure that is not of a request for device memory."""
    found = []
    for said, name in (
        (_("{size} needed"), "engine.kv_needed_bytes"),
        (_("{size} left for keys and values"), "engine.kv_available_bytes"),
    ):
        size = _number(name, facts)
        if size is None or incident.where != facts.value("engine.name"):
            continue
        if size < 0:
            found.append(
                _("weights and the rest alone take {size} more than the engine may use").format(
                    size=format_bytes(-size)
                )
            )
        else:
            found.append(said.format(size=format_bytes(size)))
    wanted = _number("lookalike.kernel_resource_required_bytes", facts)
    there = _number("lookalike.kernel_resource_limit_bytes", facts)
    if wanted is not None and there is not None and not incident.is_memory:
        found.append(_("{size} wanted, {there} there").format(size=format_bytes(wanted), there=format_bytes(there)))
    limit = _number("host.job_limit_bytes", facts)
    if limit is not None and not found and incident.where.startswith(_OF_A_JOB):
        found.append(_("the limit was {size}").format(size=format_bytes(limit)))
    return found


def _set_aside(facts: FactSet) -> list[str]:
    """What an engine kept for keys and values, where the message of a refusal tells neither size nor device."""
    pool = _number("engine.kv_available_bytes", facts)
    if pool is None or pool <= 0:
        return []
    return [_("{size} of room for keys and values at start").format(size=format_bytes(pool))]


def _largest(budget: Budget, facts: FactSet) -> str | None:
    """`89 % of 24.00 GiB was keys and values, and live memory grew by 18.90 GiB in 31 min`.

    None where no part is most of it, or that part says nothing: what variables or tensors hold does once it grew.
    """
    part = max(budget.parts, key=lambda part: part.bytes, default=None)
    if part is None or budget.moment or 2 * part.bytes < budget.total_bytes:
        return None
    steady = budget.where in facts.members(Scope.DEVICE) and facts.value("growth.steady", budget.where) is True
    if part.name in _OF_NO_KIND and not (part.name in (BY_VARIABLES, UNDIVIDED) and steady):
        return None
    said = _("{share} of {total} was {part}").format(
        share=f"{100 * part.bytes / budget.total_bytes:.0f} %",
        total=format_bytes(budget.total_bytes),
        part=told(part.name).replace("`", ""),
    )
    grown = facts.value("growth.bytes", budget.where) if budget.where in facts.members(Scope.DEVICE) else None
    if not isinstance(grown, int) or not steady:
        return said
    seconds = facts.value("growth.seconds", budget.where)
    if not isinstance(seconds, (int, float)) or seconds <= 0:
        return _("{largest}, and live memory grew by {size}").format(largest=said, size=format_bytes(grown))
    return _("{largest}, and live memory grew by {size} in {time}").format(
        largest=said, size=format_bytes(grown), time=format_seconds(seconds)
    )


def _grown(where: str, facts: FactSet) -> list[str]:
    """`live memory grew by 1.57 GiB in 0.34 s`, where nothing was most of a whole but it grew to the failure."""
    grown, seconds = facts.value("growth.bytes", where), facts.value("growth.seconds", where)
    if not isinstance(grown, int) or facts.value("growth.steady", where) is not True:
        return []
    if not isinstance(seconds, (int, float)) or seconds <= 0:
        return [_("live memory grew by {size}").format(size=format_bytes(grown))]
    return [_("live memory grew by {size} in {time}").format(size=format_bytes(grown), time=format_seconds(seconds))]


def _idle_in(budget: Budget, facts: FactSet) -> str | None:
    """`9.19 GiB idle in blocks of the allocator (38 % of 24.00 GiB), the largest of them 1.50 GiB`."""
    idle = next((part.bytes for part in budget.parts if part.name == IDLE), 0)
    if idle <= 0 or budget.total_bytes <= 0:
        return None
    sizes = {
        "size": format_bytes(idle),
        "share": f"{100 * idle / budget.total_bytes:.0f} %",
        "total": format_bytes(budget.total_bytes),
    }
    known = budget.where in facts.members(Scope.DEVICE)
    largest = facts.size("allocator.largest_free_block_bytes", budget.where) if known else None
    if largest is None:
        return _("{size} idle in blocks of the allocator ({share} of {total})").format(**sizes)
    said = _("{size} idle in blocks of the allocator ({share} of {total}), the largest of them {largest}")
    return said.format(**sizes, largest=format_bytes(largest))


def _asked(size: int, facts: FactSet) -> str:
    """With the product that makes the size, `(32 heads × 8192 × 8192 × 4 bytes)`, where it is known."""
    factors = facts.value("request.factors")
    others = {facts.size("oom.requested_bytes", member) for member in failed_devices(facts)}
    if factors is None or len(others) > 1:  # the product is that of one request
        said = _("{size} asked for")
    elif facts.value("request.factors_exact"):
        said = _("{size} asked for ({factors})")
    else:
        said = _("{size} asked for (agrees with {factors})")
    return said.format(size=format_bytes(size), factors=told(str(factors)))


def _at(incident: Incident) -> str:
    """What failed, with its place unless that says nothing (`the program`)."""
    where = incident.where
    if not where or where.startswith("the "):
        return incident.cause
    said = _("{cause} on {place}") if ":" in where else _("{cause} in {place}")
    return said.format(cause=incident.cause, place=place_in_words(where))


def _on_the_host(incident: Incident, facts: FactSet) -> str:
    """`MemoryError in process 7: host memory grew steadily by 504.00 MiB in 3 s until its own limit … stopped it.`"""
    what = incident.cause
    if incident.requested_bytes is not None:
        what = _("{cause}, {size} asked for").format(cause=what, size=format_bytes(incident.requested_bytes))
    growth, seconds = _number("host.growth_bytes", facts), _number("host.watched_seconds", facts)
    grew = None
    if facts.value("host.growth_steady") is True and growth is not None:
        time = "" if seconds is None else format_seconds(seconds)
        grew = _("host memory grew steadily by {size} in {time}") if time else _("host memory grew steadily by {size}")
        grew = grew.format(size=format_bytes(growth), time=time)
    bound = facts.value("host.bound_hit")
    limit = told(str(bound))
    if grew and bound:
        return _("{what}: {growth} until {limit} stopped it.").format(what=what, growth=grew, limit=limit)
    if grew:
        return _("{what}: {growth}.").format(what=what, growth=grew)
    if bound:
        return _("{what}: {limit} stopped it.").format(what=what, limit=limit)
    total, own = _number("host.total_bytes", facts), _number("host.process_limit_bytes", facts)
    if own is not None and facts.value("host.process_limit_reached") is None and (total is None or own < total):
        return _("{what}; the process has a limit of its own, {size}.").format(what=what, size=format_bytes(own))
    if total is None:
        return _("{what}.").format(what=what)
    return _("{what}; the machine has {size}.").format(what=what, size=format_bytes(total))


def _number(name: str, facts: FactSet) -> int | float | None:
    value = facts.value(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _free_at(where: str, facts: FactSet) -> int | None:
    if where not in facts.members(Scope.DEVICE):
        return None
    value = facts.value("oom.free_bytes", where)
    return value if isinstance(value, int) else None


def _ending(facts: FactSet) -> str:
    if facts.value("exit.recovered") is True:
        ended = facts.value("exit.ended_otherwise")
        if ended is None:
            return _("The input shows no failure that ended the program.")
        said = _("The program ended with {ending}; the input shows no allocation whose failure ended it.")
        return said.format(ending=ended)
    exception, signal, status = (facts.value(name) for name in ("activity.exception", "exit.signal", "exit.status"))
    if exception:
        said = _("The input shows no allocation that failed; the program ended with {ending}.")
        return said.format(ending=exception)
    if signal is not None:
        said = _("The input shows no allocation that failed; the program was ended by signal {ending}.")
        return said.format(ending=signal)
    if status not in (None, 0):
        said = _("The input shows no allocation that failed; the program ended with status {ending}.")
        return said.format(ending=status)
    if facts.value("exit.recorded") is False:
        return _("The input shows no allocation that failed; how the command ended is not recorded.")
    return _("The input shows no allocation that failed.")


def why(verdict: Verdict, findings: Sequence[Finding]) -> str:
    """The summary's sentence on the cause: the cause, how sure it is and who held the memory."""
    if not findings:
        return {
            Verdict.NO_FAILURE: _("What it does not show cannot be excluded."),
            Verdict.UNDETERMINED: _("No rule of the playbook matches, so the cause is unknown."),
        }.get(verdict, _("No rule of the playbook matches, so the cause is unknown; see what evidence is missing."))
    first = findings[0]
    if first.by_precedent:
        said = _(
            "No rule of the playbook tells the cause. In public reports like this one it often was: {title} ({rule})."
        )
        return said.format(title=uncapitalised(first.title), rule=first.rule)
    sureness = {
        "confirmed": _("The cause is confirmed"),
        "likely": _("The likely cause"),
        "possible": _("A possible cause"),
    }[first.confidence.value]
    title = uncapitalised(first.title)
    said = _("{sureness}: {title}, held by {owner} ({rule}).") if first.owner else _("{sureness}: {title} ({rule}).")
    return said.format(sureness=sureness, title=title, owner=told(first.owner or ""), rule=first.rule)


def fingerprint(findings: Sequence[Finding], incidents: Sequence[Incident], facts: FactSet) -> str:
    """`<version>:<12 hex digits>` of the cause and the place in the code, stable across runs, machines and line edits.

    Nor does the device's number count: a scheduler chooses it, and all ranks of a job fail for one reason. The
    place is the user's innermost frame without directories and line numbers, else the engine and its phase.
    """
    cause = findings[0].cause if findings else (incidents[0].cause if incidents else "none")
    if cause in _OF_SEVERAL_LIMITS:  # a container's limit, a heap's and one on threads are not one failure
        cause = f"{cause}/{findings[0].rule}"
    frame = facts.value("activity.frame") or facts.value("host.failing_line")
    if isinstance(frame, str):
        place = re.sub(r":\d+", "", re.sub(r"\S*" + re.escape(os.sep), "", frame))
    else:
        place = "/".join(str(facts.value(name) or "") for name in ("engine.name", "activity.phase"))
    digest = hashlib.sha256(f"{cause}\n{place}".encode()).hexdigest()
    return f"{FINGERPRINT_VERSION}:{digest[:12]}"
