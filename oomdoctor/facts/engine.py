"""engine.*: what a serving engine printed about its own budget, its KV pool, its buffers and its load."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..model.events import EventKind, LogEvent
from ..model.facts import FactSet, FactType
from .activity import memory_exceptions
from .asked_settings import options_of
from .deriver import computed
from .frames import frames_of, serving_engine

if TYPE_CHECKING:
    from ..model.evidence import Evidence

_NAMES = {
    "vllm",
    "sglang",
    "tgi",
    "llama.cpp",
    "ollama",
    "lmdeploy",
    "tensorrt-llm",
    "deepspeed",
    "mlc",
    "mlx",
    "transformers",
}
_FAR_MORE = 8
_VLLM_BLOCK_TOKENS = 16
_PURPOSES = {"weights", "kv", "compute", "runtime", "workspace", "unknown"}
_WARMUPS = {"sampler", "pooler", "prefill", "graph"}


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Later lines of an engine stand before earlier ones: a restart with other settings is what failed last."""
    front = next((e for e in evidence.events if e.word("engine") == "ollama"), None)
    if front is not None:  # its runners print llama.cpp's lines
        facts.put("engine.name", "ollama", front.source)
    for event in reversed(evidence.events):
        engine = event.word("engine")
        if engine is not None:
            facts.put("engine.name", engine if engine in _NAMES else "other", event.source)
        handler = _HANDLERS.get(event.kind)
        if handler is not None:
            handler(event, facts)
    for event in reversed(memory_exceptions(evidence)):
        facts.put("engine.name", serving_engine(frames_of(event)), event.source)
    for event in reversed(evidence.events):
        facts.put("engine.name", _by_its_processes(event.text), event.source)
    _put_sums(evidence, facts)
    _put_pool_of_blocks(evidence, facts)
    _put_server_pool(evidence, facts)
    _put_usage(evidence, facts)
    _put_per_token(facts)


def _by_its_processes(text: str) -> str | None:
    """The engine that puts such a name of a process or of a rank before each of its lines."""
    return next((name for name, prefix in _PREFIXES if prefix.search(text)), None)


_PREFIXES = (
    (
        "vllm",
        re.compile(
            r"\((?:VllmWorker(?:Process)?|EngineCore(?:_\w{1,20})?|Worker(?:_(?:TP|PP|DP|EP|CP|DCP)\d{1,4})+) "
            r"(?:rank=\d{1,6} )?pid=\d{1,10}\)"
            # Ray names its actors so too: the engine's own logger tells them apart.
            r"|\((?:Worker|(?:NPU)?RayWorkerWrapper|APIServer|ApiServer_\d{1,4}) pid=\d{1,10}(?:, ip=[\w.:]{1,60})?\) "
            r"(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]{1,120}:\d"
        ),
    ),
    (
        "sglang",
        re.compile(
            r"\[(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? )?(?:(?:DP|PP)\d{1,4} ){0,2}TP\d{1,4}(?: EP\d{1,4})?\]"
        ),
    ),
)


def _copy(event: LogEvent, facts: FactSet, **names: str) -> None:
    """Copy fields of the event to engine facts: `_copy(event, facts, fact_name='field_name')`."""
    for fact, name in names.items():
        key = f"engine.{fact}"
        value = event.number(name) if facts.specs[key].type is FactType.RATIO else event.size(name)
        facts.put(key, value, event.source)


def _start(event: LogEvent, facts: FactSet) -> None:
    facts.put("engine.version", event.word("version"), event.source)
    options = event.fields.get("options")
    named = dict(o for o in options if isinstance(o, tuple) and len(o) == 2) if isinstance(options, tuple) else {}
    chosen, trained = (
        named.get("n_ctx_per_seq") or named.get("n_ctx_seq") or named.get("n_ctx"),
        named.get("n_ctx_train"),
    )
    if chosen is not None and trained is not None:
        facts.put("engine.context_is_training_length", chosen == trained, event.source)
    for option in options if isinstance(options, tuple) else ():
        if isinstance(option, tuple) and len(option) == 2:
            name, value = str(option[0]), option[1]
            if name == "n_ubatch" and str(value).isdecimal():
                facts.put("engine.ubatch_tokens", int(str(value)), event.source)
            if name.replace("-", "_") == "gpu_memory_utilization":
                facts.put("engine.utilization", share_of(str(value)), event.source)
            if "speculative" in name and value not in (None, "None", "", False):
                facts.put("engine.speculative", True, event.source)


def share_of(text: str) -> float | None:
    """A share of the device as an option gives it; None where it is none."""
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0 < share <= 1 else None


def _weights(event: LogEvent, facts: FactSet) -> None:
    if event.fields.get("buffer") is None:
        _copy(event, facts, weights_bytes="weights_bytes")
    if event.word("engine") == "ollama":
        facts.put("engine.layers_planned", event.size("layers_offloaded"), event.source)


