"""engine.lora*: adapters that a serving engine makes room for, by its start line or its launch line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..language import N_
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source
from ..readers.log.launch import launch_options, launch_program

_SERVES = {"vllm", "sglang", "tgi"}
_SWITCHES = {"enable-lora", "lora-modules", "lora-paths", "lora-adapters"}
_OFF = {"", "none", "false", "[]", "{}", "0"}
_NUMBERS = {
    "max-loras": "engine.lora_slots",
    "max-loras-per-batch": "engine.lora_slots",
    "max-lora-rank": "engine.lora_rank",
}


def derive(evidence: Evidence, facts: FactSet) -> None:
    """The start line last printed, then the launch line: what the engine read counts more than what it was given."""
    for event in reversed(evidence.of_kind(EventKind.ENGINE_START)):
        options = event.fields.get("options")
        pairs = [one for one in options if isinstance(one, tuple)] if isinstance(options, tuple) else []
        _put([(str(one[0]), str(one[1])) for one in pairs if len(one) == 2], event.source, facts)
    if evidence.command and launch_program(evidence.command) in _SERVES:
        # A switch without a value is on.
        given = [(name, "true" if value is None else value) for name, value in launch_options(evidence.command)]
        _put(given, Source(path=N_("command line")), facts)


def _put(options: Iterable[tuple[str, str | None]], source: Source, facts: FactSet) -> None:
    known = {name.replace("_", "-"): (value or "").strip() for name, value in options}
    stated = [known[name].lower() not in _OFF for name in _SWITCHES if name in known]
    if not any(stated):
        return
    facts.put("engine.lora", True, source)
    for name, fact in _NUMBERS.items():
        if re.fullmatch("[0-9]{1,9}", known.get(name, "")):
            facts.put(fact, int(known[name]), source)
