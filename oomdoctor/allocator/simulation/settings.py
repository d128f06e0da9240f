"""The settings of PYTORCH_CUDA_ALLOC_CONF that decide which requests are served, read and checked as torch does.

Rules: `AcceleratorAllocatorConfig` (c10/core/AllocatorConfig.cpp) and `CUDAAllocatorConfig`, `parseMaxSplitSize`,
`parseRoundUpPower2Divisions`, `parseGarbageCollectionThreshold` and their neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...errors import UsageError
from ...language import _
from ...model.units import MIB

LARGE_BUFFER_BYTES = 20 * MIB
INTERVALS = 16
"""Sizes have one number of divisions each from 1 MiB on to 64 GiB, by power of two."""

_WHOLE = re.compile(r"[0-9]{1,12}")
_OF_NO_ACCOUNT = (
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "graph_capture_record_stream_reuse",
)


@dataclass(frozen=True)
class AllocatorSettings:
    """What decides where a request goes. The defaults are torch's."""

    expandable_segments: bool = False
    max_split_bytes: int | None = None
    """Blocks from this size on are not split; None: no bound."""
    max_non_split_rounding_bytes: int = LARGE_BUFFER_BYTES
    """A block that is not split may be larger than a request by less than this."""
    roundup_power2_divisions: tuple[int, ...] = (0,) * INTERVALS
    garbage_collection_threshold: float = 0.0
    """Share of the allowed memory; without a memory fraction torch never collects."""
    large_segment_bytes: int = LARGE_BUFFER_BYTES
    """Segment for requests above 1 MiB and below 10 MiB, and the page of expandable segments of the large pool."""
    memory_fraction: float | None = None
    """per_process_memory_fraction; None: not set."""
    padding_bytes: int = 0
    """Added to each request before it is rounded: 32 in torch_npu's allocator, nothing in torch's own."""

    def divisions_for(self, size_bytes: int) -> int:
        """Divisions between powers of two for a request of that size (`roundup_power2_divisions`)."""
        return self.roundup_power2_divisions[min(max(size_bytes.bit_length() - 21, 0), INTERVALS - 1)]

    @cached_property
    def block_sizes(self) -> dict[int, int]:
        """What `rounding.block_size` has found so far: a program asks for the same sizes again and again."""
        return {}