def _profile(event: LogEvent, facts: FactSet) -> None:
    _copy(
        event,
        facts,
        weights_bytes="weights_bytes",
        activation_peak_bytes="activation_peak_bytes",
        non_torch_bytes="non_torch_bytes",
        non_torch_before_bytes="non_torch_before_bytes",
        in_use_at_profile_bytes="initial_used_bytes",
        budget_bytes="budget_bytes",
        utilization="utilization",
        kv_available_bytes="kv_bytes",
    )
    if event.size("graph_estimate_bytes") is not None or event.number("equivalent_utilization") is not None:
        facts.put("engine.graphs_in_budget", True, event.source)
    total, share = event.size("total_bytes"), event.number("utilization")
    if total is not None and share is not None:
        facts.put("engine.budget_bytes", round(total * share), event.source)


def _kv_available(event: LogEvent, facts: FactSet) -> None:
    _copy(event, facts, kv_available_bytes="kv_bytes")


def _kv_pool(event: LogEvent, facts: FactSet) -> None:
    _copy(event, facts, max_length_tokens="max_length_tokens")
    if event.fields.get("sub_pool") is None:
        _copy(event, facts, kv_pool_tokens="pool_tokens")
    if event.fields.get("buffer") is None and event.fields.get("sub_pool") is None:
        _copy(event, facts, kv_pool_bytes="pool_bytes")


def _kv_none(event: LogEvent, facts: FactSet) -> None:
    facts.put("engine.kv_pool_none", True, event.source)


def _kv_too_small(event: LogEvent, facts: FactSet) -> None:
    facts.put("engine.kv_pool_too_small", True, event.source)
    _copy(
        event,
        facts,
        kv_needed_tokens="needed_tokens",
        kv_pool_tokens="pool_tokens",
        kv_needed_bytes="needed_bytes",
        kv_available_bytes="available_bytes",
        kv_fitting_tokens="fitting_tokens",
        max_length_tokens="needed_tokens",
    )


def _startup_short(event: LogEvent, facts: FactSet) -> None:
    _copy(event, facts, startup_free_bytes="free_bytes", startup_wanted_bytes="wanted_bytes", utilization="utilization")


def _neighbour(event: LogEvent, facts: FactSet) -> None:
    before, after = event.size("initial_free_bytes"), event.size("current_free_bytes")
    if before is not None and after is not None:
        facts.put("engine.neighbour_released_bytes", after - before, event.source)


def _buffer(event: LogEvent, facts: FactSet) -> None:
    if event.fields.get("fatal") is False:
        return
    purpose = event.word("purpose")
    facts.put("engine.buffer_purpose", purpose if purpose in _PURPOSES else None, event.source)
    _copy(event, facts, buffer_bytes="requested_bytes")
    facts.put("engine.buffer_device", event.device, event.source)
    if event.word("pool") == "sleep":
        facts.put("engine.sleep_pool_refused", True, event.source)
    if event.fields.get("wakes") is True:
        facts.put("engine.wake_failed", True, event.source)
    if purpose == "kv":
        _copy(event, facts, kv_refused_bytes="requested_bytes")


def _warmup(event: LogEvent, facts: FactSet) -> None:
    what = event.word("what")
    facts.put("engine.warmup_failed", what if what in _WARMUPS else "other", event.source)
    _copy(event, facts, warmup_sequences="sequences", warmup_tokens="tokens")
    total, step = event.size("total_tokens"), event.size("tokens")
    if total is not None and step is not None and total > _FAR_MORE * step:
        # A step this small does not fill a card: it is the pool for all tokens that did not fit.
        facts.put("engine.kv_pool_too_small", True, event.source)
        facts.put("engine.kv_needed_tokens", total, event.source)


def _pool_exhausted(event: LogEvent, facts: FactSet) -> None:
    facts.put("engine.token_pool_exhausted", True, event.source)
    stage = event.word("stage")
    facts.put("engine.token_pool_stage", stage if stage in ("prefill", "decode", "verify") else None, event.source)
    if stage == "verify":
        facts.put("engine.speculative", True, event.source)
    _copy(
        event,
        facts,
        token_pool_needed_tokens="needed_tokens",
        token_pool_available_tokens="available_tokens",
    )


def _preempted(event: LogEvent, facts: FactSet) -> None:
    for name in ("cumulative", "retracted"):
        facts.put("engine.preemptions", event.size(name), event.source)
    facts.put("engine.preemptions", 1, event.source)


def _load(event: LogEvent, facts: FactSet) -> None:
    _copy(event, facts, transferring="transferring", running="running", waiting="waiting", preemptions="preempted")


