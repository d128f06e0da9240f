"""What evidence was not there, and how to get it next time."""

from __future__ import annotations

from collections.abc import Iterator

from ..facts.deriver import failed_devices
from ..knobs.versions import within
from ..language import N_, _, ngettext, told
from ..model.diagnosis import Missing, nothing_read
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.units import format_bytes
from .looks import missing_course
from .missing_host import card_gaps, host_gaps
from .runtimes import VERSION_BY, holders_of, runtime_of, who_is_on

_FOR_TIME = "for want of time"
"""In the probe's words for what was cut short (its `census`): more time would help."""
CUT_SHORT = (
    N_("the pass over all objects, for want of time: what no variable leads to was not seen"),
    N_("the count of what each holder has, for want of time: the rest has no name"),
    N_("the walk from variables, for want of time: some holders have no name"),
    N_("the walk through autograd's graphs, for want of time"),
)
"""What the probe says of a census that it cut short."""
DEVICE_MEMORY = "device memory"
"""What the record of a watched run says that it has not seen where NVML cannot be read."""
_LAST_UNHEARD = "2.0"
"""Of this torch and older ones the probe hears no failure as it happens (the probe's `torch_version`)."""


def missing_evidence(evidence: Evidence, facts: FactSet) -> tuple[Missing, ...]:
    """The gaps that matter for what failed: nothing about devices is asked for where only the host failed."""
    gaps = list(_unseen_by_runs(evidence, of_devices=not _host_alone(evidence, facts)))
    if _device_failed(evidence, facts):
        gaps += _device_gaps(evidence, facts)
    gaps += card_gaps(evidence)
    gaps += missing_course(evidence)
    gaps += host_gaps(facts)
    if facts.value("activity.cut_off"):
        gaps.append(
            Missing(
                _("the error itself"),
                _("the log ends inside a traceback, before its last line names what failed"),
                _("give the whole log, to its end"),
            )
        )
    gaps += _cut_histories(facts)
    gaps += _contradicted_histories(facts)
    gaps += _broken_states(facts)
    gaps += _not_rebuilt(facts)
    if evidence.runs and "cudaMallocAsync" in str(facts.value("torch.allocator_settings") or ""):
        gaps.append(
            Missing(
                _("who held the memory at failures that the program caught"),
                _(
                    "with cudaMallocAsync torch tells nobody of them: they are counted by the errors that it makes, "
                    "and only one that ends a program or a thread has a census"
                ),
                _("run it once without `backend:cudaMallocAsync` in `PYTORCH_CUDA_ALLOC_CONF`"),
            )
        )
    gaps += _unheard(evidence)
    if facts.value("exit.killed") and not facts.value("exit.kill_explained_by_memory"):
        counted = facts.value("exit.no_kill_counted") is True
        why = (
            _("SIGKILL leaves no reason; the counters show no kill for want of memory")
            if counted
            else _("SIGKILL leaves no reason; neither a kernel line nor a counter is in the input")
        )
        gaps.append(
            Missing(
                _("why the process was killed"),
                why,
                "`sudo dmesg -T | grep -i -E 'oom|killed process' ; cat /sys/fs/cgroup/memory.events`",
            )
        )
    if evidence.command is None and evidence.inputs and not nothing_read(evidence.inputs):
        gaps.append(
            Missing(
                _("the launch command"),
                _("the input does not show it"),
                _("add `--command '<your command>'`, or start it with `oomdoctor run -- <your command>`"),
            )
        )
    return tuple({gap.what: gap for gap in gaps}.values())


def _unseen_by_runs(evidence: Evidence, *, of_devices: bool) -> Iterator[Missing]:
    for run in evidence.runs:
        for what, why, how in run.unseen:
            if what == DEVICE_MEMORY and not of_devices:
                continue
            # What the allocator told of its own memory is there all the same.
            yield Missing(_("the driver's samples of device memory") if what == DEVICE_MEMORY else what, why, how)
        if not run.complete:
            yield Missing(
                _("the end of the run"),
                _("the supervisor died before it could write its last record"),
                _("keep oomdoctor outside the limit that killed the command"),
            )


def _unheard(evidence: Evidence) -> Iterator[Missing]:
    """What the probe leaves out with an old torch, which could hang if another thread asked it at the wrong moment."""
    for run in evidence.runs:
        for process in run.processes:
            version = process.torch_version
            if version is not None and process.devices and within(version, None, _LAST_UNHEARD):
                yield Missing(
                    _("failures that the program caught, and the course of the allocator"),
                    _(
                        "torch {version} holds its lock while it reports a failure, so nobody listens to it; it "
                        "was asked after an error that ended a program or a thread, and at the end"
                    ).format(version=version),
                    _("run it once with torch 2.1 or newer"),
                )


def _cut_histories(facts: FactSet) -> Iterator[Missing]:
    """Histories that show no failed request, and begin too late to exclude one."""
    for member in facts.members(Scope.DEVICE):
        shown = facts.value("allocator.failing_request_in_snapshot", member)
        if shown is False and facts.value("allocator.history_complete", member) is False:
            yield Missing(
                _("requests of {member} that failed before the recorded history begins").format(member=member),
                _(
                    "no failed request is in it, and memory was held already at its first event: the recording began"
                    " late, or later events pushed earlier ones out of it"
                ),
                _(
                    "raise `max_entries` of `torch.cuda.memory._record_memory_history()`, or have the snapshot written"
                    " as it fails: `oomdoctor run -- <your command>`"
                ),
            )


