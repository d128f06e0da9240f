"""GIVEN a file with weights that is cut, swapped, split or empty WHEN it is read THEN it is refused, or exact."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from estimate.files import write_config, write_gguf, write_llama_8b_gguf, write_safetensors

from oomdoctor.errors import InputRefused
from oomdoctor.estimate.model_input import read_model

INDEX = "model.safetensors.index.json"


def indexed(folder: Path, tensors: dict[str, str], total: int = 4000) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": tensors}))


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (struct.pack("<I", 1), "GGUF version 1 is not read"),
        (struct.pack(">I", 3), r"a big-endian GGUF file \(version 3\)"),
        (struct.pack(">I", 2), "big-endian"),
        (struct.pack("<I", 4), "GGUF version 4 is not read, 2 and 3 are"),
        (struct.pack("<I", 0), "GGUF version 0"),
    ],
)
def test_versions_of_gguf(tmp_path: Path, version: bytes, words: str) -> None:
    path = tmp_path / "m.gguf"
    write_llama_8b_gguf(path)
    with path.open("r+b") as file:
        file.seek(4)
        file.write(version)
    with pytest.raises(InputRefused, match=words):
        read_model(path)


def test_version_2_is_laid_out_as_version_3(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_llama_8b_gguf(path)
    three = read_model(path).weights_bytes
    with path.open("r+b") as file:
        file.seek(4)
        file.write(struct.pack("<I", 2))
    assert read_model(path).weights_bytes == three


PAIRS: dict[str, object] = {
    "general.architecture": "llama", "llama.block_count": 1, "llama.embedding_length": 64,
    "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2, "llama.vocab_size": 100,
}  # fmt: skip
ONE = {"blk.0.attn_q.weight": (0, [64, 64], 16_384)}


def parts(folder: Path, count: int, told: int, tensors: int | None = None) -> None:
    for number in range(1, count + 1):
        split: dict[str, object] = {"split.count": told, "split.no": number - 1}
        if tensors is not None:
            split["split.tensors.count"] = tensors
        pairs = {**PAIRS, **split} if number == 1 else split
        named = {f"blk.0.{number}.weight": (0, [64, 64], 16_384)}
        write_gguf(folder / f"m-{number:05d}-of-{count:05d}.gguf", pairs, named)


def test_a_split_gguf_is_read_from_any_of_its_parts(tmp_path: Path) -> None:
    parts(tmp_path, 3, 3, 3)
    for number in (1, 2, 3):
        assert read_model(tmp_path / f"m-0000{number}-of-00003.gguf").weights_bytes == 3 * 16_384
    (tmp_path / "m-00002-of-00003.gguf").unlink()
    with pytest.raises(InputRefused, match="not all of its 3 parts are there"):
        read_model(tmp_path / "m-00001-of-00003.gguf")


def test_a_part_under_another_name_is_not_the_whole(tmp_path: Path) -> None:
    write_gguf(tmp_path / "renamed.gguf", {**PAIRS, "split.count": 3}, ONE)
    with pytest.raises(InputRefused, match="one of 3 parts, and its name does not tell"):
        read_model(tmp_path / "renamed.gguf")
    parts(tmp_path, 2, 2, 9)
    with pytest.raises(InputRefused, match="its parts hold 2 of 9 tensors"):
        read_model(tmp_path / "m-00001-of-00002.gguf")


def test_a_safetensors_file_without_tensors(tmp_path: Path) -> None:
    write_config(tmp_path)
    write_safetensors(tmp_path / "model.safetensors")
    for path in (tmp_path, tmp_path / "model.safetensors"):
        with pytest.raises(InputRefused, match="there is no tensor in it"):
            read_model(path)


def test_tensors_over_each_other(tmp_path: Path) -> None:
    write_config(tmp_path)
    entry = {"dtype": "U8", "shape": [100], "data_offsets": [0, 100]}
    text = json.dumps({"a": entry, "b": entry}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(100))
    with pytest.raises(InputRefused, match="lie over each other"):
        read_model(tmp_path)


@pytest.mark.parametrize("kept", [0, 7, 8, 20, 60])
def test_a_safetensors_file_that_was_cut(tmp_path: Path, kept: int) -> None:
    write_config(tmp_path)
    path = tmp_path / "model.safetensors"
    write_safetensors(path, a=("BF16", [1000]))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputRefused):
        read_model(tmp_path)


def test_an_index_that_names_what_is_not_there(tmp_path: Path) -> None:
    write_config(tmp_path)
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    write_safetensors(tmp_path / first, a=("BF16", [1000]))
    indexed(tmp_path, {"a": first, "b": second})
    model = read_model(tmp_path)
    assert (model.weights_bytes, model.weights_known) == (4000, "assumed")
    assert "1 of its 2 shards are not there" in model.weights_source
    write_safetensors(tmp_path / second, c=("BF16", [1000]))
    for path in (tmp_path, tmp_path / INDEX, tmp_path / "config.json"):
        with pytest.raises(InputRefused, match="names 1 tensors that its shards do not hold, such as 'b'"):
            read_model(path)


@pytest.mark.parametrize(
    ("method", "tensors", "size"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128},
         {"q.qweight": ("I32", [4096, 512]), "q.qzeros": ("I32", [32, 512]), "q.scales": ("F16", [32, 4096])},
         4 * 4096 * 512 + 4 * 32 * 512 + 2 * 32 * 4096),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128},
         {"q.qweight": ("I32", [512, 4096]), "q.g_idx": ("I32", [4096]), "q.scales": ("F16", [32, 4096])},
         4 * 512 * 4096 + 4 * 4096 + 2 * 32 * 4096),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True},
         {"q.weight": ("U8", [8_388_608, 1]), "q.weight.absmax": ("U8", [262_144]),
          "q.weight.nested_absmax": ("F32", [1024])}, 8_388_608 + 262_144 + 4 * 1024),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]},
         {"q.weight": ("F8_E4M3", [4096, 4096]), "q.weight_scale_inv": ("F32", [32, 32]),
          "norm.weight": ("BF16", [4096])}, 4096 * 4096 + 4 * 32 * 32 + 2 * 4096),
    ],
)  # fmt: skip
def test_quantised_weights_have_the_bytes_of_their_headers(
    tmp_path: Path, method: dict[str, Any], tensors: dict[str, tuple[str, list[int]]], size: int
) -> None:
    write_config(tmp_path, quantization_config=method)
    write_safetensors(tmp_path / "model.safetensors", **tensors)
    model = read_model(tmp_path)
    assert (model.weights_bytes, model.weights_known) == (size, "computed")
    assert model.quantization == method["quant_method"]


def test_scales_stay_as_wide_as_they_are(tmp_path: Path) -> None:
    """A float of four bytes that eight-bit values are multiplied with is no weight that a loader casts."""
    write_config(tmp_path, quantization_config={"quant_method": "fp8"}, torch_dtype="float32")
    write_safetensors(
        tmp_path / "model.safetensors",
        **{"q.weight": ("F8_E4M3", [64, 64]), "q.weight_scale_inv": ("F32", [8]), "norm.weight": ("F32", [64])},
    )
    assert read_model(tmp_path, "bf16").weights_bytes == 64 * 64 + 4 * 8 + 2 * 64
