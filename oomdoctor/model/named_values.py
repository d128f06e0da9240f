"""Values of named sets as people read them: names of programs as they are, words in the language in use."""

from __future__ import annotations

from collections.abc import Iterable

from ..language import pgettext
from .facts import FactSpec

CONTEXT = "value"
"""Of these words in the catalogue: `global` and `cached` mean something else elsewhere."""
_PROPER = frozenset(
    {
        *("cuda", "hip", "xpu", "mps", "npu", "mlu", "neuron", "metal", "tensorflow", "jax", "cudaMallocAsync"),
        *("vllm", "sglang", "tgi", "llama.cpp", "ollama", "lmdeploy", "tensorrt-llm", "deepspeed", "mlc", "mlx"),
        *("transformers", "linux", "windows", "macos", "wsl", "torch-cpu", "numpy", "python", "malloc", "fork"),
        *("java", "v8", "metaspace", "spark", "memcg", "systemd", "slurm", "kubernetes", "docker", "ray"),
        *("torchrun", "accelerate"),
    }
)
"""Names of programs, calls and platforms, which no language translates."""

_PHASES = ("load", "forward", "backward", "optimizer", "prefill", "decode", "generate")
"""How `PhaseSpan` calls what a stretch of the recorded window was for."""


def name_in_words(value: str) -> str:
    """A value of a named set in the language in use."""
    return value if value in _PROPER else pgettext(CONTEXT, value)


def words_of(specs: Iterable[FactSpec]) -> tuple[str, ...]:
    """All values of named sets that are words, for the catalogue."""
    named = (name for spec in specs for name in spec.names if name not in _PROPER)
    return tuple(dict.fromkeys([*named, *_PHASES]))
