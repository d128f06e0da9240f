"""GIVEN devices without a number, or of one nobody tells WHEN they are named THEN a person knows what is meant."""

from __future__ import annotations

import pytest

from oomdoctor.report import render
from oomdoctor.report.view import view_report

from .asked import ask

_MPS = (
    "RuntimeError: MPS backend out of memory (MPS allocated: 15.20 GiB, other allocations: 1.10 GiB, max allowed: "
    "18.13 GiB). Tried to allocate 2.50 GiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper "
    "limit for memory allocations (may cause system failure)."
)


def test_apples_device_is_called_by_its_name_and_asked_nothing_of_nvidia() -> None:
    found = ask(_MPS)
    view = view_report(found)
    assert view.headline == (
        "MPS (unified memory) ran out of memory: 2.50 GiB asked for, 15.20 GiB held by its tensors, 18.13 GiB allowed."
    )
    assert view.cause is not None
    assert view.cause.scope == "MPS (unified memory)"
    assert found.incidents[0].where == "mps:0"
    assert not {"nvidia-smi", "_record_memory_history", "mps:?"} & set(render(found, "markdown").split())


@pytest.mark.parametrize(("word", "kind"), [("XPU", "xpu"), ("NPU", "npu")])
def test_a_device_of_unknown_number_is_told_by_its_kind(word: str, kind: str) -> None:
    found = ask(f"RuntimeError: {word} out of memory. Tried to allocate 2.00 GiB")
    assert view_report(found).headline == f"{word} device of unknown number ran out of memory: 2.00 GiB asked for."
    assert found.incidents[0].where == f"{kind}:?"
    assert f"{kind}:?" not in render(found, "markdown")
    who = next(gap for gap in found.missing if gap.what == "who else was on the device")
    assert "of such only nvidia-smi's is read" in who.how_to_get_it


def test_a_number_that_is_told_stays() -> None:
    message = (
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 15.50 GiB"
        " of which 1.20 GiB is free."
    )
    assert view_report(ask(message)).headline.startswith("xpu:1 ran out of memory")
