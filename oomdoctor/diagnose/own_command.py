"""Lines to copy hold the command that ran, where it is known and may stand there, instead of a word for it."""

from __future__ import annotations

from dataclasses import replace

from ..language import _
from ..model.diagnosis import Diagnosis, Finding
from ..model.run_again import YOUR_COMMAND, to_be_watched
from ..model.texts import map_texts


def with_own_command(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with its command in the lines to copy of remedies, of what would confirm and of what is missing."""
    command = to_be_watched(diagnosis.environment.command or "")
    if command is None:
        return diagnosis

    def filled(text: str) -> str:
        for word in (YOUR_COMMAND, _(YOUR_COMMAND)):
            text = text.replace(word, command)
        return text

    def of_finding(finding: Finding) -> Finding:
        return replace(
            finding,
            remedies=map_texts(finding.remedies, filled),
            to_confirm=map_texts(finding.to_confirm, filled),
        )

    missing = tuple(replace(gap, how_to_get_it=filled(gap.how_to_get_it)) for gap in diagnosis.missing)
    return replace(diagnosis, findings=tuple(map(of_finding, diagnosis.findings)), missing=missing)