def _contradicted_histories(facts: FactSet) -> Iterator[Missing]:
    for member in facts.members(Scope.DEVICE):
        found = facts.find("allocator.contradictions", member)
        if found is not None and isinstance(found.value, int) and found.value:
            yield Missing(
                _("a history of {member} without gaps").format(member=member),
                ngettext(
                    "replayed, the recorded events contradict the final state once: what the report says of the final"
                    " state holds; peak, curve, growth and spikes may be off",
                    "replayed, the recorded events contradict the final state in {number} places: what the report says"
                    " of the final state holds; peak, curve, growth and spikes may be off",
                    found.value,
                ).format(number=f"{found.value:,}"),
                _(
                    "start `torch.cuda.memory._record_memory_history()` once and do not stop it before the snapshot is "
                    "taken"
                ),
            )


def _not_rebuilt(facts: FactSet) -> Iterator[Missing]:
    for member in facts.members(Scope.DEVICE):
        found = facts.find("allocator.not_rebuilt", member)
        if found is not None and isinstance(found.value, str):
            yield Missing(
                _("the holes and the address map of {member} as the request failed").format(member=member),
                _("the snapshot was written later, and the state then cannot be rebuilt: {why}").format(
                    why=told(found.value)
                ),
                _(
                    "have the snapshot written as it fails: `oomdoctor run` does, and so does what"
                    " `torch._C._cuda_attach_out_of_memory_observer` calls"
                ),
            )


def _broken_states(facts: FactSet) -> Iterator[Missing]:
    for member in facts.members(Scope.DEVICE):
        found = facts.find("allocator.broken_segments", member)
        if found is not None and isinstance(found.value, int):
            yield Missing(
                _("a consistent final state of {member}").format(member=member),
                ngettext(
                    "the blocks of {number} segment of the snapshot do not fill it one after the other, or it lies in"
                    " another: what was live, reserved and idle is not read from it, and what is drawn of it may be"
                    " off",
                    "the blocks of {number} segments of the snapshot do not fill them one after the other, or these lie"
                    " in one another: what was live, reserved and idle is not read from it, and what is drawn of it may"
                    " be off",
                    found.value,
                ).format(number=f"{found.value:,}"),
                _("have the snapshot written anew; this file is damaged, or not as torch wrote it"),
            )


def _unknown_cards(evidence: Evidence, facts: FactSet) -> Iterator[Missing]:
    """Cards whose size only a snapshot could have told, which tells it never."""
    for member in failed_devices(facts):
        reach = facts.size("oom.reach_bytes", member)
        known = {facts.size("oom.total_bytes", member), facts.size("device.total_bytes", member)} != {None}
        if reach is None or known or not evidence.snapshots:
            continue
        if evidence.card_bytes is not None:
            yield Missing(
                _("the size of {member}").format(member=member),
                _(
                    "{told} is less than what torch had reserved and what was free, {size}: it is not the size of that"
                    " card"
                ).format(told=f"--gpu {format_bytes(evidence.card_bytes)}", size=format_bytes(reach)),
                _("add the log with the error, or --gpu 80GiB"),
            )
        else:
            yield Missing(
                _("the size of {member}").format(member=member),
                _(
                    "a snapshot does not tell it; what torch had reserved and what was free make {size}, and what else"
                    " was on the device is not in the input"
                ).format(size=format_bytes(reach)),
                _("add the log with the error, or --gpu 80GiB"),
            )


def _host_alone(evidence: Evidence, facts: FactSet) -> bool:
    """Whether the host is what failed, and no process of the run is known to have used a device."""
    used = any(process.devices for run in evidence.runs for process in run.processes)
    failed = any(facts.value(name) is True for name in ("host.memory_error", "exit.kill_explained_by_memory"))
    return failed and not used and not _device_failed(evidence, facts)


def _device_failed(evidence: Evidence, facts: FactSet) -> bool:
    return bool(evidence.of_kind(EventKind.DEVICE_OOM)) or any(
        facts.value("oom.failed", member) is True or facts.value("oom.requested_bytes", member) is not None
        for member in facts.members(Scope.DEVICE)
    )


def _device_gaps(evidence: Evidence, facts: FactSet) -> Iterator[Missing]:
    runtime = runtime_of(facts)
    censuses = [one.census for run in evidence.runs for one in run.device_ooms if one.census is not None]
    if not evidence.snapshots and any(not census.joined for census in censuses):
        yield Missing(
            _("a memory snapshot of the failure"),
            _("torch takes none with cudaMallocAsync; what no Python object holds cannot be named"),
            _("run it once without `backend:cudaMallocAsync` in `PYTORCH_CUDA_ALLOC_CONF`"),
        )
    elif not evidence.snapshots:
        yield from holders_of(runtime, watched=bool(evidence.runs))
    yield from _unknown_cards(evidence, facts)
    for census in censuses:
        if census.stopped is not None and _FOR_TIME in census.stopped:
            yield Missing(
                _("all who held the memory"),
                _("the census of the process's objects was cut short: {stopped}").format(stopped=told(census.stopped)),
                _("`OOMDOCTOR_CENSUS_SECONDS=10 oomdoctor run -- <your command>` (2 are allowed otherwise)"),
            )
    looked = evidence.devices or any(run.device_readings for run in evidence.runs)
    if not looked:
        listed = (facts.size("oom.foreign_listed_bytes", member) for member in facts.members(Scope.DEVICE))
        yield from who_is_on(facts, numbered=any(listed))
    if facts.value("torch.version") is None and facts.value("engine.version") is None:
        yield Missing(
            _("the framework's version"),
            _("no version is printed; settings are given in every spelling"),
            f"`{VERSION_BY[runtime]}`" if runtime in VERSION_BY else _("the program's own option or first lines"),
        )