def with_setting(settings: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    """The settings with one option of PYTORCH_CUDA_ALLOC_CONF set. Raises UsageError with a sentence otherwise."""
    change = _OPTIONS.get(name)
    if change is not None:
        return change(settings, value.strip())
    known = ", ".join(_OPTIONS)
    if name == "backend":
        raise UsageError(
            _("whatif models torch's own allocator; another backend (cudaMallocAsync) cannot be simulated")
        )
    if name in _OF_NO_ACCOUNT:
        raise UsageError(
            _("{name} does not change which requests are served; what can be simulated is {known}").format(
                name=name, known=known
            )
        )
    raise UsageError(
        _("PYTORCH_CUDA_ALLOC_CONF has no option {name} that can be simulated; these can: {known}").format(
            name=repr(name), known=known
        )
    )


def with_settings(settings: AllocatorSettings, pairs: Iterable[tuple[str, str]]) -> AllocatorSettings:
    """Several of them, in order."""
    for name, value in pairs:
        settings = with_setting(settings, name, value)
    return settings


def split_assignment(text: str) -> tuple[str, str]:
    """`name=value`, or `name:value` as the variable has it. Raises UsageError otherwise."""
    found = re.fullmatch(r"\s*([A-Za-z_0-9]+)\s*[=:]\s*(\S.*?)\s*", text)
    if found is None:
        raise UsageError(
            _("a setting is written NAME=VALUE, like expandable_segments=True; not {text}").format(text=repr(text))
        )
    return found[1], found[2]


def recorded_settings(recorded: Mapping[str, Any]) -> AllocatorSettings | None:
    """What a snapshot's allocator_settings say; None where it holds none, as snapshots before torch 2.1 do.

    Some options stand only in the text of the variable, so that is read first; what torch would refuse is left out.
    """
    if not isinstance(recorded.get("expandable_segments"), bool):
        return None
    settings = AllocatorSettings()
    for name, value in _assignments(str(recorded.get("PYTORCH_CUDA_ALLOC_CONF", ""))):
        if name in _OPTIONS:
            with suppress(UsageError):
                settings = _OPTIONS[name](settings, value)
    split, share = recorded.get("max_split_size"), recorded.get("garbage_collection_threshold")
    divisions = recorded.get("roundup_power2_divisions")
    return replace(
        settings,
        expandable_segments=recorded["expandable_segments"],
        max_split_bytes=split if isinstance(split, int) and split > 0 else None,
        garbage_collection_threshold=float(share) if isinstance(share, float) and 0 < share < 1 else 0.0,
        roundup_power2_divisions=_recorded_divisions(divisions)
        if isinstance(divisions, Mapping)
        else settings.roundup_power2_divisions,
    )


def _recorded_divisions(recorded: Mapping[Any, Any]) -> tuple[int, ...]:
    """A snapshot has them by the first MiB of the interval: {'1': 0, '2': 0, '4': 8, …}."""
    found = {str(key): value for key, value in recorded.items() if isinstance(value, int)}
    return tuple(found.get(str(1 << interval), 0) for interval in range(INTERVALS))


def _assignments(text: str) -> list[tuple[str, str]]:
    """The options of the variable. A list in brackets is one value."""
    return [(found[1], found[2]) for found in re.finditer(r"([a-z_0-9]+)\s*:\s*(\[[^\]]*\]|[^,]*)", text)]


def _megabytes(name: str, value: str, least: int) -> int:
    if not _WHOLE.fullmatch(value) or int(value) < least:
        raise UsageError(
            _("{name} is a whole number of MiB, at least {least}; not {value}").format(
                name=name, least=least, value=repr(value)
            )
        )
    return int(value) * MIB


def _expandable(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    if value not in ("True", "False"):
        raise UsageError(_("expandable_segments is True or False, spelled so; not {value}").format(value=repr(value)))
    return replace(settings, expandable_segments=value == "True")


def _max_split(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    return replace(settings, max_split_bytes=_megabytes("max_split_size_mb", value, 20))


def _non_split_rounding(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    return replace(settings, max_non_split_rounding_bytes=_megabytes("max_non_split_rounding_mb", value, 20))


def _large_segment(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    return replace(settings, large_segment_bytes=_megabytes("large_segment_size_mb", value, 20))


def _threshold(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    return replace(settings, garbage_collection_threshold=_share("garbage_collection_threshold", value, below_one=True))


def _fraction(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    return replace(settings, memory_fraction=_share("per_process_memory_fraction", value, below_one=False))


def _share(name: str, value: str, *, below_one: bool) -> float:
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1 or (below_one and share == 1):
        said = (
            _("{name} is above 0 and below 1; not {value}")
            if below_one
            else _("{name} is above 0 and at most 1; not {value}")
        )
        raise UsageError(said.format(name=name, value=repr(value)))
    return share


def _power_of_two(text: str) -> bool:
    return bool(_WHOLE.fullmatch(text)) and int(text) > 0 and not int(text) & (int(text) - 1)


def _divisions(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    """`8`, or `[256:1,512:2,1024:4,>:8]`: divisions by the first MiB of the interval, `>` for all that follow."""
    if not value.startswith("["):
        if not _power_of_two(value):
            raise UsageError(_("roundup_power2_divisions is a power of two; not {value}").format(value=repr(value)))
        return replace(settings, roundup_power2_divisions=(int(value),) * INTERVALS)
    divisions, last, first = [0] * INTERVALS, 0, True
    for pair in value.strip("[] ").split(","):
        start, _colon, number = (part.strip() for part in pair.partition(":"))
        if not (number == "0" or _power_of_two(number)) or not (start == ">" or _power_of_two(start)):
            raise UsageError(
                _("roundup_power2_divisions holds pairs of powers of two, like [256:1,>:4]; not {pair}").format(
                    pair=repr(pair)
                )
            )
        if start == ">":
            divisions[last:] = [int(number)] * (INTERVALS - last)
            continue
        last = min(int(start).bit_length() - 1, INTERVALS - 1)
        if first:
            divisions[:last] = [int(number)] * last
            first = False
        divisions[last] = int(number)
    return replace(settings, roundup_power2_divisions=tuple(divisions))


_OPTIONS: dict[str, Callable[[AllocatorSettings, str], AllocatorSettings]] = {
    "expandable_segments": _expandable,
    "max_split_size_mb": _max_split,
    "max_non_split_rounding_mb": _non_split_rounding,
    "roundup_power2_divisions": _divisions,
    "garbage_collection_threshold": _threshold,
    "large_segment_size_mb": _large_segment,
    "per_process_memory_fraction": _fraction,
}
