"""What a log line (or a block of lines) says, without judging it.

A reader turns text into LogEvents; facts are derived from them. Events are neutral of the framework:
the framework is a field, so that one fact serves every engine that prints the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Union

from .source import Source

FieldValue = Union[int, float, str, bool, tuple["FieldValue", ...], None]


class EventKind(str, Enum):
    """Every kind of event with the fields it may carry (a field the text does not give is absent, never 0).

    Sizes are `*_bytes` (int), lengths `*_tokens` (int), ratios 0..1 (float).
    An event with requested_bytes may have `request_impossible` (True) instead: what was asked for is below zero, not a number
    or more than any machine has.
    Any event may carry `repeats`: equal statements in the whole log, this one (the last of them) and the first included.
    """

    __hash__ = str.__hash__  # Enum's own is a Python function, and every event is looked up by its kind several times

    # --- the device allocator -------------------------------------------------------------------------------
    DEVICE_OOM = "device-oom"
    """An allocator gave up. backend (cuda|hip|xpu|mps|npu|mlu|neuron|metal|tensorflow|jax|cudaMallocAsync|…),
    requested_bytes, total_bytes, free_bytes, allocated_bytes (as printed: with private_pool_bytes), active_bytes, reserved_bytes (includes allocated),
    reserved_unallocated_bytes, private_pool_bytes (free blocks of graph pools), allowed_bytes (a fraction was set),
    process_used_bytes (this process by NVML), other_processes (tuple of (pid or None, bytes)), other_bytes (mps: this process's memory
    outside the allocator), shape (tuple), dtype, node (the operation of a graph, by its name), buffer_limit_bytes (of a single block),
    pool (mps: private|shared), pool_at_maximum (True: a pool that may not grow any more), exception_type, advice (the hint torch printed: max_split_size_mb|expandable_segments),
    generation (the message form: 'cached' <=1.3, 'reserved' 1.4-2.0, 'sentences' >=2.1, 'bare'), wrapped_by (an engine's own sentence),
    capacity_unknown (True for NVML artefacts such as 17179869184 GiB), zeros_set_aside (True: the capacity or the request was 0),
    cut_off (tuple of requested|total|…: figures of a message in whose middle the log ends),
    contradictory (tuple of the figures that cannot all be true, as text; they are left out)"""
    DEVICE_OOM_TRY = "device-oom-try"
    """One failed try, not an incident: torch >= 2.14's warning, XLA's start-up back-off. backend, requested_bytes, free_bytes, total_bytes"""
    DEVICE_STATE = "device-state"
    """memory_summary(), see_memory_usage, 'Memory: …' lines: allocated_bytes, reserved_bytes, allowed_bytes, active_bytes, peak_allocated_bytes,
    peak_reserved_bytes, segments, non_releasable_blocks, peak_non_releasable_blocks (counts), non_releasable_bytes, non_releasable_large_bytes, retries, ooms"""
    ACCELERATOR_ERROR = "accelerator-error"
    """A driver or library error that may mask an OOM. library (cuda|cublas|cudnn|nccl|cusolver|cufft|nvml|tensorrt|hip|xpu|…),
    code (CUBLAS_STATUS_ALLOC_FAILED, 'out of memory', 'busy', …), call, requested_bytes, masks_oom (bool), thread (pin_memory|…)"""
    PEER_LOST = "peer-lost"
    """A rank says that another one is gone: library (nccl|gloo|…). What follows from a failure elsewhere"""
    UNFUSED_ATTENTION = "unfused-attention"
    """A program says that a package or kernel of fused attention is not there or not used: missing (its name as printed)"""
    TOLD_IN_WORDS = "told-in-words"
    """The headline of a pasted report says that device memory ran out"""
    # --- Python ---------------------------------------------------------------------------------------------
    EXCEPTION = "exception"
    """A traceback. exception_type, message, frames (tuple of (file, line or None, function, code), outermost first; a
    line of code quoted without its place has file "?", no line and function ""), chained (bool:
    another one was being handled), raised_from (True: it was raised from that one, in other words or without inner frames), complete (bool)"""
    # --- host memory ----------------------------------------------------------------------------------------
    HOST_ALLOCATION_FAILED = "host-allocation-failed"
    """allocator (torch-cpu|numpy|python|malloc|fork|windows-paging|shm|llama.cpp|java|v8|go|rust|…), requested_bytes, shape, dtype,
    pool (java, v8: heap|metaspace|direct|thread|native), program (java: spark|spark-driver|spark-executor), limit_bytes and used_bytes of that allocator,
    purpose (kv: what an engine's buffer was for)"""
    HOST_LARGE_ALLOCATION = "host-large-allocation"
    """tcmalloc's warning: requested_bytes"""
    PINNED_ALLOCATION_FAILED = "pinned-allocation-failed"
    """requested_bytes, recovered (bool), engine"""
    PROCESS_KILLED = "process-killed"
    """signal (int), exit_code (int), pid, program, reported_by (shell|elastic|deepspeed|spawn|dataloader|ray|kubernetes|docker|slurm|systemd|vllm|
    process-pool|multiprocessing|compiler|systemd-oomd|earlyoom|nohang|…), oom_stated (bool: the reporter itself says memory was why), guess_only
    (bool: it lists memory among guesses), cause (probe: a failed probe of the container), rss_bytes (of the victim), limit_bytes and peak_bytes (of
    the container or unit), restarts (of the container so far), node and tasks (where, as Slurm numbers them), available_bytes, used_bytes and
    total_bytes (of the machine), pressure (0..1: share of the time that tasks stalled on memory, where that was why)"""
    KERNEL_OOM = "kernel-oom"
    """The kernel's killer. constraint (global|memcg), pid, program, anon_rss_bytes, shmem_rss_bytes, total_vm_bytes, oom_score_adj,
    cgroup, limit_bytes, usage_bytes, swap_counts (True: these two are of memory and swap together); of that cgroup
    anonymous_bytes, file_bytes (page cache with shared memory), shared_bytes, kernel_bytes; resident_bytes (of the victim, compressed memory
    included: macOS), reported_by (kubelet: it retells the kernel's line), platform (macos)"""
    MEMORY_LIMIT_HIT = "memory-limit-hit"
    """A job system or container says its own memory limit was hit; with of_node (True) that the node's memory was nearly full.
    system (slurm|kubernetes|docker|ray|systemd|yarn|colab|kaggle|…), limit_bytes, used_bytes, sampled_bytes (the most that accounting sampled, which may
    have missed the peak), total_bytes, threshold (0..1) or threshold_bytes (to be left on the node), available_bytes, count, step (of the job),
    program (the evicted container), container_used_bytes and container_request_bytes (of it), top_processes (tuple of (pid, bytes, command))"""
    SHM_EXHAUSTED = "shm-exhausted"
    """requested_bytes, path, signal, reason_unstated (bool: it could not be opened; the limit on open files does that too)"""
    OOM_KILL_COUNT = "oom-kill-count"
    """A counter of the kernel's kills, as its files print it: count, scope (cgroup|system)"""
    CGROUP_LIMIT = "cgroup-limit"
    """What a control group may use, as its file prints it: limit_bytes"""
    HOST_STATE = "host-state"
    """total_bytes, used_bytes, available_bytes, percent, swap_total_bytes, swap_free_bytes, top_processes (as in memory-limit-hit),
    platform (wsl), device_total_bytes (own memory, or the firmware's carve-out of the host's, as a driver or another program than
    the failing one sees it), device_shared_bytes (host memory that the device may use: GTT)"""
    # --- look-alikes ----------------------------------------------------------------------------------------
    KERNEL_RESOURCE = "kernel-resource"
    """On-chip resources of a GPU kernel: resource (shared memory|registers|…), required_bytes, limit_bytes"""
    DEVICE_ASSERT = "device-assert"
    """assertion, code (device-side assert|illegal memory access|…)"""
    IMPOSSIBLE_SIZE = "impossible-size"
    """A size no machine has, in words ('more than 1EB'): requested_bytes if given"""
    SLOT_TABLE_FULL = "slot-table-full"
    """A table of request slots ran out, not bytes: engine, available, needed, limit"""
    WORKSPACE_TOO_SMALL = "workspace-too-small"
    """A fixed library workspace: requested_bytes, available_bytes, library, buffer"""
    SERVER_POOL = "server-pool"
    """A pool of fixed size that a server set aside at start for moving inputs and outputs: engine, pool (device|pinned), pool_bytes"""
    SERVER_POOL_FULL = "server-pool-full"
    """A buffer did not fit into such a pool: engine, pool (device|pinned), requested_bytes, recovered (bool: it says that it took other memory)"""
    RECOVERED = "recovered"
    """The program says, or shows by its steps, that it went on after an OOM: how (retry|fallback|skipped-batch|
    smaller-batch|went-on|restart: another start of it did, the one that failed did not), engine"""
    ENDED = "ended"
    """The end of a program that is not told as one of memory: how (time-limit|preemption|cancelled|deadline|disk|node-failure|
    segmentation-fault|abort|illegal-instruction|status), reported_by, exit_code"""
    # --- engines (each with engine: vllm|sglang|llama.cpp|ollama|tgi|lmdeploy|tensorrt-llm|deepspeed|mlc|mlx|…) -
    ENGINE_START = "engine-start"
    """version, options (tuple of (name, value) as printed, long names without dashes), ignored_options (names the engine says
    it does not read here). A start may be told by several of these, each with a part of it"""
    ENGINE_PHASE = "engine-phase"
    """phase (load|profile|kv-allocation|graph-capture|warm-up|serving|sleep), edge (begin|progress|end), took_bytes, seconds,
    free_bytes, mode and done, total, done_ratio (of a progress bar)"""
    ENGINE_WEIGHTS = "engine-weights"
    """weights_bytes (per rank; with `buffer`: of that device), host_weights_bytes (a buffer in host memory), buffer (the
    engine's name of it), layers_offloaded, layers_total, seconds, offloaded_to (tuple of cpu, disk)"""
    ENGINE_PROFILE = "engine-profile"
    """total_bytes, utilization, budget_bytes, weights_bytes, activation_peak_bytes, non_torch_bytes, non_torch_before_bytes, kv_bytes,
    initial_used_bytes, used_after_bytes, initial_free_bytes, free_after_bytes, torch_peak_bytes (weights included), consumed_bytes
    (weights and non-torch together), non_kv_bytes, budget_left_bytes, graph_bytes, graph_estimate_bytes,
    equivalent_utilization (without the reserve for graphs), same_kv_utilization (for the pool of before). A report may be
    spread over several of these"""
    ENGINE_KV_AVAILABLE = "engine-kv-available"
    """kv_bytes (may be NEGATIVE)"""
    ENGINE_KV_POOL = "engine-kv-pool"
    """pool_tokens, pool_bytes, max_length_tokens, concurrency (ratio), gpu_blocks, cpu_blocks, block_tokens, cells, layers,
    sequences, from_tokens (before it was adjusted), multiplied_by, free_bytes (left on the device), sub_pool (mamba|swa|recurrent|…), buffer,
    host_pool_bytes (a buffer in host memory), k_type, k_bytes, v_type, v_bytes. Lines with `buffer` are parts of the total without"""
    ENGINE_KV_NONE = "engine-kv-none"
    """Nothing is left for the KV pool"""
    ENGINE_KV_TOO_SMALL = "engine-kv-too-small"
    """needed_tokens, pool_tokens, needed_bytes, available_bytes, fitting_tokens (the engine's own estimate)"""
    ENGINE_STARTUP_SHORT = "engine-startup-short"
    """free_bytes, total_bytes, utilization, wanted_bytes, budget_bytes (what the engine may use, where it says no more)"""
    ENGINE_NEIGHBOUR_CHANGED = "engine-neighbour-changed"
    """Free memory changed under the profiler: initial_free_bytes, current_free_bytes"""
    ENGINE_BUFFER_FAILED = "engine-buffer-failed"
    """requested_bytes, purpose (weights|kv|compute|runtime|workspace|unknown), fatal (bool), pool, buffer, call, site, function,
    free_bytes, total_bytes, over_buffer_limit (bool: more than a single buffer may have), inner (text of the wrapped error)"""
    ENGINE_WARMUP_FAILED = "engine-warmup-failed"
    """what (sampler|pooler|prefill|graph|…), sequences, tokens, total_tokens, task, inner (text of the wrapped error, which need not
    be about memory)"""
    ENGINE_STEP_FAILED = "engine-step-failed"
    """A step did not succeed, for whatever reason: step (context|runner|a node's type|…), exception_type, inner (text of the reason)"""
    ENGINE_TOKEN_POOL_EXHAUSTED = "engine-token-pool-exhausted"
    """A pool of KV tokens, not device bytes: stage (prefill|decode|verify), needed_tokens, available_tokens (evictable ones
    included), free_tokens, evictable_tokens, sub_pool (the one of several that is short), full_available_tokens, swa_available_tokens"""
    ENGINE_PREEMPTED = "engine-preempted"
    """mode, cumulative (since the start), retracted (requests by this statement)"""
    ENGINE_LOAD = "engine-load"
    """running, waiting, swapped, kv_usage (0..1), preempted (requests since the start), transferring, stage (prefill|decode),
    replica, used_tokens, new_tokens, swa_usage, mamba_usage"""
    ENGINE_STATE_POOL_SHORT = "engine-state-pool-short"
    """Mamba/SWA/hybrid pools: sub_pool, needed, available, rest_bytes, hybrid_manager_disabled (bool), fatal (False: a warning)"""
    ENGINE_ENCODER_BUDGET = "engine-encoder-budget"
    """worst_case_tokens, profiled_tokens, context_tokens, budget_tokens, items, modality, modalities (tuple of (name, tokens))"""
    ENGINE_FIT = "engine-fit"
    """projected_bytes, free_bytes, deficit_bytes, target_bytes, left_bytes, total_bytes, outcome (fits|reduced|failed|blocked|host-only),
    blocked_by (a flag), reason, buffer, from_tokens and to_tokens (of the context), kv_bytes, placed_bytes, weights_bytes,
    compute_bytes, projector_bytes"""
    ENGINE_HOST_SHORT = "engine-host-short"
    """needed_bytes, available_bytes, total_bytes, what (system memory|swap space|swapped sequences|host cache|guard at loading:
    what it thinks the model needs), fatal (bool)"""
    ENGINE_RANKS_UNEVEN = "engine-ranks-uneven"
    """Ranks found different amounts of free memory: lowest_free_bytes (of any rank), free_bytes (of this one)"""
    ENGINE_NOT_RELEASED = "engine-not-released"
    """A stopped runner's memory did not come back in time: runner_bytes, device_bytes, seconds"""
    ENGINE_SLEEP = "engine-sleep"
    """freed_bytes, residual_bytes, backed_up_bytes, discarded_bytes"""
    ENGINE_MEMORY_TABLE = "engine-memory-table"
    """An engine's own breakdown: total_bytes, free_bytes, model_bytes, context_bytes, compute_bytes, unaccounted_bytes, temporary_bytes,
    available_bytes, used_bytes, grown_bytes, runtime_bytes, decoder_bytes, requested_bytes, minimum_bytes, overhead_bytes, buffer,
    max_length_tokens; host_* of these for a buffer in host memory"""
    PARALLELISM = "parallelism"
    """world_size, tensor_parallel, pipeline_parallel, data_parallel, workers (data loader), pipeline_copies (of compute buffers)"""
    INPUT_LENGTH = "input-length"
    """How long one input is: tokens, limit_tokens"""
    MODEL_DIMENSION = "model-dimension"
    """One dimension of a model: heads, kv_heads, head_dimension, hidden, layers, vocabulary, intermediate, experts,
    expert_width, parameters or trainable; or of a launch: reduce_bucket or gather_bucket (elements)"""
    MODEL_CONFIG = "model-config"
    """A configuration that transformers printed: json"""
    MODEL_METADATA = "model-metadata"
    """One pair of a GGUF file's metadata: number (of the pair, 0 begins a file), key, value; length of a list; cut: not all of it"""
    COMMAND_LINE = "command-line"
    """A launch line that the log shows: command"""
    CODE = "code"
    """A line of Python that sets something about memory, quoted or printed: code"""
    ENVIRONMENT = "environment"
    """A variable that the log shows being set: name, value"""
    OPTION_REFUSED = "option-refused"
    """A program does not know an option, or not its value: option (as written), value, program"""
    OPTION_OVERRULED = "option-overruled"
    """A program says that of two settings one does not count: option, by"""
    VERSION = "version"
    """package, version"""


FAILURES = frozenset(
    {
        EventKind.DEVICE_OOM,
        EventKind.ENGINE_BUFFER_FAILED,
        EventKind.ENGINE_KV_NONE,
        EventKind.ENGINE_KV_TOO_SMALL,
        EventKind.ENGINE_STARTUP_SHORT,
        EventKind.ENGINE_NEIGHBOUR_CHANGED,
        EventKind.ENGINE_WARMUP_FAILED,
        EventKind.ENGINE_TOKEN_POOL_EXHAUSTED,
        EventKind.ENGINE_STATE_POOL_SHORT,
        EventKind.ENGINE_HOST_SHORT,
        EventKind.HOST_ALLOCATION_FAILED,
        EventKind.PINNED_ALLOCATION_FAILED,
        EventKind.PROCESS_KILLED,
        EventKind.KERNEL_OOM,
        EventKind.MEMORY_LIMIT_HIT,
        EventKind.SHM_EXHAUSTED,
        EventKind.KERNEL_RESOURCE,
        EventKind.DEVICE_ASSERT,
        EventKind.IMPOSSIBLE_SIZE,
        EventKind.SLOT_TABLE_FULL,
        EventKind.WORKSPACE_TOO_SMALL,
        EventKind.SERVER_POOL_FULL,
    }
)
"""Kinds that say that something failed."""


@dataclass(frozen=True)
class LogEvent:
    """One statement of a log. `kind` says which `fields` to expect (see EventKind)."""

    kind: EventKind
    source: Source
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    text: str = ""
    """The line (or first line of the block) as printed, control characters removed, at most 2,000 characters."""
    device: int | None = None
    """The accelerator's index as printed."""
    rank: int | None = None
    pid: int | None = None
    time_seconds: float | None = None
    """Unix time where the line gives one; None otherwise."""
    after_seconds: float | None = None
    """Of a failure or a phase: the time of its line or of the nearest one above that has one, for the order only. Where the log prints
    no year, it is in 1972."""

    def number(self, name: str) -> int | float | None:
        """The numeric field `name`, or None when the text did not give it."""
        value = self.fields.get(name)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def size(self, name: str) -> int | None:
        """The integer field `name`, or None when the text did not give it."""
        value = self.fields.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def word(self, name: str) -> str | None:
        """The text field `name`, or None when the text did not give it."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else None
