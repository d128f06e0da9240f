"""A run up to its failure: what was measured afterwards shows the teardown, and says nothing of what led there."""

from __future__ import annotations

import math
import signal

from ..model.host import HostSample
from ..model.run import RunRecord
from .host_errors import last_host_error

_NEARLY_NONE = 0.05
"""What is free of /dev/shm just before one more page finds no room: the last look is up to half a second old."""
_STALLED_PERCENT, _HARDLY_ANY = 40, 0.1
"""As the rule HST016 has them."""
LAST_SAMPLES = 20
"""What these show of pressure was at the end, not hours before it."""
_IN_TURN_SECONDS = 0.5
"""A reading that was asked for at the failure may be written this much after it."""


def was_killed(run: RunRecord) -> bool:
    """By SIGKILL, also behind a shell that says so by its status."""
    return run.signal == signal.SIGKILL or run.exit_status == 128 + signal.SIGKILL


def shared_memory_ran_out(run: RunRecord) -> bool:
    """A page of a full /dev/shm is a bus error; so is one of a file that was cut off, and then there was room."""
    if run.signal != signal.SIGBUS and run.exit_status != 128 + signal.SIGBUS:
        return False
    free = next((s.shm_free_bytes for s in reversed(samples_until_failure(run)) if s.shm_free_bytes is not None), None)
    total = run.limits.shm_total_bytes
    return free is not None and bool(total) and free <= _NEARLY_NONE * (total or 0)


def stalled_on_memory(run: RunRecord) -> bool:
    """Near its end all tasks of the machine waited for memory much of the time, there was hardly any, and it failed."""
    if run.exit_status == 0 or run.counters.kernel_kills:
        return False
    return any(
        (s.pressure_full_avg10 or 0) >= _STALLED_PERCENT
        and s.available_bytes is not None
        and s.total_bytes is not None
        and s.available_bytes < _HARDLY_ANY * s.total_bytes
        for s in samples_until_failure(run)[-LAST_SAMPLES:]
    )


def failed_seconds(run: RunRecord) -> float | None:
    """When the last failure came: the probe's record of it, else the end of the run; None where neither is known."""
    told = [e.time_seconds for e in run.exceptions if e.is_memory_error or e.is_device_oom or e.is_library_oom]
    told += [record.time_seconds for record in run.device_ooms]
    return run.ended_seconds if was_killed(run) or not told else max(told)


def samples_until_failure(run: RunRecord) -> tuple[HostSample, ...]:
    """The samples that show the command at work.

    Of a killed command the last look may fall between the kill and the end, when its memory is being taken apart.
    """
    end = failed_seconds(run)
    samples = [s for s in run.samples if end is None or s.time_seconds <= end]
    while samples and run.ended_seconds is not None and not _shows_command(samples[-1]):
        samples.pop()
    if was_killed(run) and end is not None:
        late = end - 1.5 * (run.sample_interval_seconds or 0.0)
        while len(samples) >= 2 and samples[-1].time_seconds >= late and _fell(samples[-2], samples[-1]):
            samples.pop()
    return tuple(samples)


def _shows_command(sample: HostSample) -> bool:
    """False where the command was read and had gone: a process that ends holds 0 bytes, and that is not its size."""
    return 0 not in (sample.tree_rss_bytes, sample.tree_virtual_bytes)


def _fell(before: HostSample, after: HostSample) -> bool:
    return (after.tree_rss_bytes or 0) < (before.tree_rss_bytes or 0)


def points_until_failure(run: RunRecord, name: str) -> list[tuple[float, int]]:
    """(seconds, bytes) of a field of the samples, with what the failing process read of itself as the last.

    A process that has vanished does not hold 0 bytes: it has no point. The process's own figure stands for the tree's
    resident size only where it is the whole tree, and for the largest virtual size only where it is the largest.
    """
    samples = samples_until_failure(run)
    points = [(s.time_seconds, value) for s in samples if (value := getattr(s, name))]
    error = last_host_error(run)
    if error is None or was_killed(run):
        return points
    if name == "tree_virtual_bytes":
        own = _at_failure(error.vm_size_bytes, error.vm_peak_bytes, points)
        fits = own is not None and (not points or own >= points[-1][1])
    elif name == "tree_rss_bytes":
        own = _at_failure(error.rss_bytes, error.rss_peak_bytes, points)
        fits = own is not None and all(s.processes in (None, 1) for s in samples)
    else:
        return points
    if own and fits and (not points or error.time_seconds > points[-1][0]):
        points.append((error.time_seconds, own))
    return points


def _at_failure(size: int | None, peak: int | None, points: list[tuple[float, int]]) -> int | None:
    """What it held as it failed: an unwound stack may have given some of it back before the process read its size."""
    return peak if size is not None and points and size < points[-1][1] else size


def is_until_failure(run: RunRecord, time_seconds: float | None) -> bool:
    """Whether a look at a device at this time shows it before, or just as, the last failure came."""
    end = failed_seconds(run)
    if end is None or time_seconds is None:
        return True
    # After the end of the command nothing shows what it held.
    return time_seconds <= min(end + _IN_TURN_SECONDS, run.ended_seconds or math.inf)


def process_limit(run: RunRecord) -> int | None:
    """The failing process's own limit; the run's where no process told of itself. Without a limit: None."""
    error = last_host_error(run)
    if error is not None and error.vm_size_bytes is not None:
        size, data = error.address_space_limit_bytes, error.data_limit_bytes
        if size is None or data is None:
            return data if size is None else size
        # Both are set: the one that leaves less room is the one that counts.
        return size if size - error.vm_size_bytes <= data - (error.vm_data_bytes or 0) else data
    return run.limits.address_space_limit_bytes or run.limits.data_limit_bytes
