"""simulated.*: whether the failing request would have been served under other settings of torch's allocator.

Up to 100,000 events are simulated; a longer recording on demand, with `oomdoctor whatif`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..allocator.replay import replay
from ..allocator.simulation.settings import with_setting
from ..allocator.simulation.whatif import Answer, CannotSimulate, Card, Simulation
from ..language import N_
from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.snapshot import Snapshot, SnapshotOom
from ..model.source import Source
from .allocator import latest_oom, shows_failure, speaking_snapshot
from .deriver import device_member
from .device_records import speaking_record
from .one_failure import same_request

MOST_EVENTS = 100_000

Tell = Callable[[str, int, int], None]
"""Is told, now and then, of which input how many steps are simulated, and of how many."""

SETTINGS = (
    ("simulated.expandable", "expandable_segments", "True"),
    ("simulated.max_split", "max_split_size_mb", "512"),
)
"""What is tried of each failure: the facts' common beginning, the option and its value."""


@dataclass(frozen=True)
class Question:
    """A failure that a snapshot shows, and the card it happened on."""

    snapshot: Snapshot
    oom: SnapshotOom
    member: str
    card: Card
    free_bytes: int | None
    told: LogEvent | None = None
    """What a log beside the snapshot tells of instead: another failure, of whose card nothing is taken."""

    def simulation(self, tell: Tell | None = None) -> Simulation:
        """The recorded run, checked. `tell` is told the input, the steps done and all steps. Raises CannotSimulate."""
        told = None if tell is None else partial(tell, self.snapshot.path)
        sizes = replay(self.snapshot, self.oom.device).freed_bytes
        return Simulation(self.snapshot, self.oom, self.card, self.free_bytes, told, sizes)

    @property
    def events(self) -> int:
        """Events up to the failure."""
        return self.oom.event_index + 1


def derive(evidence: Evidence, facts: FactSet, tell: Tell | None = None) -> None:
    """Facts of every device whose failing request a snapshot shows, and whose recording is not too long."""
    for device in sorted({device for snapshot in evidence.snapshots for device in snapshot.devices}):
        question = question_of(evidence, facts, device)
        if question is not None and question.events <= MOST_EVENTS:
            _put(question, facts, tell)


def question_of(evidence: Evidence, facts: FactSet, device: int) -> Question | None:
    """The failure on a device that the facts are about; None where no snapshot shows its request."""
    shown = [snapshot for snapshot in evidence.snapshots if device in snapshot.devices]
    if not shown:
        return None
    record = speaking_record(evidence, device)
    snapshot = speaking_snapshot(evidence.snapshots, device, record)
    oom = latest_oom(snapshot, device)
    if oom is None or (record is not None and not shows_failure(snapshot, oom, record)):
        return None
    member = device_member(device, snapshot.backend)
    told = _another_failure(evidence, oom.requested_bytes, device)
    if told is not None:
        return Question(snapshot, oom, member, Card(None, None), None, told)
    card = Card(facts.size("oom.total_bytes", member), facts.size("oom.allowed_bytes", member))
    return Question(snapshot, oom, member, card, facts.size("oom.free_bytes", member))


def _another_failure(evidence: Evidence, requested: int, device: int) -> LogEvent | None:
    """The last failure that a log tells of, where none is of this request on this device."""
    told = [event for event in evidence.of_kind(EventKind.DEVICE_OOM) if event.size("requested_bytes") is not None]
    own = (e for e in told if e.device in (None, device) and same_request(e.size("requested_bytes"), requested))
    return told[-1] if told and next(own, None) is None else None


def _put(question: Question, facts: FactSet, tell: Tell | None) -> None:
    member = question.member
    source = Source(path=question.snapshot.path, record=N_("{events} events, simulated").format(events=question.events))
    try:
        simulation = question.simulation(tell)
        facts.put("simulated.reproduced", simulation.trust.reproduced, source, member)
        for prefix, option, value in SETTINGS:
            changed = with_setting(simulation.settings, option, value)
            if changed != simulation.settings:
                _put_answer(prefix, simulation.ask(changed), source, member, facts)
    except CannotSimulate:
        return


def _put_answer(prefix: str, answer: Answer, source: Source, member: str, facts: FactSet) -> None:
    facts.put(f"{prefix}_outcome", answer.verdict.value, source, member)
    facts.put(f"{prefix}_spare_bytes", answer.spare_bytes, source, member)
    facts.put(f"{prefix}_missing_bytes", answer.missing_bytes, source, member)
