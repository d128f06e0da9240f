"""What was around the failure: processes on each device, the host with its cgroup and memory pressure. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..language import _
from ..model.devices import DeviceProcess
from ..model.diagnosis import DeviceLook
from ..model.facts import FactSet
from ..model.places import place_in_words
from ..model.printable import one_line
from ..model.units import format_bytes
from .anchors import Anchors
from .host_groups import GROUPS, measure_anchor
from .text import NOT_MEASURED, format_value, source_of

_LINE, _SOURCE = 400, 240
_MOST_PROCESSES = 40


@dataclass(frozen=True)
class ProcessView:
    """A process on a device."""

    pid: str
    name: str
    used: str
    whose: str


@dataclass(frozen=True)
class DeviceView:
    """Who was on one device."""

    where: str
    totals: str
    processes: tuple[ProcessView, ...]
    said: str
    """Instead of processes, where none is listed, or after them, where not all are."""
    source: str


@dataclass(frozen=True)
class Measure:
    """A figure of the host with its source; `value` says so where it was not seen."""

    name: str
    value: str
    seen: bool
    source: str
    anchor: str
    """Where its source stands."""
    name_of_row: str
    """The anchor of the measure itself."""


@dataclass(frozen=True)
class MeasureGroup:
    """Figures of one bound: the machine, the cgroup, the process."""

    title: str
    measures: tuple[Measure, ...]


_ALWAYS = frozenset(
    {
        "host.total_bytes", "host.available_bytes", "host.cgroup_limit_bytes", "host.cgroup_oom_kills",
        "host.system_oom_kills", "host.peak_tree_bytes", "host.process_limit_bytes", "host.pressure_full_ratio",
    }
)  # fmt: skip
"""Figures that are asked for where a failure is looked at: they are said to be missing, not left out."""

_WITHOUT = {
    "host.cgroup_limit_bytes": "host.cgroup_unlimited",
    "host.process_limit_bytes": "host.process_unlimited",
}
"""Limits, and the facts that say that there is none."""


def view_devices(looks: Sequence[DeviceLook]) -> tuple[DeviceView, ...]:
    """Each device with the processes on it, largest first."""
    return tuple(map(_device, looks))


def _device(look: DeviceLook) -> DeviceView:
    reading = look.reading
    listed = sorted(reading.processes or (), key=lambda process: -(process.used_bytes or 0))
    if reading.processes is None:
        said = _("Not seen: no table of processes was read for this device.")
    elif not listed:
        said = _("The table of processes lists none.")
    elif len(listed) > _MOST_PROCESSES:
        said = _("and {number} more").format(number=len(listed) - _MOST_PROCESSES)
    else:
        said = ""
    return DeviceView(
        where=one_line(place_in_words(look.where), 60),
        totals=_totals(reading.name, reading.total_bytes, reading.used_bytes, reading.free_bytes),
        processes=tuple(map(_process, listed[:_MOST_PROCESSES])),
        said=said,
        source=one_line(source_of(str(reading.source)), _SOURCE),
    )


def _totals(name: str | None, total: int | None, used: int | None, free: int | None) -> str:
    parts = [] if name is None else [one_line(name, 80)]
    if total is not None:
        parts.append(_("{size} in all").format(size=format_bytes(total)))
    if used is not None:
        parts.append(_("{size} in use").format(size=format_bytes(used)))
    if free is not None:
        parts.append(_("{size} free").format(size=format_bytes(free)))
    return _(", ").join(parts)


def _process(process: DeviceProcess) -> ProcessView:
    whose = {True: _("this command"), False: _("another program"), None: _("not known")}[process.own]
    return ProcessView(
        pid="" if process.pid is None else str(process.pid),
        name=one_line(process.name, 200) if process.name else _("unnamed"),
        used=_(NOT_MEASURED) if process.used_bytes is None else format_bytes(process.used_bytes),
        whose=whose,
    )


def view_host(facts: FactSet, anchors: Anchors) -> tuple[MeasureGroup, ...]:
    """The host's figures by what bounds them; those that always count are said to be missing where they are."""
    return tuple(
        MeasureGroup(_(title), measures)
        for title, names in GROUPS
        if (measures := tuple(_measures(names, facts, anchors)))
    )


def _measures(names: Sequence[str], facts: FactSet, anchors: Anchors) -> Iterator[Measure]:
    for name in names:
        spec, key = facts.specs[name], name
        if name not in facts and facts.get(_WITHOUT.get(name, "")) is not None:
            key = _WITHOUT[name]
        meaning, fact = one_line(_(spec.meaning), _LINE), facts.get(key)
        if fact is not None:
            source = str(fact.source)
            anchor = anchors.of_line(source) or anchors.of_fact(key, ())
            value = format_value(fact.value, spec.type.value) if key == name else _("none")
            yield Measure(meaning, value, True, one_line(source_of(source), _SOURCE), anchor, measure_anchor(key))
        elif name in _ALWAYS:
            yield Measure(meaning, _("not seen"), False, "", "", measure_anchor(name))
