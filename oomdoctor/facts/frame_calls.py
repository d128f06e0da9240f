"""What the failing call itself does, by the line of code and the function that hold it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..model.run import StackFrame

_COMPUTES = re.compile(
    r"\b(?:torch|F|functional|tf|jnp|cp|cupy)\.(?:cat|concat|stack|matmul|mm|bmm|baddbmm|einsum|cdist|outer|kron|softmax"
    r"|exp|pow|where|repeat_interleave|meshgrid|fft\.\w{1,12}|conv\w{1,12}|dot|tensordot)\("
)
_ACCUMULATES = re.compile(r"(?P<kept>[\w.\[\]]{1,80})\s*=\s*\w{1,20}\.(?:cat|concat|stack)\(\s*[\[(]\s*(?P=kept)\s*,")
"""A result joined to what it is kept in: a store that grows, not a step."""
_MAKES_CONTEXT = re.compile(
    r"torch/cuda/__init__\.py\|(?:_lazy_init|init|set_device)\||torch\._C\._cuda_(?:init|setDevice)\("
)


def computes(frames: Iterable[StackFrame]) -> bool:
    """Whether the innermost frame that shows its code combines tensors into a new one."""
    code = next((frame.code for frame in reversed(list(frames)) if frame.code), "")
    return _COMPUTES.search(code) is not None and _ACCUMULATES.search(code) is None


def touches_device_first(frames: Iterable[StackFrame]) -> bool:
    """Whether the failing call made the process's context on the device: nothing of it can have been there before."""
    known = list(frames)
    return bool(known) and _MAKES_CONTEXT.search(_called(known[-1])) is not None


def _called(frame: StackFrame) -> str:
    return f"{frame.file}|{frame.function}|{frame.code}".replace("\\", "/")
