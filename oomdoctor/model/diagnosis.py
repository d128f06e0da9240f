"""The result: what the report shows and the JSON contract carries. Sizes in bytes, times in seconds (Unix)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from .facts import FactSet, FactValue
from .source import KnownBy

if TYPE_CHECKING:  # `check` takes a few of these forms only, and must not wait for the rest
    from .devices import DeviceReading
    from .estimated import Estimated
    from .failed_request import FailedRequest
    from .stack_tree import StackTree
    from .window import Window


class Confidence(str, Enum):
    """How sure a finding is; the order is that of the members."""

    CONFIRMED = "confirmed"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """0 for the surest."""
        return list(Confidence).index(self)


class Verdict(str, Enum):
    """The one-word outcome."""

    OUT_OF_MEMORY = "out-of-memory"
    DEGRADED = "degraded"
    NOT_OUT_OF_MEMORY = "not-out-of-memory"
    NO_FAILURE = "no-failure"
    UNDETERMINED = "undetermined"


class Effect(str, Enum):
    """What a change does with the bytes that it is worth."""

    FREES = "frees"
    """Something held gives them back."""
    SPARES = "spares"
    """They are not asked for at all."""
    GIVES_THE_POOL = "gives-the-pool"
    """An engine's pool has so much more; nothing is given back."""
    ALLOWS = "allows"
    """A cap is lifted by so much."""
    JOINS = "joins"
    """Reserved memory that no request could use becomes usable."""
    LEAVES = "leaves"
    """So much is left alone, for others on the device."""
    COUNTS = "counts"
    """None: what is short is counted (threads, open files, users of a device), not measured in bytes."""
    FINDS_OUT = "finds-out"
    """None: it tells what to change."""


@dataclass(frozen=True)
class EvidenceItem:
    """One fact that speaks for or against a finding."""

    fact: str
    value: FactValue
    unit: str
    source: str
    speaks: str
    """'for' or 'against'."""
    meaning: str = ""
    condition: str = ""
    """The rule's line that this fact decided, as written."""


@dataclass(frozen=True)
class Setting:
    """A setting in the exact spelling of the version seen (several alternatives when the version is unknown)."""

    knob: str
    value: str
    lines: tuple[str, ...]
    """What to copy, one line each: a flag, an environment assignment, a line of code."""
    note: str = ""
    """Which version each line is for, when there are several."""
    systems: tuple[str, ...] = ()
    """Of lines that differ by what starts the program: whose each is, by its name; else empty."""


@dataclass(frozen=True)
class Remedy:
    """One change, with what it frees in this incident. None where it cannot be computed."""

    id: str
    do: str
    set: Setting | None
    frees_bytes: int | None
    enough: bool | None
    cost: str
    source: str
    check_first: tuple[str, ...] = ()
    """What the input does not show and the remedy depends on, in words: `torch's version`."""
    effect: Effect = Effect.FREES
    """What the change does with these bytes: not every change gives back what is held."""
    needed_bytes: int | None = None
    """Where what it frees is not known: the least that it must free to be enough."""
    simulated: str | None = None
    """What became of the failing request with this setting, in a model of the allocator; a sentence."""
    depends_on: tuple[str, ...] = ()
    """Where what it frees is not known: what it depends on that the input does not show, in words."""
    command: str | None = None
    """The command of the input with this setting changed in it; None where it is unknown, or no line of it changes."""


@dataclass(frozen=True)
class NotRemedy:
    """What people try that cannot help here."""

    what: str
    why: str


@dataclass(frozen=True)
class ToConfirm:
    """Evidence that would settle the finding, and the command that gets it."""

    what: str
    command: str


