"""A value beside the one that is set now: what is asked for must be a change, and in the right direction."""

from __future__ import annotations

from ..model.facts import FactSet

_SET_NOW = {
    "vllm.gpu_memory_utilization": "engine.utilization",
    "vllm.max_num_seqs": "chosen.sequences",
    "vllm.max_num_batched_tokens": "chosen.step_tokens",
    "vllm.tensor_parallel_size": "chosen.cards",
    "vllm.max_loras": "chosen.adapters",
    "sglang.mem_fraction_static": "engine.utilization",
    "sglang.max_running_requests": "chosen.sequences",
    "sglang.chunked_prefill_size": "chosen.step_tokens",
    "sglang.tp_size": "chosen.cards",
    "sglang.cuda_graph_max_bs": "chosen.graph_batch",
    "sglang.speculative_num_draft_tokens": "chosen.draft_tokens",
    "sglang.max_loras_per_batch": "chosen.adapters",
    "llamacpp.ctx_size": "chosen.context",
    "llamacpp.ubatch_size": "engine.ubatch_tokens",
    "ollama.context_length": "chosen.context",
    "hf.gradient_accumulation_steps": "chosen.accumulation_steps",
    "hf.per_device_eval_batch_size": "chosen.evaluation_batch",
    "torch.dataloader_workers": "chosen.loader_workers",
}
"""The fact that says what is set now, by knob."""
_SHARES = {"vllm.gpu_memory_utilization", "sglang.mem_fraction_static"}
"""Knobs whose value is a share of the device."""
_CONTEXTS = {"llamacpp.ctx_size", "ollama.context_length"}
_STEPS = {"vllm.max_num_batched_tokens", "sglang.chunked_prefill_size"}
_STEP, _LEAST_SHARE = 0.05, 0.3


def known_now(knob: str, facts: FactSet) -> float | None:
    """What the knob is set to, where the input shows it."""
    value = facts.value(_SET_NOW[knob]) if knob in _SET_NOW else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def next_value(wanted: str, go: str, now: float | None) -> str | None:
    """`wanted` where it goes the right way from `now`; else a step from there, and None where none is left."""
    try:
        value = float(wanted)
    except ValueError:
        return wanted
    if not go or now is None or (value < now if go == "down" else value > now):
        return wanted
    if "." in wanted:
        stepped = now - _STEP
        return f"{stepped:.2f}" if go == "down" and stepped >= _LEAST_SHARE else None
    if go == "up":
        return str(int(now) * 2)
    return str(int(now) // 2) if now >= 2 else None


def share_left(knob: str, wanted: str, facts: FactSet) -> int | None:
    """What a smaller share of the device leaves beside the engine."""
    now, total = known_now(knob, facts), facts.size("oom.largest_device_bytes")
    if knob not in _SHARES or now is None or total is None or not wanted.replace(".", "", 1).isdecimal():
        return None
    return round((now - float(wanted)) * total) if float(wanted) < now else None


def cache_spared(knob: str, wanted: str, facts: FactSet) -> int | None:
    """What a shorter context takes less for the cache that was refused: it is in proportion to the length."""
    now, cache = known_now(knob, facts), facts.size("engine.kv_refused_bytes")
    if knob not in _CONTEXTS or not now or cache is None or not wanted.isdecimal():
        return None
    return round(cache * (1 - int(wanted) / now)) if int(wanted) < now else None


def peak_spared(knob: str, wanted: str, facts: FactSet) -> int | None:
    """What fewer tokens in a step spare of its activations: their peak is in proportion to the tokens.

    Of the peak that the engine profiled; else of the request that failed in a prompt or in the profile run.
    """
    now = known_now(knob, facts)
    if knob not in _STEPS or not now or not wanted.isdecimal() or int(wanted) >= now:
        return None
    peak = facts.size("engine.activation_peak_bytes")
    if peak is None and facts.value("activity.phase") in ("prefill", "profile"):
        peak = facts.size("oom.largest_request_bytes")
    return None if peak is None else round(peak * (1 - int(wanted) / now))
