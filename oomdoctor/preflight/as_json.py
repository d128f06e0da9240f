"""The outlook for programs: one object of the schema `oomdoctor.check/1`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..report.json_text import json_text
from .finding import Finding, Level
from .look import Outlook

SCHEMA = "oomdoctor.check/1"


def as_json(outlook: Outlook) -> str:
    """Sizes are integers in bytes; what was not seen is null or stands under that level, never 0."""
    setup = outlook.setup
    python = setup.interpreter
    told: dict[str, Any] = {
        "stands_in_the_way": outlook.stands_in_the_way,
        "counts": {level.value: len(outlook.of(level)) for level in Level},
        "command": list(setup.command.given),
        "engine": setup.command.engine,
        "python": {
            "path": str(python.path) if python.path is not None else None,
            "how": python.how,
            "versions": dict(python.versions),
        },
        "driver": setup.cards.driver,
        "cards": [
            {
                "index": card.index,
                "name": card.name,
                "uuid": card.uuid,
                "total_bytes": card.total_bytes,
                "used_bytes": card.used_bytes,
                "free_bytes": card.free_bytes,
            }
            for card in setup.cards.readings
        ],
        "findings": [_finding(each) for each in outlook.findings],
        "measured": [{**asdict(one), "overhead_bytes": one.bytes} for one in outlook.measured],
        "not_measured": [asdict(one) for one in outlook.not_measured],
    }
    return json_text(SCHEMA, told)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "level": finding.level.value,
        "seen": finding.seen,
        "why": finding.why or None,
        "do": finding.do or None,
        "lines": list(finding.lines),
        "figures": dict(finding.figures),
    }
