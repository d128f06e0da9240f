"""What tables of devices in the input can show and what they cannot, in sentences for the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ..facts.deriver import device_member
from ..facts.device_course import is_dated
from ..facts.devices import readings_by_device
from ..language import _
from ..model.devices import DeviceReading
from ..model.diagnosis import Missing
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.units import MIB, format_bytes, format_seconds

_MOST_DEVICES = 4
"""Of which a sentence each is written; what is alike is written once."""
_WORTH_NAMING = 512 * MIB
_RATIO_WORTH_NAMING = 0.01


def notes_on_looks(evidence: Evidence, facts: FactSet) -> tuple[str, ...]:
    """One still shows a moment, a loop a course; bytes that no listed process holds are somebody's all the same."""
    told = _told(evidence)
    stills = [member for member, readings in told.items() if len(readings) == 1]
    notes = []
    if stills:
        notes.append(
            _(
                "{listed}: one still. It shows what was in use at that moment. It cannot show whether "
                "that grew, how high it had been, or how much of what a process has reserved is live."
            ).format(listed=_listed(stills))
        )
    courses = [(_course(member, readings, facts), member) for member, readings in told.items() if len(readings) > 1]
    courses.sort(key=lambda one: one[0])
    alike = [(said, [member for _, member in group]) for said, group in groupby(courses, key=lambda one: one[0])]
    notes += [
        _("{devices}: {said}").format(devices=_listed(members), said=said) for said, members in alike[:_MOST_DEVICES]
    ]
    notes += list(_unlisted(told, facts))[:_MOST_DEVICES]
    return tuple(notes)


def missing_course(evidence: Evidence) -> Iterator[Missing]:
    """How to get a series, where the input has stills only."""
    told = _told(evidence)
    if told and not evidence.runs and not evidence.snapshots and all(len(one) == 1 for one in told.values()):
        yield Missing(
            _("how the memory in use on the device went over time"),
            _("the input shows each device at one moment only, which proves nothing about growth"),
            _(
                "`nvidia-smi --query-gpu=timestamp,index,memory.used,memory.total --format=csv -l 5 > devices.csv`, "
                "while the command runs"
            ),
        )


def _told(evidence: Evidence) -> dict[str, list[DeviceReading]]:
    """By device, the readings of tables that show memory in use; where none does, those that list processes."""
    if not evidence.devices:
        return {}
    printed = {id(reading.source) for reading in evidence.devices}
    told: dict[str, list[DeviceReading]] = {}
    for index, readings in readings_by_device(evidence).items():
        mine = [one for one in readings if id(one.source) in printed]
        found = [one for one in mine if one.used_bytes is not None] or [one for one in mine if one.processes]
        if found:
            told[device_member(index)] = found
    return told


def _course(member: str, readings: Sequence[DeviceReading], facts: FactSet) -> str:
    sizes = [reading.used_bytes for reading in readings if reading.used_bytes is not None]
    process, of_process = (facts.value(f"device.rise_process{end}", member) for end in ("", "_bytes"))
    seconds = facts.value("device.watched_seconds", member)
    number = f"{len(readings):,}"
    over = _("{number} readings").format(number=number)
    if is_dated(readings) and isinstance(seconds, (int, float)):
        over = _("{number} readings in {time}").format(number=number, time=format_seconds(float(seconds)))
    if facts.value("device.rise_steady", member) is True:
        gained = facts.value("device.rise_bytes", member)
        rose = _("memory in use rose steadily over {readings}.").format(readings=over)
        if isinstance(gained, int):
            said = _("memory in use rose steadily by {size} over {readings}.")
            rose = said.format(size=format_bytes(gained), readings=over)
        if isinstance(of_process, int):
            rose += " " + _("{process} gained {size} of it.").format(process=process, size=format_bytes(of_process))
        return f"{rose} " + _(
            "Seen from outside, a rise is one of reserved segments: whether tensors are kept, the allocator caches more"
            " or a library grows, torch.cuda.memory_allocated() beside memory_reserved() tells."
        )
    if facts.value("device.level", member) is True:
        return _(
            "memory in use stood level at {size} over {readings}. A pool set aside at start or a kept cache looks so:"
            " it is no sign of a leak, and does not show what happens inside."
        ).format(size=format_bytes(sizes[-1]), readings=over)
    if not sizes and isinstance(of_process, int):
        return _("only its processes were listed, over {readings}: {process} rose steadily by {size}.").format(
            readings=over, process=process, size=format_bytes(of_process)
        )
    if not sizes:
        return _("only its processes were listed, over {readings}.").format(readings=over)
    low, high = format_bytes(min(sizes)), format_bytes(max(sizes))
    between = low if low == high else _("between {low} and {high}").format(low=low, high=high)
    if facts.value("device.level", member) is None:
        said = _("memory in use was {level} over {readings}, too few to tell a rise from a step.")
    else:
        said = _("memory in use was {level} over {readings}, neither level nor rising steadily.")
    return said.format(level=between, readings=over)


def _unlisted(told: dict[str, list[DeviceReading]], facts: FactSet) -> Iterator[str]:
    for member in told:
        unlisted, used = facts.value("device.unlisted_bytes", member), facts.value("device.used_bytes", member)
        if not isinstance(unlisted, int) or not isinstance(used, int):
            continue
        if unlisted >= max(_WORTH_NAMING, _RATIO_WORTH_NAMING * used):
            yield (
                _(
                    "{member}: of {used} in use the listed processes hold {value}. The other {unlisted} are "
                    "the driver's, or of processes that are not listed (another container, another user, one "
                    "that has ended), their contexts and libraries."
                ).format(
                    member=member,
                    used=format_bytes(used),
                    value=format_bytes(used - unlisted),
                    unlisted=format_bytes(unlisted),
                )
            )


def _listed(members: Sequence[str]) -> str:
    shown = _(", ").join(members[:8])
    if len(members) <= 8:
        return shown
    return _("{devices} and {number} more").format(devices=shown, number=len(members) - 8)
