"""Records that a device ran out of memory, while all that filled it is still there.

torch calls its out-of-memory observers after the driver has refused and before it raises; the error itself then goes
on unchanged. A program may run out of memory thousands of times on purpose (looking for the largest batch that fits),
so records and snapshots get rarer as the count grows. Of the snapshots the first, the last and the largest stay.

cudaMallocAsync has no observers, and those of an old torch are left alone (`torch_version.may_be_listened_to`). With
the first the errors are counted as they are made (`error_hook`). An error that nobody caught is the first to tell more:
its traceback still holds the variables of the functions that it came through, and the old torch's allocator what those
hold. So it does when a library or the driver failed, of which no observer of torch's is told.
"""

from __future__ import annotations

import _thread
import os
import sys
from time import monotonic, time

from . import error_hook, finish, frames, handshake, identity, records, reserve, room
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
_CENSUS_BYTES = 64 << 20
"""Room on the host for a census, which notes each object that it looks at."""
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
        self._passed_over: dict[str, object] | None = None
        """The last failure, while there is no record of it: written at the end, so that the last always has one."""
        self._largest_requested = 0
        self._not_before = 0.0
        self._spent = 0.0
        self._kept: list[_Snapshot] = []
        self._lengths: Lengths | None = None
        self._noticed = 0
        """id() of the last error that was seen as it was made."""
        self._noticed_on: int | None = None
        self._library_count = 0
        self._writing = _thread.allocate_lock()

    @guarded("recording that a device is out of memory")
    def observe(self, device: int, requested: int, total: int, free: int, *_: object) -> None:
        """What torch calls. Later versions may pass more."""
        if self.pid != os.getpid():
            # A forked child inherits the observer, not what it has seen.
            self._begin()
        self.count += 1
        reserve.release()  # the host may be full as well: the record comes first
        try:
            about = self._describe("oom", self.count, int(device), int(requested), int(total), int(free))
            self._unsnapped = about
            grown = int(requested) > _MUCH_LARGER * self._largest_requested
            self._largest_requested = max(self._largest_requested, int(requested))
            wanted = self._record(about, always=grown)
        finally:
            reserve.take()
        if wanted:
            handshake.ask()
            self.snapshot()

    def _record(self, about: dict[str, object], always: bool) -> bool:
        """Write the record of a failure, unless very many came at once; returns whether a closer look is due."""
        now = monotonic()
        rare = self.count <= _RECORDS_IN_FULL or self.count & (self.count - 1) == 0 or now - self._last_record >= 1.0
        if always or rare:
            self._last_record, self._passed_over = now, None
            records.write("device-oom", **about)
        else:
            self._passed_over = about
        return now >= self._not_before or self.count <= _ALWAYS_IN_FULL

    @guarded("recording the last failure")
    def write_last(self) -> None:
        """The record of the last failure, if it was passed over."""
        about, self._passed_over = self._passed_over, None
        if about is not None and self.pid == os.getpid():
            records.write("device-oom", **about)

    @guarded("recording that a device was out of memory")
    def noticed(self, error: BaseException, device: int | None) -> None:
        """An error of the allocator is being made that no observer is told of; it may well be caught."""
        if self.pid != os.getpid():
            self._begin()
        self.count += 1
        self._noticed, self._noticed_on = id(error), device
        if self._record(self._describe("oom", self.count, device, None, None, None), always=False):
            handshake.ask()
            self._not_before = monotonic() + _REST_SECONDS

    @guarded("recording that a device was out of memory")
    def told(self, chain: Sequence[BaseException], thread: str | None) -> None:
        """What an uncaught error says that no observer has seen: who holds the memory, of requests nothing."""
        device = 0 if self._torch.cuda.device_count() == 1 else None
        if self._noticed in map(id, chain):
            device = self._noticed_on if device is None else device
        else:
            self.count += 1
        about = self._describe("oom", self.count, device, None, None, None)
        self._tell("device-oom", about, chain, thread)
        if self.takes_snapshots:
            self._unsnapped = about
            self.snapshot(_tracebacks(chain))
        else:
            self._count(about, None, _tracebacks(chain))

    @guarded("recording that a library found no device memory")
    def library_failed(self, chain: Sequence[BaseException], thread: str | None) -> None:
        """The same of an error that is not the allocator's; it does not say which device it is about."""
        self._library_count += 1
        about = self._describe("library", self._library_count, None, None, None, None)
        self._tell("library-oom", about, chain, thread)
        if self._library_count <= _ALWAYS_IN_FULL or monotonic() >= self._not_before:
            self._write("library-oom", about, _tracebacks(chain))

    def _tell(self, kind: str, about: dict[str, object], chain: Sequence[BaseException], thread: str | None) -> None:
        """Write down what ended the program or a thread, and have the supervisor look."""
        # The stack has unwound: what is in force here was not in force there.
        about.update(frames=frames.of_traceback(chain[0].__traceback__), frames_of="current", thread=thread)
        about["autograd_on"] = None
        records.write(kind, **about)
        # In this order: what the supervisor sees is set beside the figures nearest in time.
        write_states(self._torch)
        handshake.ask()

    def _describe(
        self, what: str, count: int, device: int | None, requested: int | None, total: int | None, free: int | None
    ) -> dict[str, object]:
        about: dict[str, object] = {
            "time": time(),
            "id": "%d-%s-%d" % (self.pid, what, count),
            "pid": self.pid,
            "count": count,
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
            if about is not None:
                self._write("device-oom", about, failing)
        finally:
            self._writing.release()

    def _write(self, kind: str, about: dict[str, object], failing: Tracebacks) -> None:
        if self._spent >= _SNAPSHOT_BUDGET_SECONDS:
            return
        started = monotonic()
        name = "%d-%s%s.pickle" % (self.pid, "library-" if kind == "library-oom" else "", about["count"])
        try:
            blocks: Blocks | None = None
            try:
                # cudaMallocAsync has no snapshots; the census does without.
                blocks = write_snapshot(self._torch, name) if self.takes_snapshots else None
            except Exception as error:
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
        records.write(kind, **{**about, "snapshot_path": "snapshots/" + name})
        state = about["state"]
        reserved = state.get("reserved_bytes") if isinstance(state, dict) else None
        self._keep(_Snapshot(name, reserved or 0))

    @guarded("taking the census")
    def _count(self, about: dict[str, object], blocks: Blocks | None, failing: Tracebacks) -> None:
        """Write down who holds the memory."""
        from . import census, census_growth

        room.require(_CENSUS_BYTES)
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
    if current() is not None:
        return
    observer = _Current.observer = _Observer(torch)
    finish.count_device_ooms_with(count)
    finish.at_end(observer.write_last)
    if not may_be_listened_to(torch):
        return
    observer.takes_snapshots = False
    try:
        torch._C._cuda_attach_out_of_memory_observer(observer.observe)
        observer.attached = observer.takes_snapshots = True
    finally:
        if not observer.attached:
            error_hook.watch(torch, lambda error, device: observer.noticed(error, device))


def current() -> _Observer | None:
    """The observer of this process."""
    observer = _Current.observer
    return observer if observer is not None and observer.pid == os.getpid() else None


def count() -> int:
    """How often a device ran out of memory in this process."""
    observer = current()
    return observer.count if observer is not None else 0


def ended_by(chain: Sequence[BaseException], thread: str | None) -> None:
    """An error of the allocator ended the program or a thread; what is not written of it yet is written now."""
    observer = current()
    if observer is None:
        return
    if observer.attached:
        observer.snapshot(_tracebacks(chain))
    else:
        observer.told(chain, thread)


def _tracebacks(chain: Sequence[BaseException]) -> Tracebacks:
    return [error.__traceback__ for error in chain]


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
