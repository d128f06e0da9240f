"""What the figures of a message say and what they do not, in sentences for the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..facts.deriver import failed_devices
from ..facts.incidents import latest_device_failures
from ..language import N_, _, pgettext, told
from ..model.diagnosis import Finding
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.places import place_in_words
from ..model.units import MIB, format_bytes
from .subject import causes_of_devices

_SMALLEST = {2 * MIB: N_("1 MiB or less"), 20 * MIB: N_("1 to 10 MiB")}
"""Segments that torch's allocator asks of the driver, and the requests for which it does."""
_OF_TORCH = ("cuda", "hip", "xpu", None)
_WAITING_BYTES = 256 * MIB
_WORTH_NAMING = 512 * MIB
_ALIKE = 0.1
"""What devices hold differs by that share of the largest, where all have the same work."""


def notes_on_figures(evidence: Evidence, facts: FactSet, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Each figure that has misled people is told with what it means here."""
    notes: list[str] = []
    for member in failed_devices(facts):
        notes += _of_device(member, facts)
    notes += _cut_off(evidence)
    notes += _artefacts(evidence)
    notes += _tries(evidence)
    notes += _ranks(facts, findings, any(record.status == "partly" for record in evidence.inputs))
    notes += _engine(facts)
    return tuple(dict.fromkeys(notes))


def _of_device(member: str, facts: FactSet) -> Iterator[str]:
    place = place_in_words(member)
    requested, active, allocated = (
        facts.size(f"oom.{name}_bytes", member) for name in ("requested", "active", "allocated")
    )
    exact = facts.value("oom.requested_exact", member)
    if requested in _SMALLEST and facts.value("oom.backend") in _OF_TORCH and not exact:
        yield (
            _(
                "{member}: {requested} is what the allocator asks of the driver for any request of "
                "{value}. It does not tell which tensor failed, only that the device was full."
            ).format(member=place, requested=format_bytes(requested), value=_(_SMALLEST[requested]))
        )
    yield from _advice(member, facts)
    if active is not None and allocated is not None and active - allocated >= _WAITING_BYTES:
        yield (
            _(
                "{member}: {value} are active but not allocated: freed, and waiting for another stream "
                "to pass them. That is not fragmentation, and empty_cache() does not return it."
            ).format(member=place, value=format_bytes(active - allocated))
        )
    unlisted, others = facts.size("oom.unlisted_bytes", member), facts.size("device.foreign_bytes", member)
    if unlisted is not None and unlisted >= _WORTH_NAMING and others is None:
        yield (
            _(
                "{member}: of what is in use at least {unlisted} are held by no process that is listed. A process that "
                "was not seen may hold them (another container, another user), or what an ended one left; this "
                "process's own context and libraries come on top where the message does not tell them."
            ).format(member=place, unlisted=format_bytes(unlisted))
        )
    listed = facts.value("oom.listed_self", member)
    if listed is not None:
        yield (
            _(
                "{member}: the message's {listed} is the failing process itself. Inside a container it "
                "is listed under the host's number, and its bytes are those of this allocator with its "
                "context."
            ).format(member=place, listed=told(str(listed)))
        )


def _advice(member: str, facts: FactSet) -> Iterator[str]:
    place = place_in_words(member)
    names = ("requested", "free", "reserved_unallocated", "shortfall")
    requested, free, idle, shortfall = (facts.size(f"oom.{name}_bytes", member) for name in names)
    if requested is None or free is None or idle is None or shortfall is None:
        return
    if facts.value("oom.advised_fragmentation") and 0 < idle < shortfall:
        yield (
            _(
                "{member}: free ({free}) and reserved but idle ({idle}) are {value} together, less than "
                "the {requested} asked for. However the blocks lay, it would not have fitted: it is not "
                "fragmentation, although the message names a setting against that."
            ).format(
                member=place,
                free=format_bytes(free),
                idle=format_bytes(idle),
                value=format_bytes(free + idle),
                requested=format_bytes(requested),
            )
        )


_CUT = {
    "requested": N_("what was asked for"),
    "total": N_("the device's size"),
    "free": N_("what was free"),
    "process_used": N_("what the process held"),
    "allocated": N_("what live tensors held"),
    "reserved": N_("what the allocator had reserved"),
    "reserved_unallocated": N_("what was reserved and in no tensor"),
}
"""Figures of a message, as a sentence names them."""


def _cut_off(evidence: Evidence) -> Iterator[str]:
    for event in latest_device_failures(evidence):
        cut = event.fields.get("cut_off")
        if isinstance(cut, tuple):
            figures = pgettext("numbers", ", ").join(_(_CUT[str(name)]) for name in cut)
            yield (
                _(
                    "The input ends in the middle of the message ({source}). Cut off, and so not known: {figures}. "
                    "Give the whole line where it is to be had."
                ).format(source=event.source, figures=figures)
            )


def _artefacts(evidence: Evidence) -> Iterator[str]:
    for event in latest_device_failures(evidence):
        told_apart = event.fields.get("contradictory")
        if isinstance(told_apart, tuple):
            yield (
                _(
                    "Figures of the message cannot all be true: {value}. Which of them is wrong cannot be told, so "
                    "they are set aside and nothing is concluded from them."
                ).format(value=", ".join(str(one) for one in told_apart))
            )
    if any(event.fields.get("zeros_set_aside") is True for event in latest_device_failures(evidence)):
        yield (
            _(
                "The message gives 0 bytes where there cannot be none (the device's capacity, or the request): the "
                "driver did not know, or the numbers were taken out. Such zeros are set aside, and nothing is "
                "concluded from them."
            )
        )
    if any(event.fields.get("capacity_unknown") is True for event in latest_device_failures(evidence)):
        yield (
            _(
                "A figure of the message near 2^64 bytes is the driver's answer where it does not know (WSL and some "
                "containers); it is not counted as a size."
            )
        )


def figures_are_set_aside(evidence: Evidence) -> bool:
    """Whether the latest failures have figures that cannot be: what is left tells too little to go by likeness."""
    events = latest_device_failures(evidence)
    return any(event.fields.get(name) for event in events for name in ("contradictory", "zeros_set_aside"))


def _tries(evidence: Evidence) -> Iterator[str]:
    tries = [event for event in evidence.of_kind(EventKind.DEVICE_OOM_TRY) if event.size("free_bytes") is not None]
    count = sum(event.size("repeats") or 1 for event in tries[-1:]) if tries else 0
    count = max(count, len(tries))
    if count > 1:
        if evidence.of_kind(EventKind.DEVICE_OOM):
            said = _(
                "The {number} lines about memory allocation that 'failed with OOM' are tries: the allocator then gives"
                " back what it caches and asks again. They are not failures of their own and stand for one error."
            )
        else:
            said = _(
                "The {number} lines about memory allocation that 'failed with OOM' are tries: the allocator then gives"
                " back what it caches and asks again. They are not failures of their own: the program went on."
            )
        yield said.format(number=count)


def _ranks(facts: FactSet, findings: Sequence[Finding], in_part: bool) -> Iterator[str]:
    failed, count, seen = (facts.size(f"ranks.{name}") for name in ("failed", "count", "seen"))
    first = facts.value("ranks.first_failed")
    ranks = max(count or 0, seen or 0)
    killed = facts.value("ranks.first_killed")
    if failed is None and killed and facts.value("ranks.peers_lost_connection"):
        yield _(
            "What was killed is {first}; others report that a connection was lost, and their errors follow from it."
        ).format(first=told(str(killed)))
    if failed is None:
        return
    on_host = facts.value("host.memory_error") is True and not facts.members(Scope.DEVICE)
    if failed == 1 and facts.value("ranks.peers_lost_connection"):
        yield (
            _(
                "Only {first} ran out of memory; others report that a connection was lost. So {first} "
                "failed first, and their errors follow from it."
            ).format(first=first)
        )
    elif on_host:
        return
    elif failed >= 2 and failed >= ranks:
        if in_part:
            said = _("{failed} ranks at least report the error; the input was read in part.")
        elif len(_causes(findings, facts)) > 1:
            said = _(
                "All {failed} ranks that are seen report the error, and not for one cause: what is said of one device "
                "does not explain the others."
            )
        elif _hold_alike(facts):
            said = _(
                "All {failed} ranks that are seen report the error, and their devices hold alike: it is not one device "
                "that holds more than its share."
            )
        else:
            said = _("All {failed} ranks that are seen report the error.")
        yield said.format(failed=failed)
    elif failed == 1 and ranks >= 2:
        yield (
            _(
                "Of {ranks} ranks only {first} reports the error: look at what its device holds beside "
                "its share. (A launcher that ends the others at the first error hides theirs.)"
            ).format(ranks=ranks, first=first)
        )


def _causes(findings: Sequence[Finding], facts: FactSet) -> set[str]:
    """The rules that come first on the devices that failed; none where the first finding is about all of them."""
    if not findings or "device" not in findings[0].scope:
        return set()
    return {found.rule for found in causes_of_devices(findings, facts).values() if found is not None}


def _hold_alike(facts: FactSet) -> bool:
    sizes = [facts.size("oom.allocated_bytes", member) for member in failed_devices(facts)]
    known = [size for size in sizes if size is not None]
    return bool(known) and len(known) == len(sizes) and max(known) - min(known) <= _ALIKE * max(known)


def _engine(facts: FactSet) -> Iterator[str]:
    within, version = facts.value("engine.graphs_in_budget"), facts.value("engine.version")
    share = facts.value("engine.utilization")
    if facts.value("engine.name") != "vllm" or within is None or version is None:
        return
    if within:
        said = _("vLLM {version}: the memory of CUDA graphs is counted within its share.")
        shared = _(
            "vLLM {version}: the memory of CUDA graphs is counted within its share ({share} of the device here)."
        )
    else:
        said = _("vLLM {version}: the memory of CUDA graphs is taken on top of its share, after the pool is made.")
        shared = _(
            "vLLM {version}: the memory of CUDA graphs is taken on top of its share, after the pool is made ({share} of"
            " the device here)."
        )
    if isinstance(share, float):
        yield shared.format(version=version, share=f"{share:g}")
    else:
        yield said.format(version=version)
