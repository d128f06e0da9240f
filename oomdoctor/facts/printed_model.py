"""The model that a log alone tells: llama.cpp prints a file's metadata and sizes, transformers a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import InputRefused
from ..estimate.dtypes import element_type
from ..estimate.gguf import GgufFile, Value
from ..estimate.gguf_config import architecture_of_gguf
from ..estimate.model_input import Model, model_of_config
from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet

_NO_LANGUAGE = ("clip", "mmproj")
_OF_NO_MODEL = ("_name_or_path", "transformers_version", "architectures", "use_cache", "torch_dtype", "dtype")
"""Fields in which two prints of one model differ; what it is loaded in is told by the run."""
LOG, PRINTED = Path("the log"), "printed as it was loaded"


def printed_model(evidence: Evidence, facts: FactSet) -> Model | None:
    """None where no model was printed, several were, or what was printed is cut where it counts."""
    try:
        return _of_metadata(evidence, facts) or _of_config(evidence)
    except InputRefused:
        return None


def _of_metadata(evidence: Evidence, facts: FactSet) -> Model | None:
    files: list[dict[str, LogEvent]] = []
    for event in evidence.of_kind(EventKind.MODEL_METADATA):
        if event.size("number") == 0 or not files:
            files.append({})
        key = event.word("key")
        if key is not None:
            files[-1][key] = event
    found = [_metadata(one) for one in files]
    told = {repr(one): one for one in found if one.metadata.get("general.architecture") not in _NO_LANGUAGE}
    weights = facts.size("engine.weights_bytes")
    if len(told) != 1 or weights is None:
        return None
    ((_, file),) = told.items()
    architecture = architecture_of_gguf(file, str(LOG))
    return Model(LOG, architecture, element_type("float16"), weights, PRINTED, None, True, "measured")


def _of_config(evidence: Evidence) -> Model | None:
    """Of a configuration that transformers printed, however often."""
    told: dict[str, dict[str, Any]] = {}
    for event in evidence.of_kind(EventKind.MODEL_CONFIG):
        config = json.loads(event.word("json") or "{}")
        own = {name: value for name, value in config.items() if name not in _OF_NO_MODEL}
        told[json.dumps(own, sort_keys=True)] = own
    return model_of_config(next(iter(told.values())), LOG) if len(told) == 1 else None


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
