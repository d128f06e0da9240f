"""GIVEN `oomdoctor estimate` WHEN it is called THEN it answers in the form asked for, or says what is wrong."""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files
from pathlib import Path

import click
import jsonschema
import pytest
from click.testing import CliRunner, Result
from estimate.files import write_config, write_safetensors

from oomdoctor.cli.estimate import estimate
from oomdoctor.errors import InputRefused, UsageError

SCHEMA = json.loads((files("oomdoctor.forecast") / "estimate.schema.json").read_text())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "a <b>model & 'c'"
    write_config(folder)
    return folder


def called(*arguments: object) -> Result:
    return CliRunner().invoke(estimate, [str(each) for each in arguments], standalone_mode=False)


def answered(*arguments: object) -> str:
    found = called(*arguments)
    assert found.exception is None, found.exception
    return found.output


def as_json(*arguments: object) -> dict:
    found = json.loads(answered(*arguments, "--format", "json"))
    jsonschema.validate(found, SCHEMA)
    return found


@pytest.mark.parametrize("engine", ["transformers", "vllm", "sglang", "llama.cpp"])
def test_json_is_the_contract(model: Path, engine: str) -> None:
    found = as_json(model, "--gpu", "80GiB", "--context", 8192, "--concurrency", 12, "--engine", engine)
    assert found["weights_bytes"] == 16_060_522_496
    assert found["kv_bytes_per_token"] == 131_072
    assert found["kv_fixed_bytes_per_sequence"] == 0
    assert found["kv_bytes"] == 12 * 8192 * 131_072
    assert found["fits"] == "fits"
    assert found["total_bytes"] == sum(part["bytes"] for part in found["parts"])
    assert found["known"]["overhead_bytes"]["known"] == "assumed"
    assert found["known"]["activation_bytes"]["formula"]
    asked = [cell for cell in found["table"]["cells"] if (cell["concurrency"], cell["context"]) == (12, 8192)]
    assert [cell["total_bytes"] for cell in asked] == [found["total_bytes"]]


def test_weights_are_the_headers_bytes(model: Path) -> None:
    size = write_safetensors(model / "model.safetensors", a=("BF16", [1000]))
    assert as_json(model, "--gpu", "80GiB")["weights_bytes"] == size


def test_files_that_are_not_the_whole_model_are_told(model: Path) -> None:
    write_safetensors(model / "adapter_model.safetensors", a=("BF16", [1000]))
    found = as_json(model, "--gpu", "80GiB")
    assert any("hold 1,000 parameters, the configuration means 8,030,261,248" in each for each in found["notes"])
    write_safetensors(model / "model-00001-of-00001.safetensors", a=("BF16", [8_030_261_248]))
    found = as_json(model, "--gpu", "80GiB")
    assert found["weights_bytes"] == 2 * 8_030_261_248
    assert not any("they may not be all" in each for each in found["notes"])


def test_options_reach_the_figures(model: Path) -> None:
    usual = as_json(model, "--gpu", "80GiB", "--context", 4096)
    assert as_json(model, "--gpu", "80GiB", "--context", 4096, "--kv-dtype", "fp8")["kv_bytes_per_token"] == 65_536
    assert as_json(model, "--gpu", "80GiB", "--context", 4096, "--dtype", "fp32")["weights_bytes"] == 4 * 8_030_261_248
    assert as_json(model, "--gpu", "80GiB", "--overhead", "1GiB")["overhead_bytes"] == 1 << 30
    assert as_json(model, "--gpu", "80GiB", "--weights", "1GiB")["weights_bytes"] == 1 << 30
    assert (
        as_json(model, "--gpu", "80GiB", "--context", 4096, "--headroom", "20%")["max_context"] <= usual["max_context"]
    )
    assert as_json(model, "--gpu", "80GiB", "--tp", 4)["kv_bytes_per_token"] == 131_072
    assert as_json(model, "--gpu", "80GiB", "--engine", "vllm", "--fraction", 0.5)["limit_bytes"] == 40 << 30
    assert as_json(model, "--gpu", "80GiB")["settings"]["context"] == 131_072


