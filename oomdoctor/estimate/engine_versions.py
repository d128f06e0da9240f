"""What an older version of an engine does otherwise: vLLM's share of the card, its windows, its prefix cache."""

from __future__ import annotations

from dataclasses import replace

from ..knobs.versions import version_key
from .engines import VLLM
from .settings import Settings

_SMALLER_BEFORE, _SMALLER_FRACTION = "0.20", 0.90
"""vLLM took 0.90 of the card before this version."""
_TWO_STEPS_AT_ONCE = "0.26"
"""From this version on windows hold two steps (vllm-project/vllm#47728); two were under way since 0.14."""
_STATES_IN_PREFIX_CACHE = "0.27"
"""From this version on vLLM's prefix cache is on for models with states too (vllm-project/vllm#50991)."""


def of_version(settings: Settings, version: str | None) -> Settings:
    """The settings as the engine's version has them where nothing else was set; None: as the newest known has them.

    A text that is no version counts as none.
    """
    if settings.engine is not VLLM or version is None:
        return settings
    return replace(
        settings,
        fraction=_SMALLER_FRACTION if settings.fraction is None and _is_before(version, _SMALLER_BEFORE)
        else settings.fraction,
        prefix_states=False if settings.prefix_states is None and _is_before(version, _STATES_IN_PREFIX_CACHE)
        else settings.prefix_states,
        steps_at_once=1 if _is_before(version, _TWO_STEPS_AT_ONCE) else settings.steps_at_once,
    )  # fmt: skip


def _is_before(text: str, number: str) -> bool:
    version, before = version_key(text), version_key(number)
    return version is not None and before is not None and version < before
