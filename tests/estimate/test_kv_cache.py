"""GIVEN a configuration of a known model WHEN its cache is computed THEN it is what that model keeps, to the byte."""

from __future__ import annotations

from dataclasses import replace

import pytest
from estimate.model_table import MODELS, Known

from oomdoctor.errors import InputRefused
from oomdoctor.estimate.architecture import Architecture, Attention, Latent, State
from oomdoctor.estimate.dtypes import element_type
from oomdoctor.estimate.engines import engine_of, ranks_refused
from oomdoctor.estimate.hf_config import architecture_of
from oomdoctor.estimate.kv_cache import (
    CacheSettings,
    bytes_per_token,
    fixed_bytes,
    page_tokens,
    prompt_bytes,
    row_bytes,
    sequence_bytes,
    tokens_kept,
)


def settings_of(
    engine: str = "vllm", dtype: str = "bfloat16", state_dtype: str = "float32", **more: object
) -> CacheSettings:
    kept = element_type(dtype)
    made = CacheSettings(engine_of(engine), kept, kept, element_type(state_dtype), element_type("bfloat16"))
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("known", MODELS, ids=lambda known: known.name)
def test_a_token_and_a_sequence_of_a_known_model(known: Known) -> None:
    architecture = architecture_of(known.config, "config.json")
    settings = settings_of(known.engine, **known.settings)
    assert bytes_per_token(architecture, settings) == known.per_token
    assert fixed_bytes(architecture, settings, known.context) == known.fixed


def test_the_table_has_enough_families() -> None:
    families = {(known.config.get("text_config") or known.config)["model_type"] for known in MODELS}
    assert len(families) >= 25, sorted(families)


ROW = Attention(8, 128, 128)
WINDOWED = replace(ROW, window=1024)


def test_quantised_rows_have_their_scales() -> None:
    assert row_bytes(ROW, settings_of(dtype="q8_0")) == 2048 * 34 // 32
    assert row_bytes(ROW, settings_of(dtype="q4_0")) == 2048 * 18 // 32
    assert row_bytes(ROW, settings_of(dtype="nvfp4")) == 2048 * 9 // 16
    assert row_bytes(ROW, settings_of(dtype="fp8")) == 2048
    assert row_bytes(Attention(1, 40, 40), settings_of(dtype="q8_0")) == 2 * 2 * 34


def test_four_and_eight_bits_of_sglang() -> None:
    """SGLang 0.5.23: a scale a byte for 16 (nvfp4, fp4_mx_block16) or 32 values; nvfp4 unpacks one layer of all."""
    known = next(known for known in MODELS if known.config.get("model_type") == "llama")
    architecture = architecture_of(known.config, "config.json")
    row, layers = 2 * architecture.caches[0].kv_heads * architecture.caches[0].key_width, len(architecture.caches)
    packed = layers * row * 9 // 16
    assert bytes_per_token(architecture, settings_of("sglang", "fp4_mx_block16")) == packed
    assert bytes_per_token(architecture, settings_of("sglang", "fp4_e2m1")) == packed
    assert bytes_per_token(architecture, settings_of("sglang", "mxfp8")) == layers * row * 33 // 32
    assert bytes_per_token(architecture, settings_of("sglang", "nvfp4")) == packed + row
    assert bytes_per_token(architecture, settings_of("vllm", "nvfp4")) == packed


@pytest.mark.parametrize(
    ("indexer", "dtype", "expanded", "page"),
    [(0, "bfloat16", False, 16), (128, "bfloat16", False, 64), (0, "fp8", False, 64), (0, "fp8", True, 16)],
)
def test_a_page_of_latent_vectors_in_vllm(indexer: int, dtype: str, expanded: bool, page: int) -> None:
    """vLLM 0.33: sparse 64 on every card of NVIDIA, dense 16 (FlashAttention on Hopper), quantised 64 (FlashMLA)."""
    known = next(known for known in MODELS if known.config.get("model_type") == "deepseek_v3")
    config = {**known.config, "model_type": "deepseek_v32", "index_head_dim": indexer} if indexer else known.config
    architecture = architecture_of(config, "config.json")
    settings = settings_of("vllm", dtype, expanded=expanded)
    assert page_tokens(architecture, settings) == page
    assert sequence_bytes(architecture, settings, 1025) == (1024 + page) * bytes_per_token(architecture, settings)
    assert page_tokens(architecture, settings_of("sglang", dtype)) == 1


