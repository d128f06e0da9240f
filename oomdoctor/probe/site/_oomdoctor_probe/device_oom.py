"""Records that a device ran out of memory, while all that filled it is still there.

torch calls its out-of-memory observers after the driver has refused and before it raises; the error itself then goes
on unchanged. A program may run out of memory thousands of times on purpose (looking for the largest batch that fits),
so records and snapshots get rarer as the count grows. Of the snapshots the first, the last and the largest stay.

cudaMallocAsync has no observers, and those of an old torch are left alone (`torch_version.may_be_listened_to`). There
an error that nobody caught is the first to be heard of it; its traceback still holds the variables of the functions
that it came through, and the old torch's allocator what those hold.
"""

from __future__ import annotations

import _thread
import os
import sys
from time import monotonic, time

from . import finish, frames, handshake, identity, records
from .allocator import read_state, write_states
from .guard import guarded
from .snapshot import write_snapshot
from .torch_version import may_be_listened_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any

    from .census_growth import Lengths
    from .census_tally import Blocks

    Tracebacks = Sequence[TracebackType | None]

_RECORDS_IN_FULL = 20
_MUCH_LARGER = 1.1
"""Times the largest request so far: such a failure is recorded, however many there were. Few can follow each other."""
_ALWAYS_IN_FULL = 3
"""So many get a snapshot and a census at once: of a later one that ends the program only what is left after it."""
_REST_SECONDS = 5.0
"""At least this long between two snapshots, and ten times as long as the last one took."""
_SNAPSHOT_BUDGET_SECONDS = 60.0
"""All snapshots of a process together; a single one cannot be interrupted."""


class _Snapshot:
    """One that was written."""

    __slots__ = ("name", "reserved")

    def __init__(self, name: str, reserved: int) -> None:
        self.name = name
        self.reserved = reserved