@pytest.mark.parametrize(
    ("engine", "kinds"),
    [
        ("vllm", "q8_0"),
        ("transformers", "bf16,q4_0"),
        ("llama.cpp", "fp8"),
        ("vllm", "fp8_ds_mla"),
        ("sglang", "q5_1"),
        ("vllm", "int8"),
        ("transformers", "int8"),
        ("sglang", "int8_per_token_head"),
    ],
)
def test_a_cache_in_a_type_that_the_engine_does_not_have_is_refused(model: Path, engine: str, kinds: str) -> None:
    with pytest.raises(UsageError, match="does not go with"):
        raise called(model, "--gpu", "80GiB", "--engine", engine, "--kv-dtype", kinds).exception
    assert (
        as_json(model, "--gpu", "80GiB", "--engine", "llama.cpp", "--kv-dtype", "q8_0")["kv_bytes_per_token"] == 69_632
    )


def test_scales_of_a_token_and_head_count(model: Path) -> None:
    for kind, values in (("int8_per_token_head", 128), ("fp8_per_token_head", 128), ("int4_per_token_head", 64)):
        found = as_json(model, "--gpu", "80GiB", "--engine", "vllm", "--kv-dtype", kind)
        assert found["kv_bytes_per_token"] == 32 * 2 * 8 * (values + 4)


@pytest.mark.parametrize("option", [("--mla", "expanded"), ("--no-hybrid",), ("--state-dtype", "bf16")])
def test_what_is_said_of_layers_that_the_model_lacks_is_refused(model: Path, option: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=f"{option[0]}.* change nothing"):
        raise called(model, "--gpu", "80GiB", *option).exception


@pytest.mark.parametrize(
    "option",
    [("--engine", "sglang"), ("--engine", "vllm", "--step-tokens", "512"), ("--engine", "vllm", "--gpu", "24GiB")],
)
def test_a_name_of_a_card_that_nobody_goes_by_is_refused(model: Path, option: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"--card 'A100'.* change nothing"):
        raise called(model, "--gpu", "80GiB", "--card", "A100", *option).exception


def test_vllm_s_step_on_a_named_card(model: Path) -> None:
    named = as_json(model, "--gpu", "80GiB", "--engine", "vllm", "--card", "A100")
    small = as_json(model, "--gpu", "80GiB", "--engine", "vllm", "--step-tokens", "2048")
    unnamed = as_json(model, "--gpu", "80GiB", "--engine", "vllm")
    assert named["activation_bytes"] == small["activation_bytes"] < unnamed["activation_bytes"]


