"""What `oomdoctor run` recorded of one command: the outside's samples and the inside's records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .devices import DeviceReading
from .host import HostLimits, HostSample, OomCounters
from .source import Source


@dataclass(frozen=True)
class StackFrame:
    """One frame of a Python traceback."""

    file: str
    line: int
    function: str
    code: str = ""


@dataclass(frozen=True)
class LargeObject:
    """A large Python object found when memory ran out: who holds it and how much."""

    type: str
    holder: str
    """Where it hangs: `local 'batches' in main()`, `global 'cache'`, `attribute self.history of Trainer` …"""
    file: str | None
    line: int | None
    function: str | None
    own_bytes: int
    deep_bytes: int
    """With what it contains, to a bounded depth; equals own_bytes when nothing was followed."""
    length: int | None = None
    complete: bool = True
    """False: elements were sampled or the walk stopped early; deep_bytes is an estimate."""
    extrapolated: bool = False
    """Not complete, and reckoned from a sample of the elements: it may be less as well as more."""
    adds: bool = False
    """`line` is where the code adds to the object; otherwise where the stack stood in code that speaks of it."""


@dataclass(frozen=True)
class ExceptionRecord:
    """An exception that ended a thread or the process, or a MemoryError (caught ones too, where seen)."""

    source: Source
    time_seconds: float
    pid: int
    exception_type: str
    message: str
    frames: tuple[StackFrame, ...]
    """Outermost first."""
    is_memory_error: bool = False
    is_device_oom: bool = False
    """It says that a device ran out of memory, or was raised from or during one that does."""
    is_library_oom: bool = False
    """It, or what it was raised from or during, says that the driver or a library found no device memory left."""
    from_worker: bool = False
    """It came from another process, whose error it tells; what was read of this one is not what ran out."""
    fatal: bool = True
    thread: str | None = None
    rank: int | None = None
    large_objects: tuple[LargeObject, ...] = ()
    vm_size_bytes: int | None = None
    """The process's own size when it failed: its mappings (what RLIMIT_AS limits)."""
    vm_peak_bytes: int | None = None
    """Its largest size until then."""
    vm_data_bytes: int | None = None
    """Of its mappings the private writable ones (what RLIMIT_DATA limits)."""
    rss_bytes: int | None = None
    rss_peak_bytes: int | None = None
    address_space_limit_bytes: int | None = None
    """Its RLIMIT_AS and RLIMIT_DATA; None: without limit, or not read (then its size is None too)."""
    data_limit_bytes: int | None = None


@dataclass(frozen=True)
class AllocatorState:
    """A device's caching allocator, and the driver's word on the device, at one moment. None: not known."""

    time_seconds: float
    device: int
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    active_bytes: int | None = None
    inactive_split_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    requested_bytes: int | None = None
    retries: int | None = None
    ooms: int | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    pid: int | None = None


@dataclass(frozen=True)
class CensusGroup:
    """Device memory that one holder in the program's Python objects accounts for."""

    device: int
    category: str
    """parameters, buffers, gradients, optimizer, kv, logits, saved-for-backward, activations or other."""
    owner: str
    """In the words of the code: `list 'losses' global of __main__`."""
    bytes: int
    count: int
    """Blocks."""
    file: str | None = None
    line: int | None = None
    """Where the code adds to a collection (`adds`), otherwise where the stack stood in the code that speaks of it."""
    function: str | None = None
    length: int | None = None
    """Elements, of a collection."""
    adds: bool = False
    of_a_step: bool = False
    """A collection that each step makes anew, by the source: it goes backward once all is in it."""
    by_name: bool = False
    """A dictionary whose keys are all strings."""
    by_error: bool = False
    """A variable of a call that has failed, kept by its exception."""
    parts: tuple[tuple[str, int], ...] = ()
    """The largest parts of a module, by path."""
    earlier_length: int | None = None
    """What `length` was when an earlier census of the process saw the collection first."""
    earlier_seconds: float | None = None
    """How long before this census that was."""
    saved_bytes: int = 0
    """Of `bytes`, what autograd saved for a backward pass."""
    largest_shape: tuple[int, ...] = ()
    """Of its largest tensor; empty: not known, or a single number."""
    largest_dtype: str | None = None
    sample_addresses: tuple[int, ...] = ()
    """Of its blocks in the snapshot: a few, evenly spread in the order of the collection, first and last included."""


