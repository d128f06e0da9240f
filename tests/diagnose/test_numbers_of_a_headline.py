"""GIVEN what the cause rests on WHEN the verdict is put in a sentence THEN its numbers are in it."""

from __future__ import annotations

from oomdoctor.report.loose import view_loose

from .asked import ask

REFUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.39 GiB "
    "of which 512.00 MiB is free. Including non-PyTorch memory, this process has 38.88 GiB memory in use. Of the "
    "allocated memory 37.20 GiB is allocated by PyTorch, and 1.10 GiB is reserved by PyTorch but unallocated."
)
SERVED = """INFO [gpu_worker.py:319] Available KV cache memory: 10.12 GiB
INFO [kv_cache_utils.py:1229] GPU KV cache size: 94,784 tokens
ERROR [v1/engine/core.py:855] File "/opt/vllm/attention/ops/vit_attn_wrappers.py", line 147, in torch_sdpa_wrapper
torch.OutOfMemoryError: HIP out of memory.
"""


def printed(step_gib: float) -> str:
    rows = (
        f"[2026-11-30 22:{n // 2:02d}:{n % 2 * 30:02d},123] [INFO] [utils.py:782:see_memory_usage] "
        f"MA {7 + step_gib * n:.2f} GB         Max_MA {8 + step_gib * n:.2f} GB         "
        f"CA {9 + step_gib * n:.2f} GB         Max_CA {round(9 + step_gib * n)} GB"
        for n in range(60)
    )
    return "\n".join(rows) + f"\n2026-11-30 22:30:00,000 ERROR {REFUSED}\n"


def test_printed_memory_that_grew_is_told():
    summary = ask(printed(0.5)).summary
    assert "94 % of 39.39 GiB was live tensors of this process, and live memory grew by 29.00 GiB" in summary
    assert "2.00 GiB asked for, 512.00 MiB free" in summary


def test_printed_memory_that_stood_still_is_not_said_to_have_grown():
    assert "grew" not in ask(printed(0.0)).summary


def test_an_engine_that_names_no_device_has_its_pool_told():
    """GIVEN a bare refusal after a start THEN what was kept for keys and values is a number, and not what was free."""
    found = ask(SERVED)
    assert found.summary.startswith("Device out of memory: 10.12 GiB of room for keys and values at start.")
    loose = view_loose(found)
    assert loose is not None
    (figure,) = loose.figures
    assert (figure.name, figure.size) == ("room for keys and values at start", "10.12 GiB")
    assert figure.category.key == "kv"


def test_a_process_that_the_message_lists_was_seen():
    """GIVEN a message that lists who else holds memory THEN who was there is not missing, but what it is."""
    neighbour = REFUSED.replace("Including", "Process 77 has 20.00 GiB memory in use. Including")
    asked = {gap.what for gap in ask(neighbour.replace("38.88", "18.88").replace("37.20", "17.20")).missing}
    assert "what the other processes on the device are" in asked
    assert "who else was on the device" not in asked
    assert "who else was on the device" in {gap.what for gap in ask(REFUSED).missing}