def test_fewer_kv_heads_than_ranks_are_repeated_and_a_latent_vector_is_not_divided() -> None:
    assert row_bytes(ROW, settings_of(tensor_parallel=4)) == 2 * 2 * 128 * 2
    assert row_bytes(ROW, settings_of(tensor_parallel=16)) == 2 * 1 * 128 * 2
    latent = Latent(512, 64, 128, 128, 128)
    assert row_bytes(latent, settings_of(tensor_parallel=8)) == 576 * 2
    assert settings_of(tensor_parallel=8).whole.tensor_parallel == 1


@pytest.mark.parametrize(
    ("engine", "context", "kept"),
    [
        ("transformers", 100, 100),
        ("transformers", 5000, 1023),
        # vLLM holds a step's tokens besides the window, in whole blocks, and one block more.
        ("vllm", 100, 112 + 16),
        ("vllm", 50_000, 3072 + 16),
        ("llama.cpp", 50_000, 3072),
        ("llama.cpp", 300, 512),
        ("sglang", 50_000, 50_000),
    ],
)
def test_what_a_window_keeps_is_the_engine_s_own(engine: str, context: int, kept: int) -> None:
    assert tokens_kept(WINDOWED, settings_of(engine), context) == kept


@pytest.mark.parametrize(
    ("chunk", "context", "kept"),
    [(2048, 100_000, 4096), (8192, 512, 512), (4096, 8192, 6144), (8192, 1_000_000, 10_240)],
)
def test_a_chunk_has_no_page_more_in_vllm(chunk: int, context: int, kept: int) -> None:
    """`ChunkedLocalAttentionSpec`: the chunk and the tokens of one step, in whole pages; a window has one page more."""
    layer = replace(ROW, window=chunk, chunked=True)
    assert tokens_kept(layer, settings_of(), context) == kept
    assert tokens_kept(replace(layer, chunked=False), settings_of(), context) == kept + 16


def test_llama_cpp_divides_layers_not_heads() -> None:
    """Also a latent vector and a state then lie on one card only."""
    caches = (*[ROW] * 4, Latent(512, 64, 128, 128, 128), State(8, 4, 100), State(8, 4, 100))
    architecture = Architecture("many", 7, caches, 1024, 8, 128, None, None)
    two = settings_of("llama.cpp", tensor_parallel=2)
    assert bytes_per_token(architecture, two) == 2 * 4096 + 576 * 2
    assert fixed_bytes(architecture, two, 100) == 100 * 4 + 8 * 3 * 2
    assert bytes_per_token(architecture, settings_of("llama.cpp", tensor_parallel=7)) == 4096 + 576 * 2


LLAMA = Architecture("llama", 32, (Attention(8, 128, 128),) * 32, 4096, 32, 128, None, None)


@pytest.mark.parametrize(
    ("engine", "ranks", "why"),
    [
        ("vllm", 7, "does not divide 32 attention heads"),
        ("sglang", 3, "does not divide 32 attention heads"),
        ("transformers", 7, "does not divide 32 attention heads"),
        # It repeats no KV head, which the others do.
        ("transformers", 16, "does not divide 8 KV heads"),
        ("vllm", 16, None),
        ("sglang", 16, None),
        ("transformers", 8, None),
        ("llama.cpp", 7, None),
        ("llama.cpp", 33, "only 32 layers"),
    ],
)
def test_ranks_that_an_engine_does_not_run_with(engine: str, ranks: int, why: str | None) -> None:
    refused = ranks_refused(engine_of(engine), LLAMA, ranks)
    assert refused is None if why is None else why in (refused or "")


def test_kv_heads_are_divided_or_repeated_evenly() -> None:
    six = replace(LLAMA, heads=24, caches=(Attention(6, 128, 128),) * 32)
    assert "neither be divided nor repeated" in (ranks_refused(engine_of("vllm"), six, 4) or "")
    assert ranks_refused(engine_of("vllm"), six, 12) is None
    latent = replace(LLAMA, heads=128, caches=(Latent(512, 64, 128, 128, 128),))
    assert ranks_refused(engine_of("transformers"), latent, 64) is None


