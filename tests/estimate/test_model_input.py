"""GIVEN a model's files WHEN they are read THEN the bytes are exactly those of the headers, and nonsense is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from estimate.files import write_config, write_gguf, write_safetensors

from oomdoctor.errors import InputRefused
from oomdoctor.estimate.architecture import Attention, Latent, State
from oomdoctor.estimate.budget import ACTIVATIONS, CACHE, budget_of
from oomdoctor.estimate.engines import LLAMA_CPP
from oomdoctor.estimate.loading import quantised_at_load
from oomdoctor.estimate.model_input import read_model
from oomdoctor.estimate.settings import Settings


def test_a_configuration_alone_counts_its_parameters(tmp_path: Path) -> None:
    model = read_model(write_config(tmp_path))
    assert model.parameters == 8_030_261_248
    assert model.weights_bytes == 2 * 8_030_261_248
    assert read_model(tmp_path, "fp32").weights_bytes == 4 * 8_030_261_248


def test_a_directory_is_its_headers_whatever_the_configuration_would_give(tmp_path: Path) -> None:
    write_config(tmp_path)
    first = write_safetensors(tmp_path / "model-00001-of-00002.safetensors", a=("BF16", [10, 20]), b=("F32", [7]))
    second = write_safetensors(tmp_path / "model-00002-of-00002.safetensors", c=("U8", [33]))
    # The same weights once more, as Mistral publishes them.
    write_safetensors(tmp_path / "consolidated.safetensors", a=("BF16", [10, 20]))
    model = read_model(tmp_path)
    assert model.weights_bytes == first + second == 2 * 200 + 4 * 7 + 33
    assert model.parameters == 240
    # Floats are cast, a quantised tensor stays as it is.
    assert read_model(tmp_path, "fp32").weights_bytes == 4 * 207 + 33


def test_an_index_leads_to_its_shards_or_gives_the_total(tmp_path: Path) -> None:
    write_config(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 999}, "weight_map": {"a": "one.safetensors"}}))
    assert read_model(index).weights_bytes == 999
    assert read_model(tmp_path).weights_bytes == 999
    size = write_safetensors(tmp_path / "one.safetensors", a=("F16", [50]))
    assert read_model(index).weights_bytes == size == 100


def test_parts_that_are_not_all_there_do_not_pass_for_the_whole(tmp_path: Path) -> None:
    write_config(tmp_path)
    write_safetensors(tmp_path / "model-00001-of-00002.safetensors", a=("F16", [50]))
    with pytest.raises(InputRefused, match="1 of its 2 parts"):
        read_model(tmp_path)
    index = {
        "metadata": {"total_size": 300},
        "weight_map": {name: f"model-0000{part}-of-00002.safetensors" for part, name in ((1, "a"), (2, "b"))},
    }
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert read_model(tmp_path).weights_bytes == 300
    write_safetensors(tmp_path / "model-00002-of-00002.safetensors", b=("F16", [100]))
    write_safetensors(tmp_path / "of-something-else.safetensors", c=("F16", [7]))
    assert read_model(tmp_path).weights_bytes == 300


def test_a_configuration_beside_its_shards_has_their_bytes_not_the_total_of_the_index(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    names = [f"model-0000{each}-of-00002.safetensors" for each in (1, 2)]
    held = [write_safetensors(tmp_path / name, **{name[:11]: ("F16", [100])}) for name in names]
    index: dict[str, dict[str, Any]] = {
        "metadata": {"total_size": 999},
        "weight_map": {name[:11]: name for name in names},
    }
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    model = read_model(config)
    assert (model.weights_bytes, model.weights_known) == (sum(held), "computed") == (400, "computed")
    (tmp_path / names[0]).unlink()
    model = read_model(config)
    assert (model.weights_bytes, model.weights_known) == (999, "assumed")
    assert model.weights_source == "total_size of the safetensors index; 1 of its 2 shards are not there"
    index["metadata"]["total_size"] = 199
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputRefused, match="its total_size is 199 bytes, the shards that are there hold 200"):
        read_model(config)


@pytest.mark.parametrize(
    ("changes", "parameters"),
    [({}, 737_668_096), ({"feed_forward_proj": "gated-gelu", "d_ff": 2816, "tie_word_embeddings": False}, 783_150_080)],
)
def test_t5_tells_its_matrices_by_the_activation(tmp_path: Path, changes: dict[str, Any], parameters: int) -> None:
    t5 = {
        "model_type": "t5", "d_model": 1024, "d_kv": 64, "d_ff": 4096, "num_heads": 16, "num_layers": 24,
        "num_decoder_layers": 24, "vocab_size": 32128, "is_encoder_decoder": True, "torch_dtype": "float32",
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**t5, **changes}))
    assert read_model(path).parameters == pytest.approx(parameters, rel=0.03)


def test_a_nested_part_has_the_longest_context_of_its_class(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    inner = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024}
    path.write_text(json.dumps({"model_type": "gemma3", "text_config": inner, "torch_dtype": "bfloat16"}))
    assert read_model(path).architecture.longest == 131_072


@pytest.mark.parametrize("dense", [62, -1, 10**300, "3"])
def test_more_dense_layers_than_layers_are_refused(tmp_path: Path, dense: object) -> None:
    path = write_config(
        tmp_path, num_local_experts=8, num_experts_per_tok=2, moe_intermediate_size=512, first_k_dense_replace=dense
    )
    with pytest.raises(InputRefused, match="first_k_dense_replace"):
        read_model(path)


def test_one_safetensors_file_is_enough(tmp_path: Path) -> None:
    write_config(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", a=("F16", [50]))
    assert read_model(tmp_path / "model.safetensors").weights_bytes == 100


def test_quantised_weights_are_not_counted_from_a_configuration(tmp_path: Path) -> None:
    path = write_config(tmp_path, quantization_config={"quant_method": "a new one"})
    with pytest.raises(InputRefused, match="--weights"):
        read_model(path)
    assert read_model(path, weights_bytes=5).weights_bytes == 5


GPT_OSS_120B = {
    "model_type": "gpt_oss", "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 64, "hidden_size": 2880, "intermediate_size": 2880, "vocab_size": 201_088, "sliding_window": 128,
    "num_local_experts": 128, "num_experts_per_tok": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # All but the two embeddings in one byte.
        ({"quantization_config": {"quant_method": "fp8"}}, 8_030_261_248 + 2 * 128_256 * 4096),
        ({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}, 5_721_370_000),
        # The published files have 65.25 GB.
        ({**GPT_OSS_120B, "quantization_config": {"quant_method": "mxfp4"}}, 65_250_000_000),
    ],
)
def test_a_quantised_configuration_alone_is_an_assumption(
    tmp_path: Path, changes: dict[str, Any], expected: int
) -> None:
    model = read_model(write_config(tmp_path, **changes))
    assert model.weights_known == "assumed"
    assert model.weights_bytes == pytest.approx(expected, rel=0.01)


def test_a_type_that_it_is_loaded_in_changes_the_floats_only(tmp_path: Path) -> None:
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    model = read_model(write_config(tmp_path, quantization_config=awq))
    plain = 2 * 128_256 * 4096
    assert read_model(tmp_path, "fp32").weights_bytes == model.weights_bytes + 2 * plain
    # Only the total is known: what of it would be cast is not.
    index = {"metadata": {"total_size": 999}, "weight_map": {"a": "one.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputRefused, match="only the total"):
        read_model(tmp_path, "fp32")
    assert read_model(tmp_path, "bf16").weights_bytes == 999


@pytest.mark.parametrize(
    ("stored", "asked", "expected"),
    [
        (None, "fp8", 8_030_261_248 + 2 * 128_256 * 4096),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq_marlin", None),
        ({"quant_method": "compressed-tensors"}, "compressed-tensors", None),
    ],
)
def test_an_engine_quantises_floats_and_takes_what_is_quantised_as_it_is(
    tmp_path: Path, stored: dict[str, Any] | None, asked: str, expected: int | None
) -> None:
    write_config(tmp_path, **({} if stored is None else {"quantization_config": stored}))
    if stored is not None:
        write_safetensors(tmp_path / "model.safetensors", a=("I32", [100]), b=("BF16", [10]))
    model = read_model(tmp_path)
    found = quantised_at_load(model, asked)
    assert found.weights_bytes == (model.weights_bytes if expected is None else expected)
    for other in ("bitsandbytes", "gptq"):
        with pytest.raises(InputRefused, match=r"not known here|not as"):
            quantised_at_load(model, other)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"quantization_config": "fp8"}, "quantization_config is 'fp8', not an object"),
        ({"quantization_config": [1]}, "not an object"),
        ({"torch_dtype": "int3"}, "dtype is 'int3'"),
        ({"torch_dtype": 16}, "dtype is '16'"),
        ({"torch_dtype": "q8_0"}, "one of quantised blocks"),
        (
            {"model_type": "mamba", "mamba_ssm_cache_dtype": "float7", "state_size": 8, "conv_kernel": 4, "expand": 2},
            "mamba_ssm_cache_dtype is 'float7'",
        ),
    ],
)
def test_a_field_that_says_nothing_known_is_bad_input_not_wrong_usage(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(InputRefused, match=why):
        read_model(write_config(tmp_path, **changes))


def test_what_is_not_counted_is_told(tmp_path: Path) -> None:
    path = write_config(tmp_path, vision_config={"hidden_size": 8})
    assert read_model(path).weights_source.endswith("counted from config.json, without the vision encoder")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"vocab_size": None}, "vocab_size"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"torch_dtype": None}, "--dtype"),
    ],
)
def test_what_the_weights_need_is_named(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    with pytest.raises(InputRefused, match=why):
        read_model(write_config(tmp_path, **change))


def safetensors(header: object, data: int = 100) -> bytes:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text + bytes(data)


HOSTILE = {
    "empty": b"",
    "short": b"\x01",
    "a huge header": struct.pack("<Q", 1 << 60) + b"{}",
    "a header longer than the file": struct.pack("<Q", 1000) + b"{}",
    "not JSON": safetensors(b"{" * 10),
    "deep": safetensors(b"[" * 100_000),
    "a list": safetensors([1, 2]),
    "no shape": safetensors({"a": {"dtype": "F16", "data_offsets": [0, 2]}}),
    "outside the file": safetensors({"a": {"dtype": "F16", "shape": [1000], "data_offsets": [0, 2000]}}),
    "backwards": safetensors({"a": {"dtype": "F16", "shape": [1], "data_offsets": [4, 2]}}),
    "another size": safetensors({"a": {"dtype": "F16", "shape": [9], "data_offsets": [0, 2]}}),
    "negative": safetensors({"a": {"dtype": "F16", "shape": [-1], "data_offsets": [0, 2]}}),
    "words": safetensors({"a": {"dtype": "F16", "shape": ["x"], "data_offsets": [0, 2]}}),
    "a type of another kind": safetensors({"a": {"dtype": [], "shape": [1], "data_offsets": [0, 2]}}),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_broken_safetensors_file_is_refused(tmp_path: Path, content: bytes) -> None:
    write_config(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(InputRefused, match=r"model\.safetensors"):
        read_model(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "[", "[" * 100_000, "3", '{"weight_map": 3}', '{"weight_map": {"a": "../../x"}}']
)
def test_a_broken_index_is_refused(tmp_path: Path, content: str) -> None:
    write_config(tmp_path)
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(content)
    with pytest.raises(InputRefused):
        read_model(path)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", tmp_path / "x.safetensors"):
        with pytest.raises(InputRefused):
            read_model(path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputRefused, match="neither a GGUF file"):
        read_model(tmp_path / "notes.txt")


def metadata(family: str = "llama", **more: object) -> dict[str, object]:
    found: dict[str, object] = {
        "block_count": 4, "context_length": 4096, "embedding_length": 64, "feed_forward_length": 128,
        "attention.head_count": 4, "attention.head_count_kv": 2,
    }  # fmt: skip
    keys = {f"{family}.{name}": value for name, value in {**found, **more}.items() if value is not None}
    return {"general.architecture": family, "tokenizer.ggml.tokens": ["a", "b", "c"], **keys}


def test_a_gguf_file_tells_bytes_by_block_and_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    tensors = {"a": (12, [256, 4], 4 * 144), "b": (0, [10], 40), "c": (8, [64, 2], 4 * 34)}
    write_gguf(path, metadata(), tensors)
    model = read_model(path)
    assert model.weights_bytes == 4 * 144 + 40 + 4 * 34
    assert model.parameters == 1024 + 10 + 128
    assert model.architecture.caches == (Attention(2, 16, 16),) * 4
    assert model.architecture.vocabulary == 3
    assert model.architecture.longest == 4096


def test_gguf_windows_states_and_latent_vectors(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    wide = {"attention.key_length": 32, "attention.value_length": 24}
    write_gguf(path, metadata("gemma2", **{"attention.sliding_window": 8}, **wide), {})
    assert read_model(path).architecture.caches == (Attention(2, 32, 24, 8), Attention(2, 32, 24)) * 2
    ssm = {"ssm.state_size": 8, "ssm.inner_size": 128, "ssm.conv_kernel": 4, "ssm.group_count": 1}
    write_gguf(path, metadata("jamba", **{"attention.head_count_kv": [0, 2, 0, 0]}, **ssm), {})
    state = State(128 + 16, 4, 1024)
    assert read_model(path).architecture.caches == (state, Attention(2, 16, 16), state, state)
    latent = {
        "attention.kv_lora_rank": 32, "rope.dimension_count": 8, "attention.key_length_mla": 24,
        "attention.value_length_mla": 16, "attention.key_length": 40, "attention.head_count_kv": 1,
    }  # fmt: skip
    write_gguf(path, metadata("deepseek2", **latent), {})
    assert read_model(path).architecture.caches == (Latent(32, 8, 4, 16, 16),) * 4
    # An older file has keys and values of every head.
    older = {"attention.kv_lora_rank": 32, "attention.key_length": 24, "attention.value_length": 16}
    write_gguf(path, metadata("deepseek2", **older, **{"attention.head_count_kv": 4}), {})
    assert read_model(path).architecture.caches == (Attention(4, 24, 16),) * 4


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"block_count": None}, "block_count"),
        ({"embedding_length": None}, "embedding_length"),
        ({"attention.head_count": None}, "attention.head_count"),
        ({"attention.sliding_window": 8, "family": "unheard"}, "sliding_window_pattern"),
        ({"ssm.state_size": 8}, "ssm.inner_size"),
        ({"attention.head_count_kv": [1, 2]}, "head_count_kv"),
    ],
)
def test_a_gguf_key_that_is_missing_is_named(tmp_path: Path, changes: dict[str, object], missing: str) -> None:
    path = tmp_path / "model.gguf"
    family = str(changes.pop("family", "llama"))
    write_gguf(path, metadata(family, **changes), {})
    with pytest.raises(InputRefused, match=missing):
        read_model(path)


def test_a_gguf_key_that_may_change_what_is_kept_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    for key in ("attention.indexer.head_count", "wkv.head_size", "attention.compress_ratio", "shortconv.l_cache"):
        write_gguf(path, metadata("llama", **{key: 4}), {})
        with pytest.raises(InputRefused, match=f"the key llama.{key} may change"):
            read_model(path)


def test_gguf_convolutions_and_windows_of_another_width(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    lists = {"attention.head_count_kv": [0, 2], "shortconv.l_cache": 3, "block_count": 2}
    write_gguf(path, metadata("lfm2", **lists), {})
    kept = read_model(path).architecture.caches
    assert isinstance(kept[0], State)
    assert (kept[0].conv_kernel, kept[0].recurrent_elements) == (3, 0)
    assert isinstance(kept[1], Attention)
    swa = {"attention.sliding_window": 8, "attention.key_length_swa": 16, "attention.value_length_swa": 16}
    write_gguf(path, metadata("gemma3", **swa), {})
    widths = {
        each.window: each.key_width for each in read_model(path).architecture.caches if isinstance(each, Attention)
    }
    assert widths[8] == 16
    assert widths.get(None) != 16


def test_one_part_stands_for_all_parts_of_a_model(tmp_path: Path) -> None:
    write_config(tmp_path)
    first, second = (tmp_path / f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    total = write_safetensors(first, a=("BF16", [4, 4])) + write_safetensors(second, b=("BF16", [8, 4]))
    assert read_model(first).weights_bytes == read_model(second).weights_bytes == total
    second.unlink()
    with pytest.raises(InputRefused, match="1 of its 2 parts are there"):
        read_model(first)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": {}}))
    assert read_model(first).weights_bytes == total


def test_all_parts_of_a_split_gguf_are_needed(tmp_path: Path) -> None:
    first, second = tmp_path / "m-00001-of-00002.gguf", tmp_path / "m-00002-of-00002.gguf"
    write_gguf(first, metadata(), {"a": (0, [10], 40)})
    with pytest.raises(InputRefused, match="not all of its 2 parts"):
        read_model(first)
    write_gguf(second, {"split.no": 1}, {"b": (0, [20], 80)})
    assert read_model(first).weights_bytes == 120


def test_an_unknown_architecture_of_a_gguf_file_is_assumed_and_said_so(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    for family, assumed in (("llama", False), ("zorb", True)):
        write_gguf(path, metadata(family), {"a": (0, [10], 40)})
        model = read_model(path)
        budget = budget_of(model, Settings(LLAMA_CPP, 1 << 30, 256, 1))
        assert budget.kv_bytes_per_token == 4 * 2 * 2 * 16 * 2
        assert budget.part(CACHE).known == budget.part(ACTIVATIONS).known == ("assumed" if assumed else "computed")
        assert any("'zorb' is not known here" in each for each in model.architecture.assumptions) == assumed


def test_a_window_that_a_gguf_file_leaves_out_is_what_llama_cpp_takes(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    for family, window, words in (("gemma2", 4096, "4096"), ("gemma3", None, "none")):
        write_gguf(path, metadata(family), {})
        found = read_model(path).architecture
        assert {each.window for each in found.caches if isinstance(each, Attention)} == {None, window}
        assert found.assumptions[0].startswith(f"{family}.attention.sliding_window = {words}: not in the file")


def test_a_gguf_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, metadata(), {"a": (0, [1000], 4000), "b": (0, [500], 2000)})
    whole = path.stat().st_size
    assert read_model(path).weights_bytes == 6000
    for size in (whole - 1, whole - 2000):
        with path.open("r+b") as file:
            file.truncate(size)
        with pytest.raises(InputRefused, match=f"'b' ends at byte {whole:,} of a file of {size:,} bytes"):
            read_model(path)


def gguf(*numbers: object) -> bytes:
    return b"GGUF" + b"".join(number if isinstance(number, bytes) else struct.pack("<Q", number) for number in numbers)


_THREE = struct.pack("<I", 3)
BROKEN = {
    "cut": gguf(_THREE),
    "another version": gguf(struct.pack("<I", 9), 0, 0),
    "big-endian": gguf(struct.pack(">I", 3), 0, 0),
    "endless tensors": gguf(_THREE, 1 << 62, 0),
    "endless pairs": gguf(_THREE, 0, 1 << 62),
    "an endless string": gguf(_THREE, 0, 1, 1 << 62),
    "an endless list": gguf(_THREE, 0, 1, 1, b"k", struct.pack("<II", 9, 4), 1 << 62),
    "lists in lists": gguf(_THREE, 0, 1, 1, b"k", struct.pack("<I", 9), struct.pack("<IQ", 9, 1) * 50),
    "an unknown type": gguf(_THREE, 0, 1, 1, b"k", struct.pack("<I", 77)),
    "no architecture": gguf(_THREE, 0, 0),
    "many dimensions": gguf(_THREE, 1, 0, 1, b"t", struct.pack("<I", 1 << 30)),
    "an unknown element": gguf(_THREE, 1, 0, 1, b"t", struct.pack("<IQIQ", 1, 32, 99, 0)),
    "half a block": gguf(_THREE, 1, 0, 1, b"t", struct.pack("<IQIQ", 1, 31, 8, 0)),
    "larger than the file": gguf(_THREE, 1, 0, 1, b"t", struct.pack("<IQIQ", 1, 1 << 50, 0, 0)),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_gguf_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(InputRefused, match=r"model\.gguf"):
        read_model(path)


def test_experts_under_the_names_of_their_families(tmp_path: Path) -> None:
    """ERNIE's `moe_k`; Granite writes 0 for shared experts that are not there."""
    experts = {"moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536, "shared_intermediate_size": 0}
    found = read_model(write_config(tmp_path, model_type="ernie4_5_moe", **experts)).architecture.experts
    assert found is not None
    assert (found.count, found.active, found.width, found.shared_width) == (64, 6, 1536, 0)


def test_falcon_leaves_its_longest_context_to_its_class(tmp_path: Path) -> None:
    config = {"model_type": "falcon", "num_kv_heads": 8, "new_decoder_architecture": True}
    path = write_config(tmp_path, **config, max_position_embeddings=None)
    assert read_model(path).architecture.longest == 2048
    assert read_model(write_config(tmp_path, **config)).architecture.longest == 131_072


@pytest.mark.parametrize(
    ("config", "without"),
    [
        # Its class's encoder of images is left out of the file, as all of it is default.
        ({"model_type": "llama4", "torch_dtype": "bfloat16", "text_config": {
            "model_type": "llama4_text", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
            "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000, "intermediate_size": 512,
            "intermediate_size_mlp": 1024, "num_local_experts": 2, "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 1, "attention_chunk_size": 128, "no_rope_layer_interval": 4,
            "tie_word_embeddings": False}}, "the encoders beside its language model"),
        # 102,144 of GPT-2's 124,439,808 are biases.
        ({"model_type": "gpt2", "torch_dtype": "float32", "n_layer": 12, "n_head": 12, "n_embd": 768,
          "vocab_size": 50_257, "n_positions": 1024}, "biases"),
        # 0.6 % of Whisper are positions, convolutions and biases.
        ({"model_type": "whisper", "torch_dtype": "float16", "d_model": 1280, "encoder_layers": 32,
          "decoder_layers": 32, "encoder_attention_heads": 20, "decoder_attention_heads": 20, "encoder_ffn_dim": 5120,
          "decoder_ffn_dim": 5120, "vocab_size": 51_866, "max_source_positions": 1500, "max_target_positions": 448,
          "tie_word_embeddings": True}, "biases, positions and convolutions"),
    ],
    ids=["llama4", "gpt2", "whisper"],
)  # fmt: skip
def test_a_count_that_leaves_a_part_out_is_assumed(tmp_path: Path, config: dict[str, Any], without: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = read_model(tmp_path)
    assert model.weights_known == "assumed"
    assert f"without {without}" in model.weights_source


def test_a_layer_without_an_mlp_has_one_norm(tmp_path: Path) -> None:
    """Mamba-2 2.7B: 2,702,599,680 parameters by its class."""
    config = {
        "model_type": "mamba2", "num_heads": 80, "head_dim": 64, "vocab_size": 50_288, "hidden_size": 2560,
        "state_size": 128, "num_hidden_layers": 64, "expand": 2, "conv_kernel": 4, "n_groups": 1,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_model(tmp_path).parameters == 2_702_599_680
