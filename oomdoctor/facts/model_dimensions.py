"""model.*: the dimensions of the model, where the input tells them and does not contradict itself."""

from __future__ import annotations

import re

from ..estimate.architecture import Attention
from ..estimate.model_input import Model
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source
from ..readers.log.launch import launch_options
from .frames import frames_of

_FIELDS = (
    "heads", "kv_heads", "head_dimension", "hidden", "layers", "vocabulary", "intermediate", "experts", "expert_width",
    "parameters", "trainable", "reduce_bucket", "gather_bucket",
)  # fmt: skip


def put_model(model: Model, facts: FactSet) -> None:
    """Those of the model that ran, as its own files tell them; layers of different kinds have no one size."""
    architecture, source = model.architecture, Source(path=str(model.path))
    caches = [cache for cache, _ in architecture.alike if isinstance(cache, Attention)]
    sizes = {
        "heads": architecture.heads,
        "kv_heads": _the_one({cache.kv_heads for cache in caches}),
        "head_dimension": _the_one({cache.key_width for cache in caches}),
        "hidden": architecture.hidden,
        "layers": architecture.layers,
        "vocabulary": architecture.vocabulary,
    }
    for name, size in sizes.items():
        facts.put(f"model.{name}", size, source)


def _the_one(sizes: set[int]) -> int | None:
    return sizes.pop() if len(sizes) == 1 else None


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
    _put_image(evidence, facts)
    for name, sizes in told.items():
        if len(sizes) == 1:
            ((size, source),) = sizes.items()
            facts.put(f"model.{name}", size, source)


_PIXELS = re.compile(r"(?<![\w.])(?P<side>height|width) ?= ?(?P<pixels>[0-9]{3,5})(?![\w.])")


def _put_image(evidence: Evidence, facts: FactSet) -> None:
    """From the call that the stack shows, or from the launch line."""
    codes = [
        (frame.code, event.source) for event in evidence.of_kind(EventKind.EXCEPTION) for frame in frames_of(event)
    ]
    for code, source in reversed(codes):
        for found in _PIXELS.finditer(code):
            facts.put(f"activity.image_{found['side']}", int(found["pixels"]), source)
    for option, given in launch_options(evidence.command) if evidence.command else ():
        if option in ("height", "width") and given is not None and given.isdecimal() and 99 < int(given) < 1 << 17:
            facts.put(f"activity.image_{option}", int(given), Source(path="command line"))
