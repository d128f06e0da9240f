"""Would the request that failed have been served under another setting, or on another card?

The model answers only for a run that it reproduces: under the recorded settings it must fail at the recorded request,
with the segments that torch had. Where the recording begins late, how the memory that stood then would lie under
another setting cannot be known: it is laid out in two ways, as it stood and anew, and what comes out is told as that,
unless too much was live for any way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import product

from ...language import _, ngettext
from ...model.snapshot import IntColumn, Snapshot, SnapshotOom
from ...model.units import format_bytes
from .device import Device
from .recording import Recording, read_recording
from .rounding import SMALL_BYTES, block_size, segment_size
from .run import DoesNotFit, Outcome, Tell, find_order, run
from .settings import AllocatorSettings, recorded_settings

MODELLED_BACKENDS = ("cuda", "hip", "cuda or hip", "unknown")


class Verdict(str, Enum):
    """What becomes of the request."""

    SERVED = "served"
    FAILS = "fails"
    FAILS_EARLIER = "fails-earlier"
    """A request before it is not served."""
    FAILS_BY_THEN = "fails-by-then"
    """The run fails at the request or at one before it; at which, is decided by what happened before the recording."""
    DEPENDS = "depends"
    """Cannot be told: served or not, by how what stood when the recording began is laid out."""
    SERVED_AS_TRIED = "served-as-tried"
    """Cannot be told: served in both ways in which that was laid out, of many."""
    FAILS_AS_TRIED = "fails-as-tried"
    """Cannot be told: not served in either."""
    SERVED_BEFORE_OTHERS = "served-before-others"
    """Cannot be told: served if the context and all others on the card take no more than what is to spare."""

    @property
    def is_certain(self) -> bool:
        """Whether it does not hang on what was not recorded, as far as the model goes."""
        return self in (Verdict.SERVED, Verdict.FAILS, Verdict.FAILS_EARLIER, Verdict.FAILS_BY_THEN)


@dataclass(frozen=True)
class Card:
    """The device, as far as it is known."""

    total_bytes: int | None = None
    allowed_bytes: int | None = None
    """What the process may reserve of it, where that is not all (a memory fraction)."""


@dataclass(frozen=True)
class Trust:
    """How the model does on the run as it was recorded."""

    reproduced: bool
    why_not: str = ""
    """A sentence, where it is not reproduced."""
    requests: int = 0
    placed_alike: int = 0
    """Requests that the model serves at the very address at which torch did."""
    notes: tuple[str, ...] = ()
    """What lowers the confidence, in sentences."""

    @property
    def exact(self) -> bool:
        """Every request came to stand where torch put it."""
        return self.reproduced and self.placed_alike == self.requests


@dataclass(frozen=True)
class Answer:
    """What the model says of one question."""

    verdict: Verdict
    spare_bytes: int | None = None
    """Left on the device after the request, once the allocator has given back all it can."""
    missing_bytes: int | None = None
    """What the driver lacks for the request that fails."""
    failed_request_bytes: int | None = None
    requests_earlier: int = 0
    """How many requests before the recorded failure it fails."""
    served_before: int = 0
    """Requests that failed and were survived when it was recorded, and are served."""
    served_anew: bool = True
    """Where it depends: it is served if what stood at the beginning is laid out anew; else as it stood."""
    before_others: bool = False
    """What the context and other processes take of the card asked about is not known, and not taken off: that much less
    is to spare, or that much more is missing."""

    @property
    def is_certain(self) -> bool:
        """Whether it does not hang on what is not known, as far as the model goes."""
        return self.verdict.is_certain and not (self.before_others and self.spare_bytes is not None)


class CannotSimulate(Exception):
    """There is nothing to simulate; says why in a sentence."""


class Simulation:
    """The recorded run of one device, ready for questions."""

    def __init__(
        self,
        snapshot: Snapshot,
        oom: SnapshotOom,
        card: Card,
        free_bytes: int | None = None,
        tell: Tell | None = None,
        freed_bytes: IntColumn | None = None,
    ) -> None:
        """`free_bytes` is what the driver had left, for a snapshot that does not say it. Raises CannotSimulate.

        `freed_bytes`: of each event the size of the block it frees (`Replay.freed_bytes`), so that what stood when the
        recording began has its true size; without it that is reckoned from what was asked for.

        `tell` is told how far each pass over the steps is.
        """
        self._tell = tell
        if snapshot.backend not in MODELLED_BACKENDS:
            raise CannotSimulate(
                _("The model is of torch's CUDA allocator; this snapshot is of {backend}.").format(
                    backend=snapshot.backend
                )
            )
        free = oom.free_bytes if oom.free_bytes is not None else free_bytes
        if free is None:
            raise CannotSimulate(_("Neither the snapshot nor anything else says what was free on the device."))
        known = recorded_settings(snapshot.settings)
        expandable = bool(snapshot.segments.is_expandable[snapshot.segments.device == oom.device].any())
        self.settings = known or AllocatorSettings(expandable_segments=expandable)
        fraction = self.settings.memory_fraction
        if card.allowed_bytes is None and fraction is not None and card.total_bytes is not None:
            card = replace(card, allowed_bytes=round(fraction * card.total_bytes))
        self.card, self.oom = card, oom
        read = partial(
            read_recording,
            *(snapshot, oom, free, self.settings),
            total_bytes=card.total_bytes,
            allowed_bytes=card.allowed_bytes,
            freed_bytes=freed_bytes,
        )
        recording = read()
        if recording is None:
            raise CannotSimulate(_("The snapshot has no events of that device."))
        self.recording = recording
        self.settings_known = known is not None
        self.oldest_first = True
        self.ages: tuple[int, ...] = ()
        self.recorded: Outcome | None = None
        self.trust = self._check(read)

    def ask(self, settings: AllocatorSettings, total_bytes: int | None = None) -> Answer:
        """The answer under these settings, on a card of that size (None: the same one).

        What the context and other processes held stays as it was; where the recorded card's size is not known, neither
        is that, and the answer says so. Raises CannotSimulate where the recorded run is not reproduced.
        """
        if not self.trust.reproduced:
            raise CannotSimulate(self.trust.why_not)
        found = self._asked(settings, self._card(settings, total_bytes))
        if total_bytes is None or self.card.total_bytes is not None:
            return found
        verdict = Verdict.SERVED_BEFORE_OTHERS if found.verdict is Verdict.SERVED else found.verdict
        return replace(found, verdict=verdict, before_others=True)

    def _asked(self, settings: AllocatorSettings, card: Card) -> Answer:
        if settings == self.settings and card == self.card:
            return self._answer(self.recorded)
        if not self.recording.begins_empty and self._never_fits(card):
            return Answer(Verdict.FAILS_BY_THEN)
        stands = self._outcome(settings, card, packed=False)
        if self.recording.begins_empty:
            return self._answer(stands)
        anew = self._outcome(settings, card, packed=True)
        if _served(stands) != _served(anew):
            better = self._answer(stands if _served(stands) else anew)
            return replace(better, verdict=Verdict.DEPENDS, served_anew=_served(anew))
        if stands is None or anew is None or not stands.served:
            return Answer(Verdict.FAILS_AS_TRIED)
        worse = min(stands, anew, key=lambda outcome: outcome.spare_bytes)
        return replace(self._answer(worse), verdict=Verdict.SERVED_AS_TRIED)

    def _never_fits(self, card: Card) -> bool:
        """Whether what was live at the failure leaves too little for the request, however it lies.

        A block is counted without what may have been too little to be split off.
        """
        end = self.recording.end
        split_bound = self.settings.max_split_bytes
        rest = SMALL_BYTES if split_bound is None else self.settings.max_non_split_rounding_bytes
        live = sum(
            block.size_bytes if block.size_bytes <= SMALL_BYTES else max(block.size_bytes - rest, SMALL_BYTES)
            for block in end.blocks
            if not block.waiting
        )
        room = self.recording.free_bytes + end.reserved_bytes + self._more_room(card)
        if card.allowed_bytes is not None:
            room = min(room, card.allowed_bytes)
        return live + self.oom.requested_bytes > room

    def _more_room(self, card: Card) -> int:
        """What another card has more than the recorded one, or than is known of that: segments and what was free."""
        if card.total_bytes is None:
            return 0
        recorded = self.card.total_bytes
        if recorded is None:
            recorded = self.recording.free_at_start_bytes + self.recording.start.reserved_bytes
        return card.total_bytes - recorded

    def _card(self, settings: AllocatorSettings, total_bytes: int | None) -> Card:
        total = self.card.total_bytes if total_bytes is None else total_bytes
        fraction = settings.memory_fraction
        if fraction is None and self.card.allowed_bytes is not None and self.card.total_bytes:
            fraction = self.card.allowed_bytes / self.card.total_bytes
        if fraction is None or total is None:
            return Card(total, self.card.allowed_bytes)
        return Card(total, None if fraction >= 1 else round(fraction * total))

    def _outcome(self, settings: AllocatorSettings, card: Card, *, packed: bool) -> Outcome | None:
        """None where what stood at the beginning does not fit."""
        free = self.recording.free_at_start_bytes + self._more_room(card)
        device = Device(free, card.total_bytes, card.allowed_bytes)
        try:
            return run(
                self.recording,
                settings,
                device,
                as_recorded=settings == self.settings and not packed,
                packed=packed,
                oldest_first=self.oldest_first,
                ages=self.ages,
                tell=self._tell,
            )
        except DoesNotFit:
            return None

    def _answer(self, outcome: Outcome | None) -> Answer:
        if outcome is None:
            return Answer(Verdict.FAILS_EARLIER, requests_earlier=self.recording.requests)
        if outcome.served:
            return Answer(Verdict.SERVED, spare_bytes=outcome.spare_bytes, served_before=outcome.served_before)
        return Answer(
            Verdict.FAILS_EARLIER if outcome.fails_earlier else Verdict.FAILS,
            missing_bytes=outcome.missing_bytes,
            failed_request_bytes=outcome.failed_request_bytes,
            requests_earlier=outcome.requests_missed,
            served_before=outcome.served_before,
        )

    # --- the run as it was recorded ------------------------------------------------------------------------------

    def _check(self, read: Callable[..., Recording | None]) -> Trust:
        """Try what the recording does not tell, until the run is reproduced; keep what does best."""
        recording = self.recording
        if recording.contradictions:
            contradict = _("1 recorded event contradicts the final state or another.")
            if recording.contradictions > 1:
                said = _("{number} recorded events contradict the final state or one another.")
                contradict = said.format(number=f"{recording.contradictions:,}")
            return Trust(False, contradict)
        if recording.free_at_start_bytes < 0:
            return Trust(False, _("More is said to have been reserved at the beginning than the device had."))
        other = read(waited_for=True) if recording.may_have_waited else None
        readings = [recording, other] if other is not None and other.steps != recording.steps else [recording]
        found: list[tuple[bool, int, Recording, bool, tuple[int, ...], Outcome]] = []
        for oldest_first, reading in product((True, False), readings):
            ages: tuple[int, ...] = ()
            outcome: Outcome | None = None
            if oldest_first and not recording.begins_empty:
                ages, outcome = find_order(reading, self.settings, self._device(), self._tell)
            if outcome is None:
                outcome = run(
                    reading,
                    self.settings,
                    self._device(),
                    as_recorded=True,
                    oldest_first=oldest_first,
                    ages=ages,
                    tell=self._tell,
                )
            alike = not self._why_not(outcome)
            found.append((alike, outcome.placed_alike, reading, oldest_first, ages, outcome))
            if alike and outcome.placed_alike == outcome.requests:
                break
        best_of_all = max(found, key=lambda one: one[:2])
        self.recording, self.oldest_first, self.ages, best = best_of_all[2:]
        self.recorded = best
        why_not = self._why_not(best)
        return Trust(not why_not, why_not, best.requests, best.placed_alike, tuple(self._notes()))

    def _device(self) -> Device:
        """The recorded one, where the recording begins."""
        return Device(self.recording.free_at_start_bytes, self.card.total_bytes, self.card.allowed_bytes)

    def _why_not(self, outcome: Outcome) -> str:
        recording = self.recording
        if outcome.served:
            wanted = segment_size(block_size(recording.oom.requested_bytes, self.settings), self.settings)
            if wanted <= recording.free_bytes:
                return _(
                    "The driver had {free} free, enough for the request: something that is not recorded "
                    "stood in its way, like a memory fraction."
                ).format(free=format_bytes(recording.free_bytes))
            return _("Under the recorded settings the model serves the request that failed.")
        if outcome.fails_earlier:
            said = ngettext(
                "Under the recorded settings the model fails {number} request earlier.",
                "Under the recorded settings the model fails {number} requests earlier.",
                outcome.requests_missed,
            )
            if not recording.begins_empty:
                said = ngettext(
                    "Under the recorded settings the model fails {number} request earlier: how the {size} came to lie"
                    " that stood when the recording began is not known.",
                    "Under the recorded settings the model fails {number} requests earlier: how the {size} came to lie"
                    " that stood when the recording began is not known.",
                    outcome.requests_missed,
                )
            return said.format(number=outcome.requests_missed, size=format_bytes(recording.start.reserved_bytes))
        if _shapes(outcome) != _shapes_of(recording):
            return _("Under the recorded settings the model ends with other segments than torch had.")
        return ""

    def _notes(self) -> list[str]:
        notes, recording = [], self.recording
        if not self.settings_known:
            notes.append(_("The snapshot does not record the allocator's settings; torch's defaults were taken."))
        if not recording.begins_empty:
            said = _(
                "The recording begins when {size} were already reserved; {last} How that would lie under other"
                " settings, or on another card, cannot be known: it is tried as it lay and laid out anew."
            )
            notes.append(said.format(size=format_bytes(recording.start.reserved_bytes), last=_last(recording.requests)))
        if recording.others_moved_bytes:
            notes.append(
                _(
                    "What others hold on the device changed by {others_moved} meanwhile; it was taken to be "
                    "what it was at the failure."
                ).format(others_moved=format_bytes(recording.others_moved_bytes))
            )
        return notes


def _last(requests: int) -> str:
    """What of the requests before the failure the ring still holds."""
    if not requests:
        return _("it holds no request before the one that failed.")
    said = ngettext(
        "it holds only the last request before the one that failed.", "it holds the last {number} requests.", requests
    )
    return said.format(number=f"{requests:,}")


def _served(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.served


def _shapes(outcome: Outcome) -> list[tuple[int, int, int, bool, bool]]:
    return sorted((area.size_bytes, area.stream, area.pool, area.small, area.expandable) for area in outcome.areas)


def _shapes_of(recording: Recording) -> list[tuple[int, int, int, bool, bool]]:
    areas = recording.end.areas
    return sorted((area.size_bytes, area.stream, area.pool, area.small, area.expandable) for area in areas)
