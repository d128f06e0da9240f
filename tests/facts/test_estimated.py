"""GIVEN the settings of an incident WHEN its model or its engine's figures are known THEN estimate and truth meet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from estimate.files import write_config
from given import event, gib, mib, oom, run

from oomdoctor.estimate.budget import ACTIVATIONS, CACHE, OVERHEAD, WEIGHTS, budget_of
from oomdoctor.estimate.engines import VLLM
from oomdoctor.estimate.model_input import Model, read_model
from oomdoctor.estimate.settings import Settings
from oomdoctor.facts import derive_all, derive_facts
from oomdoctor.facts.asked_settings import asked_of
from oomdoctor.facts.estimated import estimated
from oomdoctor.model.devices import DeviceReading
from oomdoctor.model.estimated import Estimated
from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.source import Source
from oomdoctor.readers.inputs import read_inputs

SERVE = "vllm serve llama --max-model-len 29000 --max-num-seqs 8 --max-num-batched-tokens 29000"
CARD_OF_80 = oom(requested_bytes=gib(2), total_bytes=gib(80), free_bytes=gib(0.5))
CARD = oom(requested_bytes=gib(2), total_bytes=gib(23.58), free_bytes=gib(0.5))
WEIGHTS_LINE = event(EventKind.ENGINE_WEIGHTS, engine="vllm", weights_bytes=gib(14.99))
ROOM = event(EventKind.ENGINE_KV_AVAILABLE, engine="vllm", kv_bytes=gib(2.4))
POOL = event(EventKind.ENGINE_KV_POOL, engine="vllm", pool_tokens=19_660)


@pytest.fixture
def llama(tmp_path: Path) -> Model:
    return read_model(write_config(tmp_path))


def estimate_of(model: Model | None, *events: LogEvent, command: str | None = SERVE) -> Estimated | None:
    evidence = Evidence(events=events, command=command)
    return estimated(evidence, derive_facts(evidence, model), model).estimated


def test_it_is_what_the_estimate_says_of_these_settings(llama: Model) -> None:
    found = estimate_of(llama, CARD, WEIGHTS_LINE, ROOM, POOL)
    assert found is not None
    budget = budget_of(llama, Settings(VLLM, gib(23.58), 29_000, 8, step_tokens=29_000))
    parts = {part.what: part for part in found.parts}
    for name in (WEIGHTS, OVERHEAD, CACHE):
        assert parts[name].estimated_bytes == budget.part(name).bytes
    assert parts["room for the KV cache"].estimated_bytes == budget.pool_bytes
    assert parts["room for the KV cache"].observed_bytes == gib(2.4)
    assert parts["KV cache of one token"].estimated_bytes == 131_072
    assert parts[WEIGHTS].observed_bytes == gib(14.99)
    assert parts[OVERHEAD].observed_bytes is None
    assert found.sentences[0].startswith("These settings ask for 28.33 GiB of KV cache (8 x 29,000 tokens); this card")


def test_the_part_that_differs_is_named_where_the_difference_is_real(llama: Model) -> None:
    agrees = estimate_of(llama, CARD, WEIGHTS_LINE)
    differs = estimate_of(llama, CARD, event(EventKind.ENGINE_WEIGHTS, engine="vllm", weights_bytes=gib(19)))
    assert agrees is not None
    assert differs is not None
    assert agrees.sentences[-1] == "What was found agrees with the estimate."
    assert differs.sentences[-1] == "What differs most is weights: 14.96 GiB estimated, 19.00 GiB by the engine."


def test_what_fits_says_that_it_leaves_a_share_of_the_card_free(llama: Model) -> None:
    """The engine's own answer takes the whole pool: without that word a report has two lengths for one question."""
    found = estimate_of(llama, CARD, ROOM)
    assert found is not None
    assert "fits" in found.sentences[1]
    assert found.sentences[2].startswith("That leaves 10 % of the card free")


def test_what_rests_on_an_assumption_is_not_called_computed(llama: Model) -> None:
    """The room for the cache is the card's share less parts of which the process's own is assumed."""
    found = estimate_of(llama, CARD, ROOM)
    assert found is not None
    how = {part.what: part.how_estimated for part in found.parts}
    assert how["room for the KV cache"].startswith("assumed: what the engine may take")
    assert how["KV cache of one token"].startswith("computed:")


