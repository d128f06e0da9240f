"""Who held a device's memory by the census, as rows that add up to what was live."""

from __future__ import annotations

from dataclasses import replace

from ..language import N_
from ..model.diagnosis import Holding, HoldingPart
from ..model.evidence import Evidence
from ..model.run import CensusGroup
from ..model.source import KnownBy
from .census import speaking_censuses, words
from .device_records import snapshot_of
from .live_parts import part_of
from .unheld import read_unheld

_MOST_OWNERS = 20


def census_holdings(evidence: Evidence) -> dict[str, tuple[Holding, ...]]:
    """For each device with a census: its owners, then the stacks of what nobody in Python holds; they add up."""
    found = {}
    for member, device, record, census in speaking_censuses(evidence):
        how = (
            N_("census by the probe")
            if census.complete
            else N_("census by the probe, cut short ({stopped})").format(stopped=census.stopped)
        )
        groups = sorted((g for g in census.groups if g.device == device.device), key=lambda g: -g.bytes)
        rows = [_row(member, group, how) for group in groups[:_MOST_OWNERS]]
        small: dict[str, list[CensusGroup]] = {}
        for group in groups[_MOST_OWNERS:]:
            small.setdefault(part_of(group), []).append(group)
        for part, others in small.items():
            size, count = sum(group.bytes for group in others), sum(group.count for group in others)
            rows.append(
                Holding(
                    member,
                    N_("{others} smaller owners").format(others=len(others)),
                    size,
                    count,
                    how,
                    part,
                    known_by=KnownBy.CENSUS,
                )
            )
        for blocks in read_unheld(device, snapshot_of(evidence, record)):
            row = Holding(member, blocks.owner, blocks.bytes, blocks.count, blocks.how, blocks.part)
            rows.append(replace(row, known_by=blocks.known_by))
        if rows:
            found[member] = tuple(rows)
    return found


def _row(member: str, group: CensusGroup, how: str) -> Holding:
    parts = tuple(HoldingPart(name, size) for name, size in group.parts)
    return Holding(member, words(group), group.bytes, group.count, how, part_of(group), parts, KnownBy.CENSUS)
