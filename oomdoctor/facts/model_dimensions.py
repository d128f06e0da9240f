"""model.*: the dimensions of the model, where the input tells them and does not contradict itself."""

from __future__ import annotations

from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source

_FIELDS = ("heads", "kv_heads", "head_dimension", "hidden", "layers", "vocabulary")


def derive(evidence: Evidence, facts: FactSet) -> None:
    """A dimension that is told in two sizes is of two models (a draft, a vision tower): then neither is taken."""
    told: dict[str, dict[int, Source]] = {name: {} for name in _FIELDS}
    for event in evidence.of_kind(EventKind.MODEL_DIMENSION):
        for name in _FIELDS:
            size = event.size(name)
            if size is not None:
                told[name].setdefault(size, event.source)
    for run in evidence.runs:
        for record in run.device_ooms:
            for device in record.census.devices if record.census is not None else ():
                for size in device.vocabulary:
                    told["vocabulary"].setdefault(size, Source(path=run.path, record="census"))
    for name, sizes in told.items():
        if len(sizes) == 1:
            ((size, source),) = sizes.items()
            facts.put(f"model.{name}", size, source)