def test_lengths(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "lengths"
    path.write_text("100\n200\n30000\n")
    found = as_json(model, "--gpu", "80GiB", "--lengths", path)
    assert found["lengths"]["longest"] == found["settings"]["context"] == 30_000
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert as_json(model, "--gpu", "80GiB", "--lengths", path)["lengths"] == found["lengths"]
    assert "The longest decides" in answered(model, "--gpu", "80GiB", "--lengths", path, "--format", "terminal")
    with pytest.raises(UsageError, match="leave --context out"):
        raise called(model, "--gpu", "80GiB", "--lengths", path, "--context", 3).exception


def test_training(model: Path) -> None:
    found = as_json(
        model, "--gpu", "80GiB", "--train", "--fsdp", "--ranks", 8, "--checkpointing", "--optimizer", "lion"
    )
    assert found["kind"] == "training"
    assert found["settings"]["zero"] == 3
    assert {"parameters", "gradients", "optimizer states"} <= {part["name"] for part in found["parts"]}
    for form in ("terminal", "md", "markdown", "html"):
        assert "a step with 1 x 2,048 tokens" in answered(model, "--gpu", "80GiB", "--train", "--format", form)
    with pytest.raises(UsageError, match="divides by the number of cards, which nothing tells: --ranks"):
        raise called(model, "--gpu", "80GiB", "--train", "--zero", 2).exception


def test_one_rank_that_is_named_divides_nothing(model: Path) -> None:
    """ZeRO-Offload on a single card is a common setting."""
    arguments = (model, "--gpu", "400GiB", "--train", "--zero", 3)
    one = {part["name"]: part["bytes"] for part in as_json(*arguments, "--ranks", 1)["parts"]}
    two = {part["name"]: part["bytes"] for part in as_json(*arguments, "--ranks", 2)["parts"]}
    assert one["parameters"] == 2 * 8_030_261_248 == 2 * two["parameters"]
    assert one["optimizer states"] == 12 * 8_030_261_248


def test_a_launchers_file_adapters_and_buckets_reach_the_figures(model: Path, tmp_path: Path) -> None:
    def parts(*options: object) -> dict[str, int]:
        found = as_json(model, "--gpu", "80GiB", "--train", *options)
        return {part["name"]: part["bytes"] for part in found["parts"]}

    file = tmp_path / "ds.json"
    file.write_text(
        '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": 1}}'
    )
    sharded = parts("--ranks", 8, "--launch-config", file)
    assert (sharded["optimizer states"], sharded["gradients"]) == (0, 0)
    assert sharded["buffers for communication"] == 1_000_000_000
    assert sharded["buckets of gradients"] == 0
    text = answered(model, "--gpu", "80GiB", "--train", "--ranks", 8, "--launch-config", file, "--format", "md")
    assert "optimizer states lie in host memory" in text
    plain, view = parts("--ranks", 8), parts("--ranks", 8, "--bucket-view")
    assert plain["buckets of gradients"] == plain["gradients"] == view["buckets of gradients"] == 4 * 8_030_261_248
    assert view["gradients"] == 0
    assert parts("--lora", 16)["gradients"] == 4 * 6_815_744
    text = answered(model, "--gpu", "80GiB", "--train", "--lora", 16, "--lora-targets", "all-linear", "--format", "md")
    assert "LoRA of rank 16 on all-linear: 41,943,040 parameters are trained" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--launch-config", "{file}", "--zero", 2), "tells --zero"),
        (("--launch-config", "{file}", "--fsdp", "--ranks", 2), "tells --fsdp"),
        (("--launch-config", "{file}"), "--ranks"),
        (("--bucket-view",), "shard nothing"),
        (("--lora-targets", "q_proj"), "only with --lora"),
        (("--lora", "sixteen"), "neither a rank"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    model: Path, tmp_path: Path, options: tuple[object, ...], words: str
) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    given = [str(each).format(file=tmp_path / "ds.json") for each in options]
    with pytest.raises(UsageError, match=words):
        raise called(model, "--gpu", "80GiB", "--train", *given).exception


@pytest.mark.parametrize("engine", ["transformers", "vllm"])
def test_the_terminal_has_eighty_columns(model: Path, engine: str) -> None:
    text = answered(model, "--gpu", "80GiB", "--context", 5000, "--engine", engine, "--format", "terminal")
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "It fits: 1 x 5,000 tokens need" in text
    assert re.search(r"^  at once .* 10 % +20 %$", text, re.M)
    assert re.search(r"^  left of the card +longest with 1 at once +most of 5,000 tokens$", text, re.M)
    assert "what binds:" in text


def test_a_pipe_gets_the_text_of_a_terminal(model: Path) -> None:
    """No entities and backslashes, as Markdown has them, where nobody renders it."""
    text = answered(model, "--gpu", "80GiB", "--context", 5000, "--engine", "vllm", "--concurrency", 200)
    assert text == answered(
        model, "--gpu", "80GiB", "--context", 5000, "--engine", "vllm", "--concurrency", 200, "--format", "terminal"
    )
    assert "< 0.1 %" in text
    assert not re.search(r"&lt;|\\[~<-]|^\|", text, re.M)
    trained = answered(model, "--gpu", "80GiB", "--train")
    assert not re.search(r"&lt;|\\[~<-]|^\|", trained, re.M)


def test_the_map_has_a_mark_for_each_kind(model: Path) -> None:
    text = answered(model, "--gpu", "40GiB", "--context", 4096, "--engine", "vllm", "--concurrency", 32)
    assert set(re.findall(r"[0-9]\.[0-9](['~wx]?)(?=  |$)", text)) >= {"", "'", "w"}
    assert "w it starts, but requests wait for room in the pool" in text
    page = answered(
        model, "--gpu", "40GiB", "--context", 4096, "--engine", "vllm", "--concurrency", 32, "--format", "html"
    )
    assert {"fits", "close", "waits"} <= set(re.findall(r'<td class="([a-z]+) shade', page))
    assert page.count('class="heat-key') == 5
    assert "requests wait</span>" in page
    one = answered(model, "--gpu", "40GiB", "--context", 4096, "--headroom", "15%")
    assert "'" not in one.partition("by requests at once")[2].partition("How the figures")[0]
    assert re.search(r"^  at once .* longest$", one, re.M)


@pytest.mark.parametrize("share", ["20-10%", "10-20-30%", "100%", "10-100%", "x", "10%-", "-5%"])
def test_a_headroom_that_is_none_is_refused(model: Path, share: str) -> None:
    assert isinstance(called(model, "--gpu", "80GiB", "--headroom", share).exception, click.BadParameter)


def test_what_fits_names_what_the_engine_leaves_by_itself(model: Path) -> None:
    asked = ("--gpu", "80GiB", "--engine", "vllm", "--context", 8192, "--concurrency", 64, "--step-tokens", 2048)
    text = answered(model, *asked)
    assert re.search(r"^  20 % .* 47\n  10 % .* 55\n  8 %: all that the engine takes .* 57$", text, re.M)
    half = answered(model, *asked, "--fraction", 0.5)
    assert half.count("50 %: all that the engine takes") == 1
    assert "10 % " not in half.partition("What fits")[2].partition("Budget of one card")[0]


def test_a_headroom_is_one_share_or_two(model: Path) -> None:
    for given, wanted in (("15%", [0.15]), ("0.1,0.25", [0.1, 0.25]), ("5%-20%", [0.05, 0.2]), ("0", [0.0])):
        assert as_json(model, "--gpu", "80GiB", "--headroom", given)["settings"]["headrooms"] == wanted
    assert as_json(model, "--gpu", "80GiB")["settings"]["headrooms"] == [0.1, 0.2]


@pytest.mark.parametrize("engine", ["transformers", "vllm", "sglang", "llama.cpp"])
def test_each_figure_has_formula_inputs_and_how_it_is_known(model: Path, engine: str) -> None:
    asked = ("--gpu", "80GiB", "--engine", engine, "--context", 4096)
    for options in (asked, (*asked, "--overhead", "1GiB", "--graphs", "1GiB")):
        found = as_json(model, *options)
        for part in found["parts"]:
            assert part["formula"], part
            assert part["inputs"], part
            assert part["known"] in ("computed", "measured", "assumed")
        for name in ("weights_bytes", "kv_bytes_per_token", "kv_fixed_bytes_per_sequence", "activation_bytes",
                     "overhead_bytes", "workspace_bytes", "graph_bytes", "total_bytes", "headroom_bytes"):  # fmt: skip
            assert found["known"][name]["formula"], name
            assert found["known"][name]["inputs"], name


@pytest.mark.parametrize(
    "options",
    [(), ("--fsdp", "--ranks", "8"), ("--ranks", "4"), ("--lora", "16", "--base", "nf4", "--dora"),
     ("--checkpointing", "--optimizer", "sgd", "--overhead", "1GiB")],
)  # fmt: skip
def test_training_has_the_same_names(model: Path, options: tuple[str, ...]) -> None:
    found = as_json(model, "--gpu", "80GiB", "--train", "--seq", 512, *options)
    for part in found["parts"]:
        assert part["formula"], part
        assert part["inputs"], part
    sizes = {part["name"]: part["bytes"] for part in found["parts"]}
    assert found["activation_bytes"] == sizes["activations kept for backward"]
    assert found["overhead_bytes"] == sizes["context and libraries"]
    assert found["weights_bytes"] >= sizes["parameters"]
    for name in ("kv_bytes_per_token", "kv_fixed_bytes_per_sequence", "kv_bytes", "graph_bytes"):
        assert found[name] is None
        assert found["known"][name]["known"] == "none"
        assert found["known"][name]["reason"]
    assert found["max_concurrency"] == found["max_batch"] == found["limits"][0]["max_batch"]
    longest = found["max_context"]
    if longest:
        again = as_json(model, "--gpu", "80GiB", "--train", "--seq", longest, *options)
        assert again["fits"] == "fits"
        assert as_json(model, "--gpu", "80GiB", "--train", "--seq", longest + 1, *options)["fits"] != "fits"


def test_weights_of_a_training_are_those_of_all_cards(model: Path) -> None:
    whole = as_json(model, "--gpu", "80GiB", "--train")["weights_bytes"]
    assert whole == 4 * 8_030_261_248
    assert as_json(model, "--gpu", "80GiB", "--train", "--fsdp", "--ranks", 8)["weights_bytes"] == 2 * 8_030_261_248


def test_four_bits_and_dora_reach_the_figures(model: Path) -> None:
    def total(*options: str) -> int:
        return int(as_json(model, "--gpu", "80GiB", "--train", "--lora", 16, *options)["total_bytes"])

    assert total("--base", "nf4-double") < total("--base", "nf4")
    assert total("--dora") > total()
    for options in (("--dora",), ("--base", "nf4")):
        with pytest.raises(UsageError, match="counts only with --lora"):
            raise called(model, "--gpu", "80GiB", "--train", *options).exception
    text = answered(model, "--gpu", "80GiB", "--train", "--lora", 16, "--base", "nf4", "--dora")
    assert "DoRA of rank 16 on q_proj, v_proj" in text
    assert "in four bits" in text


def test_markdown_is_one_for_a_ticket(model: Path) -> None:
    text = answered(model, "--gpu", "80GiB", "--context", 5000, "--format", "md")
    assert text.startswith("## It fits")
    assert "| weights" in text


def test_html_needs_nothing_and_escapes_what_comes_from_outside(model: Path) -> None:
    text = answered(model, "--gpu", "80GiB", "--context", 5000, "--format", "html")
    assert "default-src 'none'" in html.unescape(text)
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert "<b>model" not in text
    assert "&lt;b&gt;model" in text
    assert 'class="heat"' in text
    assert "prefers-color-scheme: dark" in text
    assert " style=" not in text
    assert len(re.findall(r'<td class="[^"]* asked"', text)) == 1


def test_the_suffix_tells_the_form_and_the_model_is_spared(model: Path, tmp_path: Path) -> None:
    for name, begin in (("a.html", "<!DOCTYPE"), ("a.json", "{"), ("a.md", "## ")):
        assert answered(model, "--gpu", "80GiB", "--output", tmp_path / name) == ""
        assert (tmp_path / name).read_text().startswith(begin)
    with pytest.raises(UsageError, match="is the model"):
        raise called(model / "config.json", "--gpu", "80GiB", "--output", model / "config.json").exception


def test_nothing_that_was_read_is_written_over(model: Path, tmp_path: Path) -> None:
    lengths = tmp_path / "lengths.txt"
    lengths.write_text("100\n")
    before = (model / "config.json").read_text()
    for output in (model / "config.json", lengths):
        with pytest.raises(UsageError, match="was read"):
            raise called(model, "--gpu", "80GiB", "--lengths", lengths, "--output", output).exception
    assert (model / "config.json").read_text() == before
    for _ in range(2):
        answered(model, "--gpu", "80GiB", "--output", model / "fits.json")
    assert lengths.read_text() == "100\n"


@pytest.mark.parametrize("options", [("--seq", 4096), ("--fsdp",), ("--train", "--tp", 2), ("--train", "--context", 9)])
def test_an_option_that_would_change_nothing_is_refused(model: Path, options: tuple[object, ...]) -> None:
    with pytest.raises(UsageError, match="counts only"):
        raise called(model, "--gpu", "80GiB", *options).exception


@pytest.mark.parametrize("engine", ["vllm", "sglang", "transformers"])
def test_ranks_that_do_not_divide_the_heads(model: Path, engine: str) -> None:
    with pytest.raises(UsageError, match=rf"{engine} does not run with --tp 7: it does not divide 32 attention heads"):
        raise called(model, "--gpu", "80GiB", "--engine", engine, "--tp", 7).exception


def test_llama_cpp_has_the_fullest_card_of_divided_layers(model: Path) -> None:
    found = as_json(model, "--gpu", "80GiB", "--engine", "llama.cpp", "--tp", 7, "--context", 4096)
    assert found["kv_bytes"] == 5 * 4096 * 4096
    assert any("the fullest counts" in each for each in found["notes"])


def test_what_is_said_of_an_unknown_family_is_assumed(tmp_path: Path) -> None:
    write_config(tmp_path, model_type="never-heard-of", head_dim=128)
    found = as_json(tmp_path, "--gpu", "80GiB")
    known = {name: found["known"][name]["known"] for name in ("weights_bytes", "kv_bytes", "kv_bytes_per_token")}
    assert set(known.values()) == {"assumed"}


def test_a_context_beyond_the_models_is_told_also_where_it_does_not_fit(model: Path) -> None:
    found = as_json(model, "--gpu", "24GiB", "--engine", "vllm", "--context", 200_000)
    assert found["fits"] == "no"
    assert "the model was made for 131,072 tokens, less than the context asked for" in found["notes"]


@pytest.mark.parametrize("kinds", [",", "fp8,", "", "fp8,fp8,fp8"])
def test_types_of_keys_and_values_that_are_none(model: Path, kinds: str) -> None:
    with pytest.raises(UsageError):
        raise called(model, "--gpu", "80GiB", "--kv-dtype", kinds).exception


@pytest.mark.parametrize("kind", ["", "q4_0", "mxfp4", "int8", "fp8", "int8_per_token_head"])
def test_weights_are_loaded_in_no_type_of_blocks(model: Path, kind: str) -> None:
    with pytest.raises(UsageError):
        raise called(model, "--gpu", "80GiB", "--dtype", kind).exception


def test_lengths_that_never_end_are_refused(model: Path) -> None:
    with pytest.raises(InputRefused, match="may never end"):
        raise called(model, "--gpu", "80GiB", "--lengths", "/dev/zero").exception


@pytest.mark.parametrize(
    "options",
    [
        ("--gpu", "big"),
        ("--gpu", "-1GiB"),
        ("--gpu", "80"),
        ("--gpu", "80GiB", "--headroom", "2"),
        ("--gpu", "80GiB", "--tp", "0"),
        (),
    ],
)
def test_wrong_words_are_refused(model: Path, options: tuple[str, ...]) -> None:
    found = CliRunner().invoke(estimate, [str(model), *options])
    assert found.exit_code == 2


@pytest.mark.parametrize("options", [("",), ("{model}", "--lengths", ""), ("{model}", "--output", "")])
def test_an_empty_name_is_not_the_current_folder(
    model: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model)
    found = CliRunner().invoke(estimate, [each.format(model=model) for each in options] + ["--gpu", "80GiB"])
    assert found.exit_code == 2
    assert "an empty name" in found.output


def test_what_is_not_understood_names_the_field(tmp_path: Path) -> None:
    write_config(tmp_path, num_hidden_layers=None)
    with pytest.raises(InputRefused, match="the field num_hidden_layers"):
        raise called(tmp_path, "--gpu", "80GiB").exception


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--headroom", "100%", "leaves nothing to use"),
        ("--headroom", "1", "leaves nothing to use"),
        ("--fraction", "0", "cannot start"),
        ("--fraction", "0%", "cannot start"),
    ],
)
def test_shares_that_leave_nothing_are_refused(model: Path, option: str, value: str, why: str) -> None:
    with pytest.raises(click.UsageError, match=why):
        raise called(model, "--gpu", "80GiB", "--engine", "vllm", option, value).exception


