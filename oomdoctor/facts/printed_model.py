"""The model that a log alone tells: llama.cpp and Ollama print a file's metadata and what its tensors take."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputRefused
from ..estimate.dtypes import element_type
from ..estimate.gguf import GgufFile, Value
from ..estimate.gguf_config import architecture_of_gguf
from ..estimate.model_input import Model
from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet

_NO_LANGUAGE = ("clip", "mmproj")
PRINTED = "printed as it was loaded"


def printed_model(evidence: Evidence, facts: FactSet) -> Model | None:
    """None where no model was printed, several were, or what was printed is cut where it counts."""
    files: list[dict[str, LogEvent]] = []
    for event in evidence.of_kind(EventKind.MODEL_METADATA):
        if event.size("number") == 0 or not files:
            files.append({})
        key = event.word("key")
        if key is not None:
            files[-1][key] = event
    told = {
        repr(one): one for one in map(_metadata, files) if one.metadata.get("general.architecture") not in _NO_LANGUAGE
    }
    weights = facts.size("engine.weights_bytes")
    if len(told) != 1 or weights is None:
        return None
    ((_, file),) = told.items()
    try:
        architecture = architecture_of_gguf(file, "the log")
    except InputRefused:
        return None
    return Model(Path("the log"), architecture, element_type("float16"), weights, PRINTED, None, True, "measured")


def _metadata(events: dict[str, LogEvent]) -> GgufFile:
    """A list that was cut has no items: what needs them refuses it."""
    metadata: dict[str, Value] = {}
    lengths: dict[str, int] = {}
    for key, event in events.items():
        value, length = event.fields.get("value"), event.size("length")
        if length is not None:
            lengths[key] = length
        if event.fields.get("cut"):
            metadata[key] = ()
        elif isinstance(value, int | str):
            metadata[key] = value
        elif isinstance(value, tuple):
            metadata[key] = tuple(each for each in value if isinstance(each, int))
    return GgufFile(metadata, lengths, ())