def _parallel(event: LogEvent, facts: FactSet) -> None:
    _copy(event, facts, compute_buffer_copies="pipeline_copies")


def _phase(event: LogEvent, facts: FactSet) -> None:
    if event.word("phase") == "graph-capture":
        facts.put("engine.graphs_captured", True, event.source)
    if event.word("phase") == "profile" and event.word("mode") == "multi-modal":
        facts.put("engine.profiles_images", True, event.source)


def _state_pool(event: LogEvent, facts: FactSet) -> None:
    if event.fields.get("hybrid_manager_disabled") is True:
        facts.put("engine.hybrid_manager_off", True, event.source)
    else:
        facts.put("engine.state_pool_short", True, event.source)


def _encoder(event: LogEvent, facts: FactSet) -> None:
    _copy(event, facts, encoder_worst_tokens="worst_case_tokens", encoder_profiled_tokens="profiled_tokens")
    _copy(event, facts, encoder_profiled_tokens="context_tokens")  # the profile run is no longer than the context


def _fit(event: LogEvent, facts: FactSet) -> None:
    facts.put("engine.fit_blocked_by", event.word("blocked_by"), event.source)
    _copy(event, facts, fit_deficit_bytes="deficit_bytes", kv_planned_bytes="kv_bytes")
    _copy(event, facts, all_planned_bytes="projected_bytes")
    if event.word("reason") == "no estimate":
        facts.put("engine.estimate_missing", True, event.source)
    elif event.word("outcome") in ("failed", "blocked"):
        facts.put("engine.fit_failed", True, event.source)


def _host_short(event: LogEvent, facts: FactSet) -> None:
    if event.word("what") == "guard at loading":
        facts.put("engine.guard_refused", True, event.source)
        _copy(event, facts, guard_estimate_bytes="needed_bytes")
        return
    if event.fields.get("fatal") is not False:
        facts.put("engine.host_short", True, event.source)
    _copy(event, facts, host_needed_bytes="needed_bytes", host_available_bytes="available_bytes")
    facts.put("engine.host_available_bytes", event.size("total_bytes"), event.source)


def _sleep(event: LogEvent, facts: FactSet) -> None:
    _copy(event, facts, sleep_freed_bytes="freed_bytes", sleep_residual_bytes="residual_bytes")


def _table(event: LogEvent, facts: FactSet) -> None:
    model, temporary = event.size("model_bytes"), event.size("temporary_bytes")
    facts.put("engine.temporary_bytes", temporary, event.source)
    if event.fields.get("buffer") is not None:
        return  # a row of one device, not the whole
    facts.put("engine.weights_bytes", model, event.source)
    if model is not None and temporary is not None:
        facts.put("engine.sum_needed_bytes", model + temporary, event.source)
        facts.put("engine.budget_bytes", event.size("available_bytes"), event.source)


def _uneven(event: LogEvent, facts: FactSet) -> None:
    _copy(event, facts, ranks_lowest_free_bytes="lowest_free_bytes", ranks_free_bytes="free_bytes")


def _not_released(event: LogEvent, facts: FactSet) -> None:
    _copy(event, facts, not_released_bytes="device_bytes")
    _copy(event, facts, not_released_bytes="runner_bytes")


def _step_failed(event: LogEvent, facts: FactSet) -> None:
    if event.word("step") == "context" or "failed to create context" in (event.word("inner") or ""):
        facts.put("engine.context_refused", True, event.source)


def _host_buffer(event: LogEvent, facts: FactSet) -> None:
    """A cache in host memory is as long as one on the device."""
    if event.word("purpose") == "kv":
        facts.put("engine.buffer_purpose", "kv", event.source)
        _copy(event, facts, kv_refused_bytes="requested_bytes")


def _device_oom(event: LogEvent, facts: FactSet) -> None:
    if event.size("private_pool_bytes"):
        facts.put("engine.graphs_captured", True, event.source)


def _put_server_pool(evidence: Evidence, facts: FactSet) -> None:
    """The pool that was full. One that was asked because another had refused is not what is to be enlarged."""
    full = evidence.of_kind(EventKind.SERVER_POOL_FULL)
    event = next((e for e in reversed(full) if e.word("pool") == "device"), full[-1] if full else None)
    if event is None:
        return
    facts.put("engine.server_pool", event.word("pool"), event.source)
    _copy(event, facts, server_pool_request_bytes="requested_bytes")
    facts.put("engine.server_pool_device", event.device, event.source)
    if event.fields.get("recovered") is True:
        facts.put("engine.server_pool_fell_back", True, event.source)
    for made in reversed(evidence.of_kind(EventKind.SERVER_POOL)):
        if made.word("pool") == event.word("pool") and event.device in (None, made.device):
            _copy(made, facts, server_pool_bytes="pool_bytes")


