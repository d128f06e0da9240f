"""GIVEN the launch line of a server and a failed card WHEN facts are derived THEN the model's name tells its weights,
where nothing says that they have fewer bits."""

from __future__ import annotations

import pytest
from given import facts_of

from oomdoctor.diagnose.pipeline import diagnose

GIB = 1 << 30
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 300.00 MiB. GPU 0 has a total capacity of 39.39 GiB"
    " of which 20.00 MiB is free. Process 7 has 39.36 GiB memory in use. Of the allocated memory 38.80 GiB is allocated"
    " by PyTorch, and 1.00 MiB is reserved by PyTorch but unallocated."
)


def told(tmp_path, command):
    log = tmp_path / "serve.log"
    log.write_text(f"{OOM}\n", encoding="utf-8")
    findings = diagnose([log], command=command).findings
    found = next((one for one in findings if one.rule == "CAP001"), None)
    return None if found is None else (found.confidence.value, found.explain)


@pytest.mark.parametrize(
    ("command", "confidence", "size"),
    [
        ("vllm serve acme/Big-22B-Chat --dtype bfloat16", "likely", "40.98 GiB"),
        ("python -m vllm.entrypoints.openai.api_server --model /m/Small-12B --dtype=float", "likely", "44.70 GiB"),
        ("vllm serve acme/Big-70B", "possible", "130.39 GiB"),
    ],
)
def test_weights_by_the_name(tmp_path, command, confidence, size):
    said = told(tmp_path, command)
    assert said is not None
    assert said[0] == confidence
    assert size in said[1]


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve acme/Small-7B --dtype bfloat16",
        "vllm serve acme/Big-70B-AWQ",
        "vllm serve acme/Big-70B --quantization fp8",
        "vllm serve openai/gpt-oss-120b",
        "vllm serve acme/Big-70B --dtype bfloat16 --tensor-parallel-size 8",
        "vllm serve acme/Mix-8x22B --dtype bfloat16",
    ],
)
def test_a_name_that_does_not_tell(tmp_path, command):
    assert told(tmp_path, command) is None


@pytest.mark.parametrize(
    ("command", "least", "most"),
    [
        ("llama-cli -m models/Thing-3.2-1B-Instruct-IQ3_M.gguf", 0.5, 1.0),
        ("llama-server -hf some/Thing-7B-GGUF:Q8_0", 7.0, 12.0),
        ("llama-cli -m Thing-7B-F16.gguf", 14.0, 20.0),
        ("llama-cli -m Thing-7B.gguf", None, None),
        ("llama-cli -m thing-q4_0.gguf", None, None),
    ],
)
def test_how_much_a_file_can_hold_by_its_name(command, least, most):
    found = facts_of(command=command).size("model.named_file_bytes")
    if least is None:
        assert found is None
    else:
        assert least * 1e9 < found < most * 1e9


@pytest.mark.parametrize(
    ("name", "sees"),
    [
        ("Qwen2.5-VL-7B", True),
        ("llava-v1.6-7b", True),
        ("InternVL2-8B", True),
        ("Evlin-7B", False),
        ("Llama-3-8B", False),
    ],
)
def test_models_that_take_images_by_their_name(name, sees):
    assert bool(facts_of(command=f"vllm serve some/{name}").value("model.sees_images")) is sees