_GIVEN = ("not_served", "schema", "oomdoctor", "kind", "known", "parts", "notes")
"""Which hold no figure, or say of each themselves how it is known."""


@pytest.mark.parametrize(
    "options",
    [("--engine", each) for each in ("transformers", "vllm", "sglang", "llama.cpp")] + [("--train",)],
    ids=lambda options: options[-1],
)
def test_every_figure_says_how_it_is_known(model: Path, options: tuple[str, ...]) -> None:
    found = as_json(model, "--gpu", "80GiB", *options)
    assert [name for name in found if name not in _GIVEN and name not in found["known"]] == []
    assert [name for name in found["known"] if name not in found] == []
    assert all(part["known"] in ("computed", "measured", "assumed") for part in found["parts"])


def test_what_torch_holds_beside_the_total_is_told_and_assumed(model: Path) -> None:
    found = as_json(model, "--gpu", "80GiB", "--context", 4096)
    beside = found["total_bytes"] - found["overhead_bytes"]
    assert 0.099 * beside < found["reserve_bytes"] <= 0.1 * beside
    assert found["known"]["reserve_bytes"]["known"] == "assumed"
    assert as_json(model, "--gpu", "80GiB", "--engine", "vllm")["reserve_bytes"] is None
    for gpu, words in (("80GiB", "has room for it"), ("16GiB", "gives that back before it fails")):
        text = answered(model, "--gpu", gpu, "--context", 64, "--format", "md")
        assert words in text
    kept = as_json(model, "--gpu", "200GiB", "--train", "--checkpointing")
    assert kept["reserve_bytes"] > as_json(model, "--gpu", "200GiB", "--train")["reserve_bytes"] > 0


def test_a_sum_is_known_no_better_than_its_worst_part(model: Path) -> None:
    arguments = (model, "--gpu", "80GiB", "--engine", "vllm", "--context", 4096)
    found = as_json(*arguments)
    assumed = sum(part["bytes"] for part in found["parts"] if part["known"] == "assumed")
    for name in ("total_bytes", "headroom_bytes", "fits", "max_context", "max_concurrency", "table"):
        assert (found["known"][name]["known"], found["known"][name]["assumed_bytes"]) == ("assumed", assumed)
    assert found["known"]["limit_bytes"]["known"] == found["known"]["pool_bytes"]["known"] == "assumed"
    told = as_json(*arguments, "--fraction", 0.9, "--overhead", "1GiB", "--graphs", "1GiB")
    assert told["known"]["limit_bytes"]["known"] == "computed"
    assert told["known"]["total_bytes"]["assumed_bytes"] == told["workspace_bytes"]
    training = as_json(model, "--gpu", "80GiB", "--train", "--overhead", "1GiB")
    assert training["known"]["total_bytes"]["assumed_bytes"] == 32 << 20
