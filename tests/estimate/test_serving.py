"""GIVEN an engine that is not known to serve a family WHEN it is asked THEN the answer says so beside what fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from estimate.files import LLAMA_8B, write_config, write_llama_8b_gguf
from preflight.given import card, only, setup

from oomdoctor.cli.estimate import estimate
from oomdoctor.estimate.answer import answer_of
from oomdoctor.estimate.engines import ENGINES
from oomdoctor.estimate.hf_config import architecture_of
from oomdoctor.estimate.model_input import read_model
from oomdoctor.estimate.serving import not_served
from oomdoctor.estimate.settings import Settings
from oomdoctor.model.units import GIB
from oomdoctor.preflight.finding import Level
from oomdoctor.preflight.fit import check_fit
from oomdoctor.preflight.setup import Asked

T5 = {
    "model_type": "t5", "d_model": 1024, "num_heads": 16, "num_layers": 24, "num_decoder_layers": 24, "d_kv": 64,
    "d_ff": 2816, "feed_forward_proj": "gated-gelu", "is_encoder_decoder": True, "vocab_size": 32128,
    "torch_dtype": "float32", "tie_word_embeddings": False,
}  # fmt: skip
WHISPER = {
    "model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32, "vocab_size": 51866,
    "decoder_attention_heads": 20, "max_source_positions": 1500, "max_target_positions": 448, "torch_dtype": "float16",
    "decoder_ffn_dim": 5120, "encoder_ffn_dim": 5120, "is_encoder_decoder": True,
}  # fmt: skip


def why(engine: str, config: dict[str, Any], *, gguf: bool = False) -> str | None:
    return not_served(ENGINES[engine], architecture_of(config, "c"), gguf=gguf)


def test_what_is_said_of_an_encoder_decoder() -> None:
    assert why("transformers", T5) is None
    for engine, words in (("vllm", "of encoder-decoders it has had only Whisper since 0.11"),
                          ("sglang", "has only Whisper"), ("llama.cpp", "its server does not")):  # fmt: skip
        assert words in (why(engine, T5) or "")
    assert [why(engine, WHISPER) for engine in ("transformers", "vllm", "sglang")] == [None] * 3
    assert why("llama.cpp", WHISPER) == "llama.cpp is not known here to run whisper"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_family_that_every_engine_serves(engine: str) -> None:
    assert why(engine, LLAMA_8B) is None


@pytest.mark.parametrize("engine", ENGINES)
def test_a_family_that_nobody_knows(engine: str) -> None:
    said = why(engine, {**LLAMA_8B, "model_type": "windmill", "head_dim": 128})
    assert said is not None
    assert "windmill" in said


def test_what_is_not_known_is_no_no() -> None:
    """vLLM has a class for InternLM2, transformers has none."""
    config = {**LLAMA_8B, "model_type": "internlm2"}
    assert why("vllm", config) is None
    assert why("sglang", config) == "whether SGLang serves internlm2 is not known here"
    assert "own code" in (why("transformers", config) or "")


def test_a_family_that_an_engine_had_once() -> None:
    said = why("vllm", {**LLAMA_8B, "model_type": "baichuan"})
    assert said == "vLLM has no class for baichuan any more: 0.23 was the last with one"


def test_the_answer_says_it_first(tmp_path: Path) -> None:
    path = write_config(tmp_path, **T5)
    for form in ("terminal", "md", "html"):
        told = CliRunner().invoke(estimate, [str(path), "--gpu", "80GiB", "--engine", "vllm", "--format", form])
        assert "It fits" in told.output
        assert "But vLLM serves no t5" in told.output
    told = CliRunner().invoke(estimate, [str(path), "--gpu", "80GiB", "--engine", "vllm", "--format", "json"])
    assert "serves no t5" in json.loads(told.output)["not_served"]
    told = CliRunner().invoke(estimate, [str(path), "--gpu", "80GiB", "--format", "json"])
    assert json.loads(told.output)["not_served"] is None


def test_check_says_it_too(tmp_path: Path) -> None:
    path = write_config(tmp_path, **T5)
    found = list(check_fit(setup("vllm", "serve", "m", cards=(card(),), asked=Asked(model=path))))
    told = only(found, "fit.engine")
    assert (told.level, told.seen) == (Level.WARN, "vllm is not known to serve t5")
    assert told.why.startswith("vLLM serves no t5")
    plain = write_config(tmp_path / "llama")
    found = list(check_fit(setup("vllm", "serve", "m", cards=(card(),), asked=Asked(model=plain))))
    assert not [each for each in found if each.check == "fit.engine"]


def test_a_gguf_file_is_llama_cpps(tmp_path: Path) -> None:
    write_llama_8b_gguf(tmp_path / "m.gguf")
    model = read_model(tmp_path / "m.gguf")
    answers = {name: answer_of(model, Settings(each, 80 * GIB, 64, 1)).not_served for name, each in ENGINES.items()}
    assert answers["llama.cpp"] is None
    assert all(answers[name] for name in ("transformers", "vllm", "sglang"))


def test_where_nothing_tells_the_longest_context_it_is_said(tmp_path: Path) -> None:
    path = write_config(tmp_path, max_position_embeddings=None)
    told = CliRunner().invoke(estimate, [str(path), "--gpu", "80GiB"]).output
    assert "assumed: a context of 4,096 tokens" in " ".join(told.split())
    told = CliRunner().invoke(estimate, [str(path), "--gpu", "80GiB", "--context", "9000"]).output
    assert "no field tells the longest context" in " ".join(told.split())
    found = only(check_fit(setup("vllm", "serve", "m", cards=(card(),), asked=Asked(model=path))), "fit")
    assert "assumed: neither the model nor the command tells a length" in found.seen
