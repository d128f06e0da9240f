"""The Prometheus text of serving engines (`curl …/metrics`): requests, use of the KV pool, preemptions.

Values of one metric with different labels stand together; they are one event: those of several replicas are added up
(their use of the pool is the highest), those of ranks that share a pool are not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from ...model.events import EventKind, FieldValue, LogEvent
from .family import Family, Line, Pattern, Regex
from .statement import event_of

_MOST_SERIES = 256
_VALUE = r"(?P<labels>\{[^{}]{0,4000}\})?\s{1,8}(?P<value>[+-]?(?:[0-9.]{1,30}(?:e[+-]?[0-9]{1,3})?|Inf|NaN))(?:\s|$)"
_LABEL = re.compile(r"(\w{1,60})=\"((?:[^\"\\]|\\.){0,500})\"")
_OF_REPLICA = ("engine", "dp_rank", "model_name", "instance", "pod")


@dataclass(frozen=True)
class _Metric:
    """What a metric says, and in which field of which event."""

    engine: str
    name: str
    """Its end, as several engines and versions spell it: after the engine's prefix."""
    field: str
    kind: EventKind = EventKind.ENGINE_LOAD
    is_share: bool = False
    """A ratio: the highest of the replicas counts, not the sum."""
    only_above_zero: bool = False


_METRICS = (
    _Metric("vllm", "num_requests_running", "running"),
    _Metric("vllm", "num_requests_waiting", "waiting"),
    _Metric("vllm", "num_requests_swapped", "swapped"),
    _Metric("vllm", "gpu_cache_usage_perc", "kv_usage", is_share=True),
    _Metric("vllm", "kv_cache_usage_perc", "kv_usage", is_share=True),
    _Metric("vllm", "num_preemptions_total", "preempted"),
    _Metric("sglang", "num_running_reqs", "running"),
    _Metric("sglang", "num_queue_reqs", "waiting"),
    _Metric("sglang", "num_used_tokens", "used_tokens"),
    _Metric("sglang", "token_usage", "kv_usage", is_share=True),
    _Metric("sglang", "swa_token_usage", "swa_usage", is_share=True),
    _Metric("sglang", "mamba_usage", "mamba_usage", is_share=True),
    _Metric("sglang", "max_total_num_tokens", "pool_tokens", EventKind.ENGINE_KV_POOL),
    _Metric("sglang", "num_retracted_requests_total", "preempted"),
    _Metric("sglang", "num_retracted_reqs_total", "preempted"),
    # Of the latest step only; 0 does not say that there were none before.
    _Metric("sglang", "num_retracted_reqs", "retracted", EventKind.ENGINE_PREEMPTED, only_above_zero=True),
    _Metric("tgi", "queue_size", "waiting"),
    _Metric("tgi", "batch_current_size", "running"),
    _Metric("llama.cpp", "kv_cache_usage_ratio", "kv_usage", is_share=True),
    _Metric("llama.cpp", "kv_cache_tokens", "used_tokens"),
    _Metric("llama.cpp", "requests_processing", "running"),
    _Metric("llama.cpp", "requests_deferred", "waiting"),
)
_PREFIXES = {"vllm": "vllm", "sglang": "sglang", "tgi": "tgi", "llama.cpp": "llamacpp"}


def _pattern(metric: _Metric) -> Iterator[Pattern]:
    """Exporters that allow no colon in a name put an underscore there."""
    for joint in "_" if metric.engine == "tgi" else ":_":
        name = f"{_PREFIXES[metric.engine]}{joint}{metric.name}"
        regex = Regex(rf"^\s{{0,16}}{re.escape(name)}{_VALUE}")
        yield Pattern(name, regex.text, _reader(metric, regex))


def _reader(metric: _Metric, regex: Regex) -> Callable[[re.Match[str], Line], LogEvent | None]:
    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        if any(regex.match(text) for text in line.preceding(1)):
            return None  # told with the first of its series
        more = takewhile(bool, (regex.match(text) for text in line.following(_MOST_SERIES)))
        value = _together(metric, [match, *(one for one in more if one is not None)])
        if value is None or (metric.only_above_zero and value == 0):
            return None
        return event_of(metric.kind, line, {"engine": metric.engine, metric.field: value})

    return build


def _together(metric: _Metric, series: list[re.Match[str]]) -> FieldValue:
    """One value of all series; None where none is a number that makes sense."""
    replicas: dict[tuple[str | None, ...], float] = {}
    for match in series:
        value = _number(match["value"])
        if value is not None:
            labels = dict(_LABEL.findall(match["labels"] or ""))
            key = tuple(labels.get(name) for name in _OF_REPLICA)
            replicas[key] = max(value, replicas.get(key, 0.0))
    if not replicas:
        return None
    if metric.is_share:
        share = max(replicas.values())
        return share if share <= 1.0 else None
    return round(sum(replicas.values()))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < 1e15 else None


def _pool(match: re.Match[str], line: Line) -> list[LogEvent]:
    """VLLM's configuration of its pool, as the labels of a metric that is always 1."""
    labels = dict(_LABEL.findall(match["labels"]))
    blocks, tokens = _number(labels.get("num_gpu_blocks", "")), _number(labels.get("block_size", ""))
    share = _number(labels.get("gpu_memory_utilization", ""))
    events = []
    if blocks and tokens:
        fields: dict[str, FieldValue] = {"gpu_blocks": round(blocks), "block_tokens": round(tokens)}
        fields["pool_tokens"] = round(blocks) * round(tokens)
        events.append(event_of(EventKind.ENGINE_KV_POOL, line, {"engine": "vllm", **fields}))
    if share is not None and 0 < share <= 1:
        events.append(event_of(EventKind.ENGINE_PROFILE, line, {"engine": "vllm", "utilization": share}))
    return events


FAMILY = Family(
    "metrics of engines",
    (
        *(pattern for metric in _METRICS for pattern in _pattern(metric)),
        *(
            Pattern(
                f"vllm{joint}cache_config_info{{",
                rf"^\s{{0,16}}vllm{joint}cache_config_info(?P<labels>\{{[^{{}}]{{0,8000}}\}})",
                _pool,
            )
            for joint in ":_"
        ),
    ),
)
