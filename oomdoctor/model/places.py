"""The names of devices as people are told them; facts, JSON and rules keep `cuda:0`."""

from __future__ import annotations

from ..language import _, told

UNIFIED = "mps:0"
"""Apple's only device, which shares the machine's memory."""
_KINDS = {"cuda": "CUDA", "xpu": "XPU", "npu": "NPU", "mlu": "MLU", "neuron": "Neuron"}


def place_in_words(where: str) -> str:
    """`cuda:0` as it is; a device whose number nobody tells, and one that has none, by its kind."""
    if where == UNIFIED:
        return _("MPS (unified memory)")
    kind, _colon, number = where.partition(":")
    if number == "?" and kind in _KINDS:
        return _("{device} device of unknown number").format(device=_KINDS[kind])
    return told(where)
