"""GIVEN what a log says of the model and the input WHEN a request fails THEN its size is explained, or not at all."""

from __future__ import annotations

import io

import pytest

from oomdoctor.facts import derive_facts
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.readers.log.engine import read_log

CONFIGURATION = """
  "num_attention_heads": 32,
  "num_key_value_heads": 8,
  "vocab_size": 128256,
"""
TOO_LONG = (
    "Token indices sequence length is longer than the specified maximum sequence length for this model (8192 > 4096)."
    " Running this sequence through the model will result in indexing errors\n"
)
REFUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB. GPU 0 has a total capacity of 79.15 GiB of"
    " which 6.25 GiB is free."
)


def facts_of_log(text: str) -> FactSet:
    return derive_facts(Evidence(events=read_log(io.BytesIO(text.encode()), "a.log").events))


def test_a_rounded_figure_and_a_known_length():
    facts = facts_of_log(CONFIGURATION + TOO_LONG + REFUSED.format("8.00"))
    assert facts.value("request.factors") == "32 heads × 8192 × 8192 × 4 bytes"
    assert facts.value("request.factors_exact") is False
    assert facts.value("request.kind") == "scores"
    assert (facts.value("model.heads"), facts.value("model.kv_heads")) == (32, 8)


@pytest.mark.parametrize(
    "text",
    [
        CONFIGURATION + REFUSED.format("8.00"),  # of no known length
        TOO_LONG + REFUSED.format("8.00"),  # of a model that is not known
        CONFIGURATION + TOO_LONG + REFUSED.format("8.10"),  # another size
        CONFIGURATION + '  "num_attention_heads": 16,\n' + TOO_LONG + REFUSED.format("8.00"),  # of which model
    ],
)
def test_what_is_not_settled_is_not_told(text: str):
    assert facts_of_log(text).value("request.factors") is None


def test_bytes_that_are_printed_in_full_are_exact():
    refused = "RuntimeError: [enforce fail at alloc_cpu.cpp:80] . DefaultCPUAllocator: can't allocate memory: you tried"
    facts = facts_of_log(f"{CONFIGURATION}{refused} to allocate {33001 * 128256 * 4} bytes. Error code 12\n")
    assert facts.value("request.factors") == "33001 positions × 128256 words × 4 bytes"
    assert facts.value("request.factors_exact") is True
    assert "host.failed_request_bytes" in facts["request.factors"].source.derived_from


def test_dimensions_of_a_gguf_loader():
    facts = facts_of_log(
        "print_info: n_head           = 64\nprint_info: n_head_kv        = 8\nprint_info: n_layer = 80\n"
    )
    assert [facts.value(f"model.{name}") for name in ("heads", "kv_heads", "layers")] == [64, 8, 80]


def test_the_embedding_is_not_taken_for_logits():
    """Another rule would call a model's own matrix the logits of `hidden_size` tokens."""
    configuration = CONFIGURATION + '  "hidden_size": 4096,\n'
    refused = "RuntimeError: [enforce fail at alloc_cpu.cpp:80] . DefaultCPUAllocator: can't allocate memory: you tried"
    facts = facts_of_log(f"{configuration}{refused} to allocate {4096 * 128256 * 4} bytes. Error code 12\n")
    assert facts.value("request.kind") is None


@pytest.mark.parametrize(
    "frame",
    [
        '  File "/v/torch/nn/modules/conv.py", line 456, in _conv_forward\n    return F.conv2d(input, weight, bias)\n',
        '  File "/v/torch/nn/modules/sparse.py", line 190, in forward\n    return F.embedding(\n',
        '  File "/v/torch/nn/modules/linear.py", line 125, in forward\n    return F.linear(input, self.weight)\n',
        '  File "/v/modeling.py", line 20, in forward\n    return self.down_proj(self.act_fn(self.gate_proj(x)))\n',
    ],
)
def test_a_size_that_agrees_is_no_score_matrix_where_the_call_makes_none(frame: str):
    log = CONFIGURATION + TOO_LONG + "Traceback (most recent call last):\n" + frame + REFUSED.format("8.00")
    facts = facts_of_log(log)
    assert facts.value("activity.frame")
    assert facts.value("request.kind") is None
