"""GIVEN a change WHEN it is told THEN its bytes are measured against a request that failed, where one did."""

from __future__ import annotations

import pytest

from oomdoctor.report import render

from .asked import ask, first, sentences

_TWO_CARDS = """\
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   35C    P0              60W / 400W |   22000MiB / 40960MiB  |     80%      Default |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA A100-SXM4-40GB          On  |   00000000:0B:00.0 Off |                    0 |
| N/A   35C    P0              60W / 400W |   20000MiB / 40960MiB  |     80%      Default |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|=========================================================================================|
|    0   N/A  N/A      1001      C   python                                     20000MiB |
|    0   N/A  N/A      1002      C   python                                      1990MiB |
|    1   N/A  N/A      1002      C   python                                     19990MiB |
"""
_SMI = (
    "| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |\n"
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
    "|=========================================+========================+======================|\n"
)


def test_where_nothing_failed_no_change_has_to_be_enough() -> None:
    said = " ".join(render(ask(_SMI + _TWO_CARDS), "terminal").split())
    assert "Frees 1.94 GiB; no request failed here for which it would have to be enough." in said
    assert "whether that is enough is not known" not in said


def test_a_change_without_bytes_says_what_they_depend_on() -> None:
    found = ask(sentences("3.10 GiB", "900.00 MiB", "19.90 GiB", "1.41 GiB", own="22.77 GiB"))
    unknown = [each for finding in found.findings for each in finding.remedies if each.frees_bytes is None]
    of_bytes = [each for each in unknown if each.effect.value not in ("counts", "finds-out") and not each.simulated]
    assert of_bytes
    assert all(each.depends_on for each in of_bytes)
    assert "It depends on what the input does not show: " in " ".join(render(found, "markdown").split())


@pytest.mark.parametrize(("others", "confidence"), [("15.90 GiB", "possible"), (None, "likely")])
def test_a_profile_run_beside_others_who_hold_much_is_only_possible(others: str | None, confidence: str) -> None:
    used = "22.50 GiB" if others else "38.40 GiB"
    other = f"Process 4711 has {others} memory in use. " if others else ""
    log = (
        "INFO 05-02 10:00:01 [core.py:61] Initializing a V1 LLM engine (v0.9.2) with config: model='m'\n"
        "INFO 05-02 10:00:09 [gpu_model_runner.py:1255] Model loading took 14.0 GiB and 5.1 seconds\n"
        "ERROR 05-02 10:10:00 [core.py:500] Traceback (most recent call last):\n"
        'ERROR 05-02 10:10:00 [core.py:500]   File "/x/vllm/v1/worker/gpu_worker.py", line 205, in '
        "determine_available_memory\n"
        "ERROR 05-02 10:10:00 [core.py:500]     self.model_runner.profile_run()\n"
        "ERROR 05-02 10:10:00 [core.py:500] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. "
        f"GPU 0 has a total capacity of 39.39 GiB of which 900.00 MiB is free. {other}Including "
        f"non-PyTorch memory, this process has {used} memory in use. Of the allocated memory "
        f"{float(used[:5]) - 1.5:.2f} GiB is allocated by PyTorch, and 300.00 MiB is "
        "reserved by PyTorch but unallocated.\n"
    )
    found = ask(log)
    prefill = next(each for each in found.findings if each.rule == "ACT009")
    assert prefill.confidence.value == confidence
    if others:
        assert first(found).rule == "NBR001"


def test_a_server_that_swapped_until_the_swap_space_was_full_had_a_full_pool() -> None:
    found = ask(
        '  File "/v/vllm/entrypoints/llm.py", line 150, in _run_engine\n'
        "RuntimeError: Aborted due to the lack of CPU swap space. Please increase the swap space to avoid this error.\n"
    )
    assert first(found).cause == "kv-pressure"


@pytest.mark.parametrize(("off", "phase"), [("True", "warm-up"), ("False", "graph-capture")])
def test_after_the_pool_no_graphs_are_captured_where_they_are_turned_off(off: str, phase: str) -> None:
    found = ask(
        f"[2025-05-02 10:00:00] server_args=ServerArgs(model_path='m', disable_cuda_graph={off})\n"
        "[2025-05-02 10:00:06] Memory pool end. avail mem=9.20 GB\n"
        + sentences("2.00 GiB", "900.00 MiB", "20.90 GiB", "0.41 GiB", own="22.77 GiB")
    )
    assert found.facts.value("activity.phase") == phase
    assert (first(found).cause == "graph-capture") is (off == "False")


def test_what_an_engine_told_at_its_start_stands_beside_what_its_process_held() -> None:
    found = ask(
        "INFO 05-02 10:00:01 [core.py:61] Initializing a V1 LLM engine (v0.9.2) with config: model='m'\n"
        "INFO 05-02 10:00:20 [gpu_model_runner.py:1255] Model loading took 14.98 GiB and 5.1 seconds\n"
        "INFO 05-02 10:00:40 [gpu_worker.py:298] Available KV cache memory: 4.31 GiB\n"
        + sentences("2.00 GiB", "900.00 MiB", "20.90 GiB", "0.41 GiB", own="22.77 GiB")
    )
    [one] = [each for each in found.comparisons if "told at the start" in each.what]
    assert one.reckoned_bytes == round(14.98 * 2**30) + round(4.31 * 2**30)
    assert one.seen_bytes == round(22.77 * 2**30)