@dataclass(frozen=True)
class CensusDevice:
    """What the census says of one device. None: no snapshot to join with."""

    device: int
    allocated_bytes: int | None = None
    held_bytes: int | None = None
    unheld_bytes: int | None = None
    """In blocks in use that no Python object leads to."""
    unheld_count: int | None = None
    unheld_addresses: tuple[int, ...] = ()
    """Of those blocks, the largest first; not necessarily all."""
    vocabulary: tuple[int, ...] = ()
    """How many tokens the models of the process know."""


@dataclass(frozen=True)
class Census:
    """Who held device memory when a request failed, by the objects of the process."""

    source: Source
    devices: tuple[CensusDevice, ...]
    groups: tuple[CensusGroup, ...]
    complete: bool = True
    stopped: str | None = None
    """What was cut short and why."""
    joined: bool = True
    """Blocks of the allocator are counted; otherwise the sizes of storages, because there was no snapshot."""
    seconds: float | None = None
    training: bool | None = None
    """Some model was in training mode; None: there was none with parameters, or nobody looked."""


@dataclass(frozen=True)
class DeviceOomRecord:
    """What the probe's out-of-memory observer saw, before torch raised; otherwise what an error left."""

    source: Source
    time_seconds: float
    pid: int
    device: int | None
    """None: an error said so that no observer saw, and there are several."""
    requested_bytes: int | None
    """None: it was an error that said so."""
    device_total_bytes: int | None
    device_free_bytes: int | None
    state: AllocatorState | None
    frames: tuple[StackFrame, ...] = ()
    snapshot_path: str | None = None
    rank: int | None = None
    count: int = 1
    """Failures of the whole run so far, this one included."""
    visible_devices: int | None = None
    """Devices that the failing process sees."""
    autograd_on: bool | None = None
    """Whether gradients were being recorded; None where another thread's frames stand for the failing one's."""
    census: Census | None = None


@dataclass(frozen=True)
class VisibleDevice:
    """A device as a process sees it."""

    index: int
    """The process's own number."""
    uuid: str | None = None
    total_bytes: int | None = None


@dataclass(frozen=True)
class ProcessRecord:
    """A process in which the probe ran."""

    pid: int
    parent_pid: int | None
    command: tuple[str, ...]
    started_seconds: float
    python_version: str | None = None
    torch_version: str | None = None
    rank: int | None = None
    ended_cleanly: bool | None = None
    devices: tuple[VisibleDevice, ...] = ()
    """Empty: it has not initialised CUDA, or nobody recorded which devices it sees."""
    rss_peak_bytes: int | None = None
    """Its largest resident size, told at its end."""


@dataclass(frozen=True)
class RunRecord:
    """One watched run, as its bundle tells it."""

    path: str
    command: tuple[str, ...]
    working_directory: str | None
    started_seconds: float
    ended_seconds: float | None
    exit_status: int | None
    """As the child ended; None when it was killed by a signal or the supervisor died first."""
    signal: int | None
    limits: HostLimits = field(default_factory=HostLimits)
    counters: OomCounters = field(default_factory=OomCounters)
    sample_interval_seconds: float | None = None
    samples: tuple[HostSample, ...] = ()
    device_readings: tuple[DeviceReading, ...] = ()
    """Readings in time order of all devices that the command sees, by its own numbers of them."""
    hidden_device_readings: tuple[DeviceReading, ...] = ()
    """Those of devices that it does not see (CUDA_VISIBLE_DEVICES), by the driver's numbers."""
    device_numbers_known: bool = True
    """False: its processes number the devices in different ways, or in one that nobody recorded; the readings then
    have the driver's numbers."""
    processes: tuple[ProcessRecord, ...] = ()
    exceptions: tuple[ExceptionRecord, ...] = ()
    device_ooms: tuple[DeviceOomRecord, ...] = ()
    library_ooms: tuple[DeviceOomRecord, ...] = ()
    """Failures that no allocator of torch's met: uncaught errors of libraries and the driver."""
    allocator_states: tuple[AllocatorState, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    unseen: tuple[tuple[str, str, str], ...] = ()
    """(what, why, how to get it) for all that the collector could not see."""
    model: Mapping[str, object] | None = None
    """What was kept of the model that `run --model` named."""
    launch_config: Mapping[str, object] | None = None
    """What was kept of the launcher's file that the command named."""
    trainer_settings: Mapping[str, object] | None = None
    """What was kept of the trainer's own file of settings."""
    complete: bool = True
    """False: the supervisor did not write its last record."""
    received_signals: tuple[int, ...] = ()
    """Signals that were sent to the command from outside, through the wrapper."""
