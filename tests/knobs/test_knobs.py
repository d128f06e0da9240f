"""The table of knobs: it is sound, and it spells by version."""

import pytest

from oomdoctor.errors import RuleError
from oomdoctor.knobs.load import load_knobs, read_knobs
from oomdoctor.knobs.versions import version_key, within


def test_every_knob_is_spelled_somewhere_and_says_where_that_was_read():
    for knob in load_knobs().values():
        assert knob.evidence, knob.id
        for spelling in knob.spellings:
            assert spelling.lines("1"), knob.id
            if spelling.since and spelling.until:
                assert version_key(spelling.since) <= version_key(spelling.until), knob.id


@pytest.mark.parametrize("version", ["2.1.2", "2.8.0", "2.9.0", "2.9.1+cu128", "2.10.0", "2.15.0"])
def test_the_allocator_is_set_by_the_name_that_every_torch_reads(version):
    setting = load_knobs().spell("torch.expandable_segments", "True", version)
    assert setting.lines == ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",)


def test_an_option_that_the_version_lacks_has_no_lines():
    setting = load_knobs().spell("torch.expandable_segments", "True", "2.0.1")
    assert not setting.lines
    assert "2.0.1 has no such option; it exists from 2.1" in setting.note


@pytest.mark.parametrize(
    ("knob", "value", "version", "lines"),
    [
        ("torch.npu_expandable_segments", "True", "2.7.1", ("export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",)),
        ("vllm.cudagraph_capture", "64", "0.11.1", ("--max-cudagraph-capture-size 64",)),
        ("vllm.cudagraph_capture", "64", "0.10.2", ("--max-seq-len-to-capture 64",)),
        ("vllm.swap_space", "0", "0.17.1", ("--swap-space 0",)),
        ("vllm.swap_space", "0", "0.18.0", ()),
        ("vllm.kv_cache_dtype", "fp8", "0.9.2", ("--kv-cache-dtype fp8",)),
        ("vllm.kv_cache_dtype", "int8_per_token_head", "0.19.1", ()),
        ("vllm.kv_cache_dtype", "int8", None, ("--kv-cache-dtype int8",)),
        ("sglang.kv_cache_dtype", "fp8_e5m2", "0.5.23", ("--kv-cache-dtype fp8_e5m2",)),
        ("sglang.cuda_graph_max_bs", "8", "0.5.13.post1", ("--cuda-graph-max-bs 8",)),
        ("sglang.cuda_graph_max_bs", "8", "0.5.14", ("--cuda-graph-max-bs-decode 8",)),
        ("hf.dtype", "bfloat16", "4.55.4", ("from_pretrained(…, torch_dtype=torch.bfloat16)",)),
        ("hf.dtype", "bfloat16", "5.24.0", ("from_pretrained(…, dtype=torch.bfloat16)",)),
        ("torch.no_grad", "", None, ("with torch.no_grad():",)),
    ],
)
def test_spelling_by_version(knob, value, version, lines):
    assert load_knobs().spell(knob, value, version).lines == lines


def test_where_the_version_is_unknown_all_spellings_are_given_with_their_versions():
    setting = load_knobs().spell("hf.dtype", "bfloat16", None)
    assert len(setting.lines) == 2
    assert "transformers up to 4.55" in setting.note
    assert "transformers from 4.56" in setting.note


def test_an_unknown_knob_is_a_key_error():
    with pytest.raises(KeyError):
        load_knobs().spell("vllm.batch_size", "1", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("knobs: []", "no knobs"),
        ("knobs: [{id: a.b}]", "is missing"),
        ("knobs: [{id: a.b, frameword: torch}]", "did you mean 'framework'"),
        ("knobs: [&a {id: a.b}, *a]", "anchors"),
        ("knobs: {a: 1, a: 2}", "twice"),
    ],
)
def test_faults_of_a_table_have_a_place(tmp_path, text, message):
    path = tmp_path / "knobs.yaml"
    path.write_text(text)
    with pytest.raises(RuleError, match=message):
        read_knobs(path)


def test_versions_in_order():
    ordered = ["2.7.0.dev20250101", "2.7.0a1", "2.7.0rc1", "2.7.0", "2.7.0.post1", "2.7.1", "2.10", "v3"]
    keys = [version_key(text) for text in ordered]
    assert keys == sorted(keys)
    assert version_key("2.1") == version_key("2.1.0") == version_key("2.1.0+cu121")
    assert version_key("newest") is None


@pytest.mark.parametrize(
    ("version", "since", "until", "expected"),
    [
        ("2.9.1", None, "2.9", True),
        ("2.9.1", None, "2.0", False),
        ("2.10", "2.9", None, True),
        ("2.9", "2.9.0", None, True),
        ("2.6.0a0+df5bbc09d1.nv24.11", "2.6", None, True),
        ("0.5.13.post1", None, "0.5.13", True),
        ("0.18.0", None, "0.17", False),
        ("2.9", "2.10", None, False),
        ("odd", None, None, True),
        ("odd", "1", None, False),
    ],
)
def test_ranges(version, since, until, expected):
    assert within(version, since, until) is expected
