"""Versions of the packages that settings depend on, as environment reports and lists of packages print them."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .statement import event

_VERSION = r"v?(?P<version>[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9a-z]{1,12}){0,4}(?:\+[0-9A-Za-z.]{1,30})?)"
_PACKAGES = "torch|transformers|vllm|sglang|deepspeed|lmdeploy"
_PINNED = rf"^\s*(?:\[(?:pip3?|conda)\] *|[|>`*-] {{0,2}})?(?P<package>{_PACKAGES})=={_VERSION}\s*(?:$|[ ,;|`])"
"""As `pip freeze` and environment reports list what is installed; in the middle of a line it may be a requirement."""
_LISTED = rf"^\s*(?P<package>(?i:pytorch|{_PACKAGES}))(?: {{1,60}}|: {{1,9}}){_VERSION}\s*(?:$| py[0-9a-z_.]{{1,60}})"
"""As `pip list`, `conda list` and people write it, alone on the line."""
_LISTED_BY = (
    *(f"{package}  " for package in ("torch", "transformers", "vllm", "sglang", "deepspeed", "lmdeploy")),
    *("torch 1.", "torch 2.", "Torch 1.", "Torch 2.", "torch: 2.", "transformers 4.", "transformers 5."),
    *("vllm 0.", "vLLM 0.", "sglang 0.", "deepspeed 0."),
)


def _named(match: re.Match[str], line: Line) -> LogEvent:
    package = match.groupdict().get("package") or "torch"
    return event(
        EventKind.VERSION, line, package=_NAMES.get(package.lower(), package.lower()), version=match["version"]
    )


_NAMES = {"pytorch": "torch"}

FAMILY = Family(
    "versions",
    (
        *(Pattern(f"{package}==", _PINNED, _named) for package in _PACKAGES.split("|")),
        *(Pattern(anchor, _LISTED, _named) for anchor in _LISTED_BY),
        Pattern("PyTorch version", rf"PyTorch version(?: \(GPU\?\))?: {{1,20}}{_VERSION}", _named),
        Pattern(
            " version: ",
            rf"`?(?P<package>(?i:{_PACKAGES}))`? version: {{1,20}}{_VERSION}",
            _named,
            led_by=rf"(?i:{_PACKAGES})`?",
        ),
        Pattern(" Version: ", rf"\b(?P<package>vLLM|SGLang) Version: {{1,20}}{_VERSION}", _named),
        Pattern("sglang: ", rf"^\s*(?P<package>sglang): {_VERSION}\s*$", _named),
        Pattern("PyTorch: ", rf"^\s*(?P<package>PyTorch): {_VERSION}\s*$", _named),
    ),
)