def test_pages_are_whole() -> None:
    architecture = Architecture("llama", 1, (ROW,), 1024, 8, 128, None, None)
    assert sequence_bytes(architecture, settings_of("vllm"), 1) == 16 * 4096
    assert sequence_bytes(architecture, settings_of("vllm"), 17) == 32 * 4096
    assert sequence_bytes(architecture, settings_of("transformers"), 17) == 17 * 4096
    assert sequence_bytes(architecture, settings_of("llama.cpp"), 257) == 512 * 4096


def test_transformers_holds_a_whole_prompt_until_the_next_step() -> None:
    architecture = Architecture("mistral", 2, (ROW, WINDOWED), 1024, 8, 128, None, None)
    assert prompt_bytes(architecture, settings_of("transformers"), 5000) == (5000 - 1023) * 4096
    assert prompt_bytes(architecture, settings_of("vllm"), 5000) == 0


GOOD = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"model_type": None}, "model_type"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": 66}, "head_dim"),
        ({"model_type": "mistral"}, "num_key_value_heads"),
        ({"model_type": "never-heard-of"}, "num_key_value_heads"),
        ({"model_type": "gemma2", "num_key_value_heads": 2}, "head_dim"),
        ({"model_type": "qwen2", "num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 8},
         "max_window_layers"),
        ({"model_type": "never-heard-of", "head_dim": 16, "num_key_value_heads": 2, "sliding_window": 8},
         "sliding_window"),
        ({"model_type": "never-heard-of", "head_dim": 16, "num_key_value_heads": 2, "ssm_cfg": {"a": 1}}, "ssm_cfg"),
        ({"kv_lora_rank": 8}, "qk_rope_head_dim"),
        ({"model_type": "deepseek_v3", "num_key_value_heads": 4}, "kv_lora_rank"),
        ({"num_key_value_heads": 8}, "8 KV heads of 4 attention heads"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types names 3 layers"),
        ({"layer_types": ["full_attention", "telepathy"]}, "telepathy"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_window"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "the state that a layer of 'llama' keeps"),
        ({"model_type": "jamba", "num_key_value_heads": 2}, "attn_layer_period"),
        ({"model_type": "falcon", "new_decoder_architecture": True}, "num_kv_heads"),
        ({"model_type": "chatglm", "multi_query_attention": True}, "multi_query_group_num"),
        ({"num_hidden_layers": "two"}, "num_hidden_layers is 'two'"),
        ({"num_hidden_layers": -1}, "num_hidden_layers is '-1'"),
        ({"num_hidden_layers": True}, "num_hidden_layers is 'True'"),
        ({"num_hidden_layers": 10**9}, "1000000000 layers"),
        ({"num_kv_shared_layers": 9}, "num_kv_shared_layers"),
        ({"num_local_experts": 8, "intermediate_size": 8}, "num_experts_per_tok"),
        ({"model_type": "rwkv", "num_key_value_heads": 2}, "layers that are not attention"),
        ({"model_type": "gpt2", "add_cross_attention": True}, "encoder's output"),
        ({"is_encoder_decoder": True}, "encoder's output"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_with_the_field(changes: dict[str, object], missing: str) -> None:
    config = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    with pytest.raises(InputRefused, match=missing):
        architecture_of(config, "config.json")


@pytest.mark.parametrize("config", [None, [], "text", 3])
def test_what_is_no_configuration_is_refused(config: object) -> None:
    with pytest.raises(InputRefused, match="not a model's configuration"):
        architecture_of(config, "config.json")


def test_a_nested_object_without_dimensions_is_not_the_model() -> None:
    architecture = architecture_of({**GOOD, "text_config": {"torch_dtype": "float16"}}, "config.json")
    assert architecture.layers == 2
    assert architecture.assumptions == ()


def test_of_an_unknown_family_it_is_said_that_ordinary_attention_is_assumed() -> None:
    unknown = {**GOOD, "model_type": "never-heard-of", "head_dim": 16, "num_key_value_heads": 2}
    assert any("never-heard-of" in each for each in architecture_of(unknown, "config.json").assumptions)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sliding_window", 4096), ("attention_window", 128), ("kv_lora_rank", 512), ("latent_dim", 8),
        ("state_size", 16), ("num_kv_shared_layers", 2), ("share_kv_every", 2), ("cross_layer_attention", True),
        ("v_head_dim", 8), ("layer_types", ["full_attention", "sliding_attention"]), ("attn_layer_period", 4),
        ("index_head_dim", 128), ("swa_num_key_value_heads", 8), ("recurrent_layers", [1]), ("compress_ratio", 4),
        ("loop_num_passes", 2),
    ],
)  # fmt: skip
def test_a_field_of_an_unknown_family_that_may_change_what_is_kept_is_refused(name: str, value: object) -> None:
    unknown = {**GOOD, "model_type": "never-heard-of", "head_dim": 16, "num_key_value_heads": 2}
    with pytest.raises(InputRefused, match=f"its field {name} may change"):
        architecture_of({**unknown, name: value}, "config.json")
    # A field that is switched off says nothing.
    assert architecture_of({**unknown, name: None}, "config.json").unknown


def test_a_plain_unknown_family_is_counted_as_assumed() -> None:
    plain = {
        "model_type": "never-heard-of", "head_dim": 16, "num_key_value_heads": 2, "use_cache": True,
        "rope_scaling": {"factor": 8},
        "n_shared_experts": 1, "moe_layer_freq": 1, "layer_types": ["full_attention"] * 2, "sliding_window": 4096,
        "use_sliding_window": False, "max_window_layers": 28, "qkv_bias": True,
    }  # fmt: skip
    found = architecture_of({**GOOD, **plain}, "config.json")
    assert found.unknown
    assert bytes_per_token(found, settings_of()) == 2 * 2 * 2 * 16 * 2
    assert not architecture_of(GOOD, "config.json").unknown


def test_a_shared_indexer_keeps_no_keys_and_a_windowed_layer_may_have_more_heads() -> None:
    latent = {"kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4, "index_head_dim": 16}
    shared = {**GOOD, **latent, "model_type": "hy_v4", "indexer_types": ["full", "shared"]}
    assert bytes_per_token(architecture_of(shared, "config.json"), settings_of()) == (2 * 12 + 16) * 2
    mimo = {
        **GOOD, "model_type": "mimo_v2_flash", "num_key_value_heads": 2, "head_dim": 16, "v_head_dim": 8,
        "sliding_window": 4,
        "layer_types": ["full_attention", "sliding_attention"],
    }  # fmt: skip
    kept = {each.window: each.kv_heads for each in architecture_of(mimo, "config.json").caches}
    assert kept == {None: 2, 4: 4}


def test_a_default_of_a_nested_class_is_told() -> None:
    architecture = architecture_of({"model_type": "llava", "text_config": {"model_type": "llama"}}, "config.json")
    assert "num_hidden_layers = 32: not in the file, the default of its class" in architecture.assumptions


T5 = {
    "model_type": "t5", "d_model": 1024, "num_heads": 12, "num_layers": 10, "num_decoder_layers": 14,
    "is_encoder_decoder": True, "vocab_size": 32128,
}  # fmt: skip


@pytest.mark.parametrize("family", ["t5", "mt5", "umt5", "longt5"])
def test_the_head_width_that_a_flat_t5_leaves_out_is_that_of_its_class(family: str) -> None:
    """1024 / 12 would be 85; the class has 64, whatever the model's width."""
    architecture = architecture_of({**T5, "model_type": family}, "config.json")
    assert bytes_per_token(architecture, settings_of("transformers")) == 14 * 12 * (64 + 64) * 2 == 43_008
    assert architecture.assumptions == ("d_kv = 64: not in the file, the default of its class",)
    assert architecture.assumed
    assert not architecture_of({**T5, "d_kv": 64}, "config.json").assumed


def test_a_head_width_that_would_be_a_fraction_is_not_rounded() -> None:
    bart = {
        "model_type": "bart", "d_model": 1000, "decoder_layers": 2, "decoder_attention_heads": 16,
        "is_encoder_decoder": True,
    }  # fmt: skip
    with pytest.raises(InputRefused, match="1000 is not a multiple of 16 heads"):
        architecture_of(bart, "config.json")


@pytest.mark.parametrize("family", ["glm4_moe", "seed_oss", "zamba2", "ernie4_5"])
def test_a_head_width_of_its_own_is_not_divided_out(family: str) -> None:
    config = {
        "model_type": family, "num_hidden_layers": 2, "layer_types": ["full_attention"] * 2, "hidden_size": 5120,
        "num_attention_heads": 40, "num_key_value_heads": 8,
    }  # fmt: skip
    with pytest.raises(InputRefused, match="head_dim is missing, and for"):
        architecture_of(config, "config.json")


def test_a_field_of_a_nested_part_that_is_null_is_not_the_default_of_its_class() -> None:
    """As the files of models on Mistral-7B-v0.2 say of their window."""
    inner = {"model_type": "mistral", "sliding_window": None}
    config = {"model_type": "llava_next", "text_config": inner}
    assert set(architecture_of(config, "config.json").caches) == {Attention(8, 128, 128)}


FLAT = {
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 2880,
    "head_dim": 64,
}


@pytest.mark.parametrize(
    ("family", "window", "full"),
    [
        ("gpt_oss", 128, 12), ("gemma2", 4096, 12), ("gemma3_text", 4096, 4), ("gemma3n_text", 512, 4),
        ("cohere2", 4096, 6), ("olmo3", 4096, 6), ("mistral", 4096, 0), ("ministral", 4096, 0),
    ],
)  # fmt: skip
def test_a_flat_file_without_its_window_has_that_of_its_class(family: str, window: int, full: int) -> None:
    """gpt-oss-20b: 24,576 bytes a token, not the 49,152 of full attention in each layer."""
    # Gemma 3n's class lets 15 layers share; here none does.
    config = {**FLAT, "model_type": family, "num_kv_shared_layers": 0}
    architecture = architecture_of(config, "config.json")
    row = 8 * (64 + 64) * 2
    assert bytes_per_token(architecture, settings_of()) == full * row
    assert {each.window for each in architecture.caches if isinstance(each, Attention)} - {None} == {window}
    told = f"sliding_window = {window}: not in the file, the default of its class"
    assert told in architecture.assumptions
    assert architecture.assumed
    # Its own word counts, also where it says that there is none.
    assert bytes_per_token(architecture_of({**config, "sliding_window": None}, "c"), settings_of()) == 24 * row
    assert not architecture_of({**config, "sliding_window": None}, "c").kept_assumed
    assert not architecture_of({**config, "sliding_window": 8}, "c").kept_assumed


def test_a_flat_file_with_kinds_of_layers_but_no_window_has_that_of_its_class() -> None:
    kinds = ["sliding_attention", "full_attention"] * 12
    architecture = architecture_of({**FLAT, "model_type": "gpt_oss", "layer_types": kinds}, "config.json")
    assert bytes_per_token(architecture, settings_of()) == 24_576
    assert architecture.assumptions[0] == "sliding_window = 128: not in the file, the default of its class"


def test_a_window_that_counts_only_where_asked_for_is_not_assumed() -> None:
    assert not architecture_of({**FLAT, "model_type": "qwen3"}, "config.json").assumed
    asked = {**FLAT, "model_type": "qwen3", "use_sliding_window": True, "max_window_layers": 20}
    assert architecture_of(asked, "config.json").caches[-1] == Attention(8, 64, 64, 4096)


def test_which_layers_have_the_window_of_the_class_is_not_guessed() -> None:
    with pytest.raises(InputRefused, match="the field layer_types is missing"):
        architecture_of({**FLAT, "model_type": "cwm"}, "config.json")
    kinds = ["sliding_attention", "full_attention"] * 12
    architecture = architecture_of({**FLAT, "model_type": "cwm", "layer_types": kinds}, "config.json")
    assert architecture.caches[0] == Attention(8, 64, 64, 8192)
    assert architecture.kept_assumed