_HANDLERS: dict[EventKind, Callable[[LogEvent, FactSet], None]] = {
    EventKind.ENGINE_START: _start,
    EventKind.ENGINE_WEIGHTS: _weights,
    EventKind.ENGINE_PROFILE: _profile,
    EventKind.ENGINE_KV_AVAILABLE: _kv_available,
    EventKind.ENGINE_KV_POOL: _kv_pool,
    EventKind.ENGINE_KV_NONE: _kv_none,
    EventKind.ENGINE_KV_TOO_SMALL: _kv_too_small,
    EventKind.ENGINE_STARTUP_SHORT: _startup_short,
    EventKind.ENGINE_NEIGHBOUR_CHANGED: _neighbour,
    EventKind.ENGINE_BUFFER_FAILED: _buffer,
    EventKind.ENGINE_WARMUP_FAILED: _warmup,
    EventKind.ENGINE_TOKEN_POOL_EXHAUSTED: _pool_exhausted,
    EventKind.ENGINE_PREEMPTED: _preempted,
    EventKind.ENGINE_LOAD: _load,
    EventKind.ENGINE_PHASE: _phase,
    EventKind.ENGINE_STATE_POOL_SHORT: _state_pool,
    EventKind.ENGINE_ENCODER_BUDGET: _encoder,
    EventKind.ENGINE_FIT: _fit,
    EventKind.ENGINE_HOST_SHORT: _host_short,
    EventKind.ENGINE_SLEEP: _sleep,
    EventKind.ENGINE_MEMORY_TABLE: _table,
    EventKind.ENGINE_RANKS_UNEVEN: _uneven,
    EventKind.ENGINE_NOT_RELEASED: _not_released,
    EventKind.DEVICE_OOM: _device_oom,
    EventKind.HOST_ALLOCATION_FAILED: _host_buffer,
    EventKind.ENGINE_STEP_FAILED: _step_failed,
    EventKind.PARALLELISM: _parallel,
}


def _put_sums(evidence: Evidence, facts: FactSet) -> None:
    """Totals of what is printed buffer by buffer (the last word on each), where no total is printed."""
    for kind, field, fact in (
        (EventKind.ENGINE_WEIGHTS, "weights_bytes", "engine.weights_bytes"),
        (EventKind.ENGINE_KV_POOL, "pool_bytes", "engine.kv_pool_bytes"),
    ):
        parts: dict[str, int] = {}
        source = None
        for event in evidence.of_kind(kind):
            buffer, size = event.word("buffer"), event.size(field)
            if buffer is not None and size is not None:
                parts[buffer], source = size, event.source
        if source is not None:
            facts.put(fact, sum(parts.values()), source)


def _put_pool_of_blocks(evidence: Evidence, facts: FactSet) -> None:
    """Tokens of a pool that is printed in blocks; how many one has, vLLM does not print where it is 16."""
    pools = evidence.of_kind(EventKind.ENGINE_KV_POOL)
    blocks = next((event for event in reversed(pools) if event.size("gpu_blocks")), None)
    if blocks is None or blocks.fields.get("sub_pool") is not None:
        return
    count, chosen = blocks.size("gpu_blocks") or 0, options_of(evidence).get("block-size")
    sizes = [size for event in (blocks, *reversed(pools)) if (size := event.size("block_tokens"))]
    if not sizes and chosen is not None and chosen.isdecimal():
        sizes = [int(chosen)]
    elif not sizes and chosen in (None, "None") and blocks.word("engine") == "vllm":
        sizes = [_VLLM_BLOCK_TOKENS]
    if sizes:
        facts.put("engine.kv_pool_tokens", count * sizes[0], blocks.source)


def _put_usage(evidence: Evidence, facts: FactSet) -> None:
    """The highest use of the pool, not the last: it is the peak that preempts."""
    loads = [(event.number("kv_usage"), event) for event in evidence.of_kind(EventKind.ENGINE_LOAD)]
    known = [(usage, event) for usage, event in loads if usage is not None]
    if known:
        usage, event = max(known, key=lambda pair: pair[0])
        facts.put("engine.kv_usage", usage, event.source)


def _put_per_token(facts: FactSet) -> None:
    """Bytes a token adds: needed bytes over needed tokens, else the pool's bytes over its tokens."""
    for size, count in (
        ("engine.kv_needed_bytes", "engine.kv_needed_tokens"),
        ("engine.kv_pool_bytes", "engine.kv_pool_tokens"),
        ("engine.kv_available_bytes", "engine.kv_pool_tokens"),
    ):
        total, tokens = facts.value(size), facts.value(count)
        if isinstance(total, int) and isinstance(tokens, int) and total > 0 and tokens > 0:
            facts.put("engine.kv_bytes_per_token", total // tokens, computed(size, count))