@dataclass(frozen=True)
class Finding:
    """A rule that matched."""

    rule: str
    cause: str
    family: str
    title: str
    confidence: Confidence
    scope: Mapping[str, str]
    """{'device': 'cuda:0'} and the like; empty for the whole incident."""
    explain: str
    owner: str | None = None
    evidence: tuple[EvidenceItem, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    not_remedies: tuple[NotRemedy, ...] = ()
    to_confirm: tuple[ToConfirm, ...] = ()
    explains_bytes: int | None = None
    degraded: bool = False
    """The program goes on, slower or after recovering: the verdict is 'degraded', not 'out-of-memory'."""
    by_precedent: bool = False
    """The input leaves the rule open; it is told because reports like this one often had its cause."""


@dataclass(frozen=True)
class BudgetPart:
    """A part of a device's or the host's memory."""

    name: str
    bytes: int
    how_known: str
    """'measured', 'computed', 'printed by the program', 'assumed' …"""


@dataclass(frozen=True)
class Budget:
    """Where the memory was at the moment of failure. parts + unattributed_bytes == total_bytes exactly."""

    where: str
    """'cuda:0', 'host', 'cgroup', 'process limit' …"""
    total_bytes: int
    parts: tuple[BudgetPart, ...]
    unattributed_bytes: int
    request_bytes: int | None = None
    """The request that did not fit; not a part of the total."""
    moment: str = ""
    """Which failure it shows, where that is not the one that the report is about; empty otherwise."""


@dataclass(frozen=True)
class Explanation:
    """Why an incident came, by what the input tells of it alone: the first finding about it."""

    rule: str
    cause: str
    title: str
    confidence: Confidence


@dataclass(frozen=True)
class Incident:
    """One failure the input holds. The report is about the first (latest)."""

    when_seconds: float | None
    where: str
    cause: str
    """In plain words of the input ('CUDA out of memory', 'killed by the kernel'), not a diagnosis."""
    source: str
    requested_bytes: int | None = None
    is_memory: bool = True
    """False for an end that proves nothing by itself: a signal, exit 137."""
    then: str = ""
    """What came of it, where the input shows that something went on: a phrase."""
    verdict: Verdict | None = None
    """Of this failure alone; None where it was not looked at by itself."""
    explanation: Explanation | None = None


@dataclass(frozen=True)
class Missing:
    """Evidence that was not there."""

    what: str
    why: str
    how_to_get_it: str
    """A sentence with its commands in backticks: only these are to be copied."""


@dataclass(frozen=True)
class Misuse:
    """Something written in a launch line, the environment or code that does not do what it says."""

    what: str
    """As written: `--kv-cache-dtype int8`."""
    outcome: str
    """'refused' (the program ends with it), 'ignored' (nothing reads it) or 'unsafe' (it does something else)."""
    why: str
    instead: str
    """How to say it right, in words; empty where that is not known."""
    lines: tuple[str, ...]
    """What to copy instead."""
    where: str
    in_some_versions: bool = False
    """So it is in some versions only, and which one runs is not known; `why` begins with them."""


@dataclass(frozen=True)
class Comparison:
    """A size that an engine reckoned with, beside what was seen of it."""

    what: str
    reckoned_bytes: int
    seen_bytes: int
    how_reckoned: str
    how_seen: str


@dataclass(frozen=True)
class InputRecord:
    """What became of one input."""

    path: str
    kind: str
    """'pytorch-snapshot', 'log', 'document' (about failures), 'nvidia-smi', 'bundle', 'unknown' …"""
    status: str
    """'read', 'partly' or 'refused'."""
    why: str = ""


@dataclass(frozen=True)
class Series:
    """A curve over the run. `times_seconds` is Unix time, or seconds since the first point where `relative`."""

    where: str
    """'cuda:0', 'host' …"""
    name: str
    """'allocated', 'reserved', 'rss', …"""
    times_seconds: tuple[float, ...]
    values_bytes: tuple[int, ...]
    how_sampled: str
    """'every 0.50 s by the sampler', 'allocator events' …"""
    limit_bytes: int | None = None
    relative: bool = False


@dataclass(frozen=True)
class CoursePart:
    """What one kind of memory came to at each time of a course."""

    name: str
    values_bytes: tuple[int, ...]
    how_known: str


@dataclass(frozen=True)
class Course:
    """Where the memory of one place was over the run. At each time all that was seen adds up to the total."""

    where: str
    """'cuda:0', 'host' …"""
    times_seconds: tuple[float, ...]
    """Unix time, in order."""
    total_bytes: int
    parts: tuple[CoursePart, ...]
    how_sampled: str
    unseen: str = ""
    """What the rest of the total is, of which nobody looked how much was in use; empty: the parts are all of it."""
    total_known: bool = True
    """Whether the total is the place's size; else it is the most that was seen."""


class MomentKind(str, Enum):
    """What a moment of the timeline is."""

    PHASE = "phase"
    FAILURE = "failure"
    RETRY = "retry"
    RECOVERED = "recovered"
    KILL = "kill"


@dataclass(frozen=True)
class Moment:
    """Something that happened at a known time (Unix)."""

    when_seconds: float
    where: str | None
    """None: it concerns every place."""
    kind: MomentKind
    what: str
    source: str


@dataclass(frozen=True)
class DeviceLook:
    """The last look at a device before the failure that told who is on it, else the last look."""

    where: str
    reading: DeviceReading


@dataclass(frozen=True)
class Excerpt:
    """Lines of an input around something that matters."""

    path: str
    first_line: int
    lines: tuple[str, ...]
    marked: tuple[int, ...] = ()
    """Line numbers that are evidence."""


@dataclass(frozen=True)
class HoldingPart:
    """A named part of what one owner holds: a module's submodule."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Holding:
    """Who held memory: an owner in the tree of 'who held what', which is place, category, owner, part."""

    where: str
    owner: str
    bytes: int
    count: int
    how_known: str
    category: str = ""
    """The part of the place's budget that it belongs to; empty where that is not known."""
    parts: tuple[HoldingPart, ...] = ()
    """The largest, not necessarily all."""
    known_by: KnownBy = KnownBy.NOT_KNOWN
    """What tells the category."""


@dataclass(frozen=True)
class Environment:
    """What is known of the run."""

    command: str | None = None
    working_directory: str | None = None
    started_seconds: float | None = None
    ended_seconds: float | None = None
    ended_how: str | None = None
    """'exit status 1', 'killed by SIGKILL' …"""
    versions: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Diagnosis:
    """Everything a report shows. Renderers read this and nothing else."""

    verdict: Verdict
    summary: str
    """Two sentences."""
    fingerprint: str
    findings: tuple[Finding, ...]
    budgets: tuple[Budget, ...]
    incidents: tuple[Incident, ...]
    missing: tuple[Missing, ...]
    facts: FactSet
    inputs: tuple[InputRecord, ...]
    environment: Environment = Environment()
    series: tuple[Series, ...] = ()
    courses: tuple[Course, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    holdings: tuple[Holding, ...] = ()
    misuses: tuple[Misuse, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    estimated: Estimated | None = None
    failed_requests: tuple[FailedRequest, ...] = ()
    windows: tuple[Window, ...] = ()
    stack_trees: tuple[StackTree, ...] = ()
    moments: tuple[Moment, ...] = ()
    devices: tuple[DeviceLook, ...] = ()
    why: str = ""
    """The summary's sentence on the cause, which a report that shows the cause by itself need not repeat."""
    notes: tuple[str, ...] = ()
    """Things a reader must know that are neither missing nor evidence (a rule file that could not be loaded …)."""
    made_seconds: float = 0.0

    @property
    def nothing_read(self) -> bool:
        """There are inputs, and none of them could be read."""
        return nothing_read(self.inputs)


def nothing_read(inputs: Iterable[InputRecord]) -> bool:
    """There are inputs, and none of them could be read."""
    return {record.status for record in inputs} == {"refused"}
