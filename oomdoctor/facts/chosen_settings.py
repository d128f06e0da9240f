"""chosen.*: what is set now of the things that remedies change, by the engine's own word or the launch line's."""

from __future__ import annotations

from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source
from .asked_settings import options_of
from .engine import share_of

_SHARES = {"engine.utilization": ("gpu-memory-utilization", "mem-fraction-static")}
_COUNTS = {
    "chosen.sequences": ("max-num-seqs", "max-running-requests"),
    "chosen.step_tokens": ("max-num-batched-tokens", "chunked-prefill-size"),
    "chosen.cards": ("tensor-parallel-size", "tp-size", "tp", "num-shard"),
    "chosen.graph_batch": ("cuda-graph-max-bs", "cuda-graph-max-bs-decode"),
    "chosen.draft_tokens": ("speculative-num-draft-tokens",),
    "chosen.adapters": ("max-loras", "max-loras-per-batch"),
    "chosen.context": ("ctx-size", "max-model-len", "context-length", "n-ctx"),
    "chosen.accumulation_steps": ("gradient-accumulation-steps",),
    "chosen.evaluation_batch": ("per-device-eval-batch-size",),
    "chosen.loader_workers": ("dataloader-num-workers", "num-workers"),
}
_MOST = 1 << 30


def derive(evidence: Evidence, facts: FactSet) -> None:
    """After the engine's own derivers: what they read with its source stands before this."""
    options = options_of(evidence)
    starts = evidence.of_kind(EventKind.ENGINE_START)
    source = starts[-1].source if starts else Source(path="command line")
    for fact, names in _SHARES.items():
        facts.put(fact, next((share for name in names if (share := share_of(options.get(name) or ""))), None), source)
    for fact, options_of_count in _COUNTS.items():
        given = (options.get(name) or "" for name in options_of_count)
        counts = (int(text) for text in given if text.isascii() and text.isdecimal() and 0 < int(text) < _MOST)
        facts.put(fact, next(counts, None), source)
