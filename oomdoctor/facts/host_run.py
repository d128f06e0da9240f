"""host.*: what the records of a watched run say of host memory up to its failure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ..language import N_
from ..model.facts import FactSet
from ..model.run import LargeObject, RunRecord
from ..model.source import Source
from ..model.units import format_bytes
from .deriver import computed
from .frames import describe, users_frame
from .host_errors import last_host_error
from .steadiness import rate, steady_rise
from .until import (
    LAST_SAMPLES,
    points_until_failure,
    process_limit,
    samples_until_failure,
    shared_memory_ran_out,
    was_killed,
)

_CONTAINERS = {"list", "dict", "set", "tuple", "deque", "defaultdict", "OrderedDict", "Counter", "frozenset"}
_EXTENDED = {*_CONTAINERS, "bytearray", "bytes", "str", "BytesIO", "StringIO"}
"""What a line that adds to it makes larger; anything else has its size already, and is filled."""
_MOST_OF_THE_GROWTH = 0.4
_NEAR_LIMIT = 0.5
"""A request of unknown size is taken to have met the limit where at least this share of it was in use: one that did not
fit although more than half was free is more likely senseless than held back by the limit."""


def put_run(run: RunRecord, facts: FactSet) -> None:
    """All but whether a limit was reached, which the messages have a say in too."""
    _put_limits(run, facts)
    _put_counters(run, facts)
    _put_shared_memory(run, facts)
    _put_own_size(run, facts)
    _put_samples(run, facts)
    _put_holders(run, facts)


def _put_limits(run: RunRecord, facts: FactSet) -> None:
    limits, source = run.limits, Source(path=run.path, record="limits")
    facts.put("host.total_bytes", limits.memory_total_bytes, source)
    facts.put("host.cgroup_limit_bytes", limits.cgroup_limit_bytes, source)
    error = last_host_error(run)
    told = error is not None and error.vm_size_bytes is not None
    facts.put("host.process_limit_bytes", process_limit(run), error.source if error and told else source)
    facts.put("host.cgroup_unlimited", True if "cgroup_limit_bytes" in limits.unlimited else None, source)
    own = {"address_space_limit_bytes", "data_limit_bytes"} <= set(limits.unlimited)
    facts.put("host.process_unlimited", True if own and process_limit(run) is None else None, source)
    facts.put("host.shm_total_bytes", limits.shm_total_bytes, source)
    system = (run.host.get("platform") or run.host.get("system") or "").lower()
    for name in ("wsl", "windows", "linux"):
        if name in system:
            facts.put("host.platform", name, source)
    if "darwin" in system or "macos" in system:
        facts.put("host.platform", "macos", source)


def _put_counters(run: RunRecord, facts: FactSet) -> None:
    source = Source(path=run.path, record="counters")
    facts.put("host.cgroup_oom_kills", run.counters.cgroup_kills, source)
    facts.put("host.system_oom_kills", run.counters.system_kills, source)
    facts.put("host.cgroup_limit_hits", run.counters.limit_hits, source)


def _put_shared_memory(run: RunRecord, facts: FactSet) -> None:
    if shared_memory_ran_out(run):
        facts.put("host.shm_exhausted", True, Source(path=run.path, record=N_("last sample, and a bus error")))


def _put_samples(run: RunRecord, facts: FactSet) -> None:
    samples = samples_until_failure(run)
    if not samples:
        return
    source = Source(path=run.path, record=N_("{samples} samples until the failure").format(samples=len(samples)))
    facts.put("host.samples", len(samples), source)
    facts.put("host.watched_seconds", samples[-1].time_seconds - samples[0].time_seconds, source)
    facts.put("host.available_bytes", _last(s.available_bytes for s in samples), source)
    facts.put("host.total_bytes", _last(s.total_bytes for s in samples), source)
    facts.put("host.peak_tree_bytes", _peak(s.tree_rss_bytes for s in samples), source)
    facts.put("host.peak_virtual_bytes", _peak(s.tree_virtual_bytes for s in samples), source)
    pressure = [s.pressure_full_avg10 for s in samples[-LAST_SAMPLES:] if s.pressure_full_avg10 is not None]
    if pressure:
        facts.put("host.pressure_full_ratio", max(pressure) / 100, source)
    rise = steady_rise(points_until_failure(run, "tree_rss_bytes"))
    rise = rise or steady_rise(points_until_failure(run, "tree_virtual_bytes"))
    if rise is None:
        return
    facts.put("host.growth_steady", rise.steady, source)
    if rise.steady:
        facts.put("host.growth_bytes", rise.gained_bytes, source)
        facts.put("host.growth_bytes_per_second", rate(rise.gained_bytes, rise.seconds), source)


def _last(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return known[-1] if known else None


def _peak(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _put_own_size(run: RunRecord, facts: FactSet) -> None:
    """What the failing process read of itself is exact; samples come only every so often."""
    error = last_host_error(run)
    if error is None or was_killed(run):
        return
    size, peak = error.vm_size_bytes, error.vm_peak_bytes
    # Python unwinds part of the stack before anybody is told: what it gave back by then had been there as well.
    given_back = 0 if size is None or peak is None else max(0, peak - size)
    if process_limit(run) is not None and process_limit(run) == error.data_limit_bytes:
        size = error.vm_data_bytes if error.vm_data_bytes is not None else size
    size = None if size is None else size + given_back
    facts.put("host.failing_process_bytes", size, error.source)
    facts.put("host.peak_virtual_bytes", peak, error.source)
    facts.put("host.given_back_bytes", given_back if size is not None else None, error.source)


def _put_holders(run: RunRecord, facts: FactSet) -> None:
    """The largest Python object that the probe found when memory ran out, and the exception it went with."""
    error = last_host_error(run)
    if error is None:
        return
    source = error.source
    facts.put("host.memory_error", True, source)
    facts.put("host.failed_allocator", "numpy" if "Array" in error.exception_type else "python", source)
    if error.large_objects:
        # The probe puts the container itself before what merely leads to it.
        largest = error.large_objects[0]
        is_container = largest.type.split(".")[-1] in _CONTAINERS
        facts.put("host.largest_holder", describe_holder(largest), source)
        facts.put("host.largest_holder_bytes", largest.deep_bytes, source)
        facts.put("host.largest_holder_size", _size_in_words(largest), source)
        facts.put("host.largest_holder_exact", largest.complete, source)
        facts.put("host.largest_holder_length", largest.length, source)
        facts.put("host.largest_holder_is_container", is_container, source)
        facts.put("host.largest_holder_grows", is_container and largest.adds, source)
        growth = facts.size("host.growth_bytes")
        if not is_container and growth is not None and largest.deep_bytes >= _MOST_OF_THE_GROWTH * growth:
            facts.put("host.filled_object", describe_holder(largest), source)
    frame = users_frame(error.frames)
    if frame is not None:
        facts.put("host.failing_line", describe(frame), source)


PROBES_WORDS = (
    N_("{kind} local {held} in {function}"),
    N_("{kind} global {held} in {module}"),
    N_("{kind} global {held} in {module} in {function}"),
    N_("{kind} attribute {held} of {class}"),
    N_("{kind} attribute {held} of {class} in {function}"),
)
"""How the probe names who holds a large object (its `large_objects`), with its type before it."""


def describe_holder(held: LargeObject) -> str:
    """`list local 'seen' in train(), grown at train.py:54`; where no line adds to it, only its function and file."""
    inside = f" in {held.function}()" if held.function and held.function not in held.holder else ""
    owner = f"{held.type} {held.holder}{inside}"
    if held.file and held.adds and held.line:
        extended = held.type.split(".")[-1] in _EXTENDED
        said = N_("{owner}, grown at {line}") if extended else N_("{owner}, filled at {line}")
        return said.format(owner=owner, line=f"{held.file}:{held.line}")
    return N_("{owner}, in {file}").format(owner=owner, file=held.file) if held.file else owner


def _size_in_words(held: LargeObject) -> str:
    """`504.00 MiB`, `about …` where it was reckoned from a sample, `at least …` where the walk stopped early."""
    words = format_bytes(held.deep_bytes)
    if held.complete:
        return words
    return (N_("about {size}") if held.extrapolated else N_("at least {size}")).format(size=words)


def put_process_limit_reached(runs: Iterable[RunRecord], facts: FactSet) -> None:
    """Whether the failing process met its own limit: its size and the failed request together reach it.

    The size is what the process read of itself when it failed; samples stand in for it where it could not. A request
    whose size nobody tells is taken to have met the limit where at least half of it was in use; else that stays
    unknown, since one large request may do it alone.
    """
    limit = facts.value("host.process_limit_bytes")
    name = "host.failing_process_bytes"
    size = facts.value(name)
    if size is None:
        name = "host.peak_virtual_bytes"
        size = facts.value(name)
    if not facts.value("host.memory_error") or not isinstance(limit, int) or not isinstance(size, int):
        return
    request = facts.value("host.failed_request_bytes")
    if isinstance(request, int):
        source = computed(name, "host.process_limit_bytes", "host.failed_request_bytes")
        step = 0 if name == "host.failing_process_bytes" else _largest_step(runs)
        facts.put("host.process_limit_reached", size + request + step >= limit, source)
    elif size >= _NEAR_LIMIT * limit:
        facts.put("host.process_limit_reached", True, computed(name, "host.process_limit_bytes"))


def _largest_step(runs: Iterable[RunRecord]) -> int:
    """What came after the last sample is at most what the steepest interval before it gained."""
    curves = ([size for _, size in points_until_failure(run, "tree_virtual_bytes")] for run in runs)
    return max((after - before for curve in curves for before, after in pairwise(curve)), default=0)