def test_a_window_holds_one_step_where_vllm_does_not_schedule_asynchronously(llama: Model, tmp_path: Path) -> None:
    (tmp_path / "windowed").mkdir()
    path = write_config(tmp_path / "windowed", model_type="mistral", sliding_window=4096)
    model = read_model(path, weights_bytes=gib(14))

    def cache_of(*more: LogEvent, words: str = "") -> int:
        found = estimate_of(model, CARD, ROOM, *more, command=f"{SERVE} --max-num-batched-tokens 512 {words}")
        assert found is not None
        return next(part.estimated_bytes for part in found.parts if part.what == CACHE)

    two, one = (16 * (-(-(4095 + 512 * steps) // 16) + 1) for steps in (2, 1))
    old = event(EventKind.VERSION, package="vllm", version="0.25.1")
    new = event(EventKind.VERSION, package="vllm", version="0.26.0")
    assert cache_of() * one == cache_of(words="--no-async-scheduling") * two
    assert cache_of(old) == cache_of(words="--no-async-scheduling")
    assert cache_of(new) == cache_of()


def test_vllm_s_step_goes_by_the_name_of_the_card_that_was_seen(llama: Model) -> None:
    def activations(name: str) -> int:
        reading = DeviceReading(0, Source(path="NVML"), name=name, total_bytes=gib(80))
        evidence = Evidence((CARD_OF_80,), runs=(run(device_readings=(reading,)),), command="vllm serve m")
        asked = asked_of(evidence, derive_facts(evidence), llama)
        assert asked is not None
        return budget_of(llama, asked.settings).part(ACTIVATIONS).bytes

    assert 4 * activations("NVIDIA A100-SXM4-80GB") == activations("NVIDIA H100 80GB HBM3")


def test_a_cache_kept_in_another_way_is_told_by_a_token(llama: Model) -> None:
    half = event(EventKind.ENGINE_KV_POOL, engine="vllm", pool_tokens=2 * 19_660)
    found = estimate_of(llama, CARD, ROOM, half)
    assert found is not None
    assert any(sentence.startswith("A token takes 64.") for sentence in found.sentences)
    told = estimate_of(llama, CARD, ROOM, half, command=f"{SERVE} --kv-cache-dtype fp8")
    assert told is not None
    assert not any(sentence.startswith("A token takes") for sentence in told.sentences)


def test_what_fits_is_not_longer_than_the_engine_itself_says() -> None:
    short = event(
        EventKind.ENGINE_KV_TOO_SMALL, engine="vllm", needed_tokens=131_072, needed_bytes=gib(16),
        available_bytes=gib(5.52), fitting_tokens=45_200,
    )  # fmt: skip
    found = estimate_of(None, short, command="vllm serve llama --max-model-len 131072")
    assert found is not None
    assert found.fitting_context == 45_200
    assert found.sentences[1] == "Context 45,200 at concurrency 1 fits."


def test_without_a_model_the_engines_own_figures_say_what_fits() -> None:
    found = estimate_of(None, CARD, ROOM, POOL)
    assert found is not None
    assert found.fitting_concurrency == 0
    # Of 19,660 / 8 tokens the whole pages.
    assert found.fitting_context == 153 * 16
    assert found.sentences[1] == f"Context {found.fitting_context:,} at concurrency 8 fits."
    assert estimate_of(None, CARD, ROOM, POOL, command="vllm serve llama --max-model-len 2000") is None


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("--pipeline-parallel-size 2", "divided between places"),
        ("--quantization bitsandbytes", "quantised as bitsandbytes"),
        ("--cpu-offload-gb 10", "--cpu-offload-gb"),
        ("--kv-cache-dtype strange", "--kv-cache-dtype strange"),
        ("--dtype int3", "--dtype is 'int3'"),
        ("-tp 7", "does not divide 32 attention heads"),
    ],
)
def test_settings_that_the_estimate_does_not_know_have_none_and_it_is_said(llama: Model, more: str, why: str) -> None:
    evidence = Evidence(events=(CARD, WEIGHTS_LINE), command=f"{SERVE} {more}")
    found, why_not = estimated(evidence, derive_facts(evidence, llama), llama)
    assert found is None
    assert why in (why_not or "")


@pytest.mark.parametrize(
    ("more", "weights", "token"),
    [
        ("", 2 * 8_030_261_248, 131_072),
        ("--dtype float32", 4 * 8_030_261_248, 262_144),
        ("--dtype half --kv-cache-dtype fp8_e4m3", 2 * 8_030_261_248, 65_536),
        ("--quantization fp8", 8_030_261_248 + 2 * 128_256 * 4096, 131_072),
    ],
)
def test_types_and_quantisation_are_those_of_the_launch_line(llama: Model, more: str, weights: int, token: int) -> None:
    found = estimate_of(llama, CARD, WEIGHTS_LINE, command=f"{SERVE} {more}")
    assert found is not None
    parts = {part.what: part.estimated_bytes for part in found.parts}
    assert (parts[WEIGHTS], parts["KV cache of one token"]) == (weights, token)


def test_an_engine_loads_float32_in_16_bits_where_no_type_is_named(tmp_path: Path) -> None:
    wide = read_model(write_config(tmp_path, torch_dtype="float32"))
    found = estimate_of(wide, CARD, WEIGHTS_LINE)
    assert found is not None
    assert found.parts[0].estimated_bytes == 2 * 8_030_261_248
    graphless = estimate_of(wide, CARD, WEIGHTS_LINE, command=f"{SERVE} --enforce-eager")
    assert graphless is not None
    rooms = [next(part for part in each.parts if part.what.startswith("room")) for each in (graphless, found)]
    assert rooms[0].estimated_bytes - rooms[1].estimated_bytes == VLLM.graph_bytes


def test_nothing_is_shown_where_card_or_engine_is_not_known(llama: Model) -> None:
    assert estimate_of(llama, WEIGHTS_LINE) is None
    assert estimate_of(llama, CARD, command="python train.py") is None
    assert estimate_of(None, CARD) is None


def test_the_context_of_llama_cpp_is_that_of_all_sequences(llama: Model) -> None:
    found = estimate_of(llama, CARD, command="llama-server -m model.gguf -c 32768 -np 4 -ctk q8_0 -ctv q8_0")
    assert found is not None
    assert found.settings.startswith("llama on llama.cpp: 4 x 8,192 tokens")
    assert next(part for part in found.parts if part.what == CACHE).estimated_bytes == 32_768 * 131_072 // 2 * 34 // 32
    assert estimate_of(llama, CARD, command="llama-server -m model.gguf -c 32768 -ngl 20") is None


def test_rules_may_ask_for_it(llama: Model) -> None:
    facts = derive_facts(Evidence(events=(CARD, WEIGHTS_LINE), command=SERVE), llama)
    assert facts.size("estimate.weights_bytes") == llama.weights_bytes
    assert facts.size("estimate.kv_bytes") == 8 * 29_008 * 131_072
    assert facts.size("estimate.fitting_concurrency") == 0
    assert facts.size("estimate.overhead_bytes") == mib(358)


def test_what_fits_is_told_by_the_room_that_the_engine_found(llama: Model) -> None:
    little = event(EventKind.ENGINE_KV_AVAILABLE, engine="vllm", kv_bytes=gib(1))
    found = estimate_of(llama, CARD, little, command="vllm serve llama --max-model-len 29000")
    assert found is not None
    assert found.fitting_concurrency == 0
    assert found.fitting_context is not None
    assert found.fitting_context <= gib(1) // 131_072
    assert "this card has 1.00 GiB left for it" in found.sentences[0]


KV_PAIRS = """llama_model_loader: - kv   0:                       general.architecture str              = llama
llama_model_loader: - kv   1:                               general.name str              = Meta Llama 3.1 8B
llama_model_loader: - kv   2:                          llama.block_count u32              = 32
llama_model_loader: - kv   3:                     llama.embedding_length u32              = 4096
llama_model_loader: - kv   4:                  llama.feed_forward_length u32              = 14336
llama_model_loader: - kv   5:                 llama.attention.head_count u32              = 32
llama_model_loader: - kv   6:              llama.attention.head_count_kv u32              = 8
llama_model_loader: - kv   7:     llama.attention.layer_norm_rms_epsilon f32              = 0.000010
llama_model_loader: - kv   8:                      tokenizer.ggml.tokens arr[str,128256]  = ["!", "#", ...
"""
LLAMA_CPP_LOG = """llama_model_load: CUDA0 model buffer size = 8403.49 MiB
llama_context: n_seq_max     = 4
llama_context: n_ctx         = 131072
llama_kv_cache:      CUDA0 KV buffer size = 16384.00 MiB
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: cudaMalloc failed: out of memory
"""


def of_log(tmp_path: Path, text: str) -> Estimated | None:
    path = tmp_path / "llama.log"
    path.write_text(text)
    evidence = read_inputs([path], command="llama-server -m model.gguf")
    evidence = replace(evidence, events=(*evidence.events, oom(total_bytes=gib(23.58), free_bytes=gib(1))))
    return derive_all(evidence)[1].estimated


def test_llama_cpp_prints_the_model_and_its_cache_is_estimated(tmp_path: Path) -> None:
    found = of_log(tmp_path, KV_PAIRS + LLAMA_CPP_LOG)
    assert found is not None
    assert found.settings.startswith("llama on llama.cpp: 4 x 32,768 tokens")
    parts = {part.what: part for part in found.parts}
    assert parts[CACHE].estimated_bytes == parts[CACHE].observed_bytes == 131_072 * 131_072
    assert WEIGHTS not in parts
    assert found.fitting_context is not None
    assert 0 < found.fitting_context < 32_768
    # The same model once more, as after a restart, is still one; so is one beside a projector of images.
    clip = KV_PAIRS.splitlines()[0].replace("llama\n", "").replace("= llama", "= clip")
    again = of_log(tmp_path, f"{clip}\n{KV_PAIRS}{KV_PAIRS}{LLAMA_CPP_LOG}")
    assert again is not None
    assert again.sentences == found.sentences


@pytest.mark.parametrize(
    "text",
    [
        LLAMA_CPP_LOG,
        KV_PAIRS.replace("u32              = 8\n", "arr[i32,32]      = [8, 8, 8, 8, ...\n") + LLAMA_CPP_LOG,
        KV_PAIRS.replace("llama.block_count u32              = 32", "llama.block_count u32              = 0")
        + LLAMA_CPP_LOG,
        KV_PAIRS + KV_PAIRS.replace("= 4096", "= 2048") + LLAMA_CPP_LOG,
        KV_PAIRS + "load_tensors: offloaded 20/33 layers to GPU\n" + LLAMA_CPP_LOG,
        KV_PAIRS + LLAMA_CPP_LOG + "llama_kv_cache:      CUDA1 KV buffer size = 16384.00 MiB\n",
    ],
    ids=["no model", "cut list", "no layers", "two models", "on the host", "two cards"],
)
def test_a_log_that_does_not_tell_the_model_has_no_estimate(tmp_path: Path, text: str) -> None:
    assert of_log(tmp_path, text) is None


def test_a_refusal_without_a_card_is_estimated_with_the_card_that_is_named(llama: Model) -> None:
    events = (WEIGHTS_LINE, ROOM, POOL)
    evidence = Evidence(events=events, command=SERVE, card_bytes=gib(23.58))
    found = estimated(evidence, derive_facts(evidence, llama), llama).estimated
    assert found is not None
    assert found.sentences[0].startswith("These settings ask for 28.33 GiB of KV cache (8 x 29,000 tokens); this card")


def test_a_model_that_is_given_does_not_take_the_engines_own_answer_away(llama: Model) -> None:
    events = (WEIGHTS_LINE, ROOM, POOL)
    alone, with_model = estimate_of(None, *events), estimate_of(llama, *events)
    assert alone is not None
    assert with_model == alone


def test_where_the_card_is_not_known_it_is_said(llama: Model) -> None:
    evidence = Evidence(events=(WEIGHTS_LINE,), command=SERVE)
    why = estimated(evidence, derive_facts(evidence, llama), llama).why_not
    assert why == "the card's size is not in the input; --gpu tells it"