class _Observer:
    """What has happened in this process."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.attached = False
        self.takes_snapshots = True
        self._begin()

    def _begin(self) -> None:
        self.pid = os.getpid()
        self.count = 0
        self._unsnapped: dict[str, object] | None = None
        """The last record, while no snapshot belongs to it."""
        self._last_record = 0.0
        self._largest_requested = 0
        self._not_before = 0.0
        self._spent = 0.0
        self._kept: list[_Snapshot] = []
        self._lengths: Lengths | None = None
        self._writing = _thread.allocate_lock()

    @guarded("recording that a device is out of memory")
    def observe(self, device: int, requested: int, total: int, free: int, *_: object) -> None:
        """What torch calls. Later versions may pass more."""
        if self.pid != os.getpid():
            # A forked child inherits the observer, not what it has seen.
            self._begin()
        self.count += 1
        now = monotonic()
        about = self._describe(int(device), int(requested), int(total), int(free))
        self._unsnapped = about
        grown = int(requested) > _MUCH_LARGER * self._largest_requested
        self._largest_requested = max(self._largest_requested, int(requested))
        if (
            grown
            or self.count <= _RECORDS_IN_FULL
            or self.count & (self.count - 1) == 0
            or now - self._last_record >= 1.0
        ):
            self._last_record = now
            records.write("device-oom", **about)
        if now >= self._not_before or self.count <= _ALWAYS_IN_FULL:
            handshake.ask()
            self.snapshot()

    @guarded("recording that a device was out of memory")
    def told(self, tracebacks: Tracebacks, thread: str | None) -> None:
        """What an uncaught error says that no observer has seen: who holds the memory, of requests nothing."""
        self.count += 1
        about = self._describe(0 if self._torch.cuda.device_count() == 1 else None, None, None, None)
        rows = [row for traceback in tracebacks[:1] for row in frames.of_traceback(traceback)]
        about.update(frames=rows, frames_of="current", thread=thread)
        records.write("device-oom", **about)
        write_states(self._torch)
        handshake.ask()
        if self.takes_snapshots:
            self._unsnapped = about
            self.snapshot(tracebacks)
        else:
            self._count(about, None, tracebacks)

    def _describe(
        self, device: int | None, requested: int | None, total: int | None, free: int | None
    ) -> dict[str, object]:
        about: dict[str, object] = {
            "time": time(),
            "id": "%d-oom-%d" % (self.pid, self.count),
            "pid": self.pid,
            "count": self.count,
            "device": device,
            "requested_bytes": requested,
            "device_total_bytes": total,
            "device_free_bytes": free,
            "state": None,
            "snapshot_path": None,
            "rank": identity.rank(),
        }
        try:
            state = read_state(self._torch, device) if device is not None else None
            if state:
                about["state"] = {**state, "free_bytes": free, "total_bytes": total}
        except Exception as error:
            records.write_error("reading the allocator's figures", error)
        about.update(_stack())
        about["autograd_on"] = None
        about["visible_devices"] = None
        try:
            if about["frames_of"] == "current":
                about["autograd_on"] = bool(self._torch.is_grad_enabled())
            about["visible_devices"] = int(self._torch._C._cuda_getDeviceCount())
        except Exception as error:
            records.write_error("asking torch about its devices", error)
        return about

    @guarded("writing a snapshot")
    def snapshot(self, failing: Tracebacks = ()) -> None:
        """Write the allocator's snapshot for the last failure, if it has none and there is time left for one.

        One thread at a time: a failure of another meanwhile gets its own when it ends the program.
        """
        if not self._writing.acquire(False):
            return
        try:
            about = self._unsnapped
            if about is not None and self._spent < _SNAPSHOT_BUDGET_SECONDS:
                self._write(about, failing)
        finally:
            self._writing.release()

    def _write(self, about: dict[str, object], failing: Tracebacks) -> None:
        started = monotonic()
        name = "%d-%s.pickle" % (self.pid, about["count"])
        try:
            try:
                blocks: Blocks | None = write_snapshot(self._torch, name)
            except Exception as error:
                # As with cudaMallocAsync, which has none: the census does without.
                blocks = None
                records.write_error("writing a snapshot", error)
            self._count(about, blocks, failing)
        finally:
            took = monotonic() - started
            self._spent += took
            self._not_before = monotonic() + max(_REST_SECONDS, 10 * took)
        if self._unsnapped is about:
            self._unsnapped = None
        if blocks is None:
            return
        records.write("device-oom", **{**about, "snapshot_path": "snapshots/" + name})
        state = about["state"]
        reserved = state.get("reserved_bytes") if isinstance(state, dict) else None
        self._keep(_Snapshot(name, reserved or 0))

    @guarded("taking the census")
    def _count(self, about: dict[str, object], blocks: Blocks | None, failing: Tracebacks) -> None:
        """Write down who holds the memory."""
        from . import census, census_growth

        if self._lengths is None:
            self._lengths = census_growth.Lengths()
        found = census.take(self._torch, blocks, census.seconds(), failing=failing, lengths=self._lengths)
        if found is not None:
            same = {name: about[name] for name in ("time", "id", "pid", "device", "rank")}
            records.write("census", **same, **found)

    def _keep(self, newest: _Snapshot) -> None:
        """Remove those that are no longer the first, the last or the largest."""
        self._kept.append(newest)
        largest = max(self._kept, key=lambda snapshot: snapshot.reserved)
        for snapshot in self._kept[1:-1]:
            if snapshot is not largest:
                self._kept.remove(snapshot)
                os.unlink(records.bundle_path("snapshots", snapshot.name))


class _Current:
    observer: _Observer | None = None


@guarded("attaching the out-of-memory observer")
def watch(torch: Any) -> None:
    """Attach the observer in this process, once. torch keeps it until the process ends."""
    current = _Current.observer
    if current is not None and current.pid == os.getpid():
        return
    observer = _Current.observer = _Observer(torch)
    finish.count_device_ooms_with(count)
    if may_be_listened_to(torch):
        observer.takes_snapshots = False
        torch._C._cuda_attach_out_of_memory_observer(observer.observe)
        observer.attached = observer.takes_snapshots = True


def count() -> int:
    """How often a device ran out of memory in this process."""
    current = _Current.observer
    return current.count if current is not None and current.pid == os.getpid() else 0


def ended_by(tracebacks: Tracebacks, thread: str | None) -> None:
    """An error ended the program or a thread, and perhaps nothing was written of it yet: better late than never."""
    current = _Current.observer
    if current is None or current.pid != os.getpid():
        return
    if current.attached:
        current.snapshot(tracebacks)
    else:
        current.told(tracebacks, thread)


def _stack() -> dict[str, object]:
    """The Python stack that asked for the memory, as fields of the record."""
    threading = sys.modules.get("threading")
    rows = frames.of_stack(sys._getframe())
    if rows:
        return {"frames": rows, "frames_of": "current", "thread": _thread_name(threading)}
    # autograd's own threads run no Python; the main thread waits for them in backward().
    main = threading.main_thread().ident if threading is not None else None
    rows = frames.of_stack(sys._current_frames().get(main)) if main is not None else []
    return {"frames": rows, "frames_of": "main", "thread": None}


def _thread_name(threading: Any) -> str | None:
    """Name of this thread if it is not the main one; `current_thread()` would register a thread it does not know."""
    if threading is None:
        return None
    mine = _thread.get_ident()
    for thread in threading.enumerate():
        if thread.ident == mine:
            return None if thread is threading.main_thread() else str(thread.name)
    return "unknown"
