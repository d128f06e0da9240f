"""The one table of message families."""

from __future__ import annotations

from . import (
    accelerator_errors,
    host_memory,
    kernel_counters,
    kernel_oom,
    kills,
    llamacpp,
    lookalikes,
    metrics,
    model_dimensions,
    ollama,
    other_engines,
    other_frameworks,
    recovery,
    runtimes,
    sglang,
    tensorflow_jax,
    tgi,
    torch_allocator,
    torch_statistics,
    tracebacks,
    usage,
    versions,
    vllm,
)
from .family import Family

ALL_FAMILIES: tuple[Family, ...] = (
    torch_allocator.FAMILY,
    torch_statistics.FAMILY,
    accelerator_errors.FAMILY,
    tensorflow_jax.FAMILY,
    other_frameworks.FAMILY,
    host_memory.FAMILY,
    runtimes.FAMILY,
    kernel_oom.FAMILY,
    kernel_counters.FAMILY,
    kills.FAMILY,
    lookalikes.FAMILY,
    tracebacks.FAMILY,
    usage.FAMILY,
    vllm.FAMILY,
    sglang.FAMILY,
    llamacpp.FAMILY,
    ollama.FAMILY,
    tgi.FAMILY,
    metrics.FAMILY,
    *other_engines.FAMILIES,
    model_dimensions.FAMILY,
    versions.FAMILY,
    recovery.FAMILY,
)
"""In the order in which the patterns of one line are tried."""
