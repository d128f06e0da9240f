"""GIVEN a launch line, variables or code WHEN something in it does not do what it says THEN it is told, once."""

from __future__ import annotations

import pytest
from given import event, oom, run, traceback

from oomdoctor.facts import derive_facts
from oomdoctor.facts.misuses import MisuseFinder, find_misuses
from oomdoctor.knobs.load import load_knobs
from oomdoctor.knobs.misuses import load_misuses
from oomdoctor.model.diagnosis import Misuse
from oomdoctor.model.events import EventKind as K
from oomdoctor.model.evidence import Evidence


def found(*events, command: str | None = None, runs=()) -> dict[str, Misuse]:
    evidence = Evidence(events=events, command=command, runs=runs)
    return {one.what: one for one in find_misuses(evidence, derive_facts(evidence))}


def vllm(version: str):
    return event(K.ENGINE_START, engine="vllm", version=version)


def torch(version: str):
    return event(K.VERSION, package="torch", version=version)


def transformers(version: str):
    return event(K.VERSION, package="transformers", version=version)


@pytest.mark.parametrize(
    ("version", "value", "wrong"),
    [
        (None, "int8", True),
        (None, "fp8", False),
        (None, "int8_per_token_head", False),
        ("0.10.2", "int8", True),
        ("0.33.0", "int4", True),
        ("0.19.1", "int8_per_token_head", True),
        ("0.20.0", "int8_per_token_head", False),
        ("0.24.0", "int4_per_token_head", True),
        ("0.26.0", "int4_per_token_head", False),
        ("0.11.0", "fp8_ds_mla", True),
        ("0.17.1", "fp8_ds_mla", False),
        ("0.9.2", "fp8_e5m2", False),
    ],
)
def test_types_of_the_kv_cache_by_version(version, value, wrong):
    events = () if version is None else (vllm(version),)
    told = found(*events, command=f"vllm serve M --kv-cache-dtype {value}")
    assert list(told) == ([f"--kv-cache-dtype {value}"] if wrong else [])


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("--batch-size auto", "--max-num-seqs <N>"),
        ("--cache-ttl 300", None),
        ("--context-length 8192", "--max-model-len <N>"),
        ("--mem-fraction-static 0.8", "--gpu-memory-utilization <N>"),
    ],
)
def test_options_that_vllm_does_not_have(option, instead):
    told = found(command=f"vllm serve M {option}")[option]
    assert told.outcome == "refused"
    assert told.lines == (() if instead is None else (instead,))
    assert told.where == "command line"


def test_options_that_sglang_does_not_have():
    told = found(command="python -m sglang.launch_server --model-path M --gpu-memory-utilization 0.9")
    assert told["--gpu-memory-utilization 0.9"].lines == ("--mem-fraction-static <N>",)


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--gpu-memory-utilisation 0.8", "--gpu-memory-utilization"),
        ("--max-num-batch-tokens 2048", "--max-num-batched-tokens"),
        ("--tensor-paralel-size 2", "--tensor-parallel-size"),
    ],
)
def test_a_slip_of_the_pen(option, meant):
    assert meant in found(command=f"vllm serve M {option}")[option].instead


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve M --max-model-len 8192 --gpu-memory-utilization 0.9 --enforce-eager --port 8000",
        "vllm serve M --max_num_seqs 8 --data-parallel-size 2 --max-cpu-loras 4 --served-model-name x",
        "vllm serve M --max-num-seq 8 --kv-cache-memory 123",
        "vllm serve M --max-model-len 32k --max-model-len auto",
        "python -m sglang.launch_server --model-path M --dp-size 2 --ep-size 2 --cuda-graph-bs 8",
        "llama-server -m x.gguf -c 8192 -ngl 99 --cpu-moe --cache-type-k q8_0",
        "python train.py --batch-size 32 --max-length 512 --gpu-memory-utilisation 3",
        "python bench.py --batch-size auto --cache-ttl 300",
    ],
)
def test_what_is_right_or_not_known_to_be_wrong(command):
    assert found(command=command) == {}


@pytest.mark.parametrize(
    ("version", "command", "what", "lines"),
    [
        ("0.18.0", "--swap-space 4", "--swap-space 4", ()),
        ("0.17.1", "--swap-space 4", None, ()),
        ("0.11.1", "--max-seq-len-to-capture 64", "--max-seq-len-to-capture 64", ("--max-cudagraph-capture-size 64",)),
        ("0.10.2", "--max-seq-len-to-capture 64", None, ()),
        ("0.9.2", "--kv-cache-memory-bytes 123", "--kv-cache-memory-bytes 123", ()),
    ],
)
def test_options_that_a_version_lacks(version, command, what, lines):
    told = found(vllm(version), command=f"vllm serve M {command}")
    assert list(told) == ([] if what is None else [what])
    if what is not None:
        assert version in told[what].why
        assert told[what].lines == lines


def test_pasted_dashes_are_told_and_still_read():
    told = found(command="vllm serve M \N{EN DASH}kv-cache-dtype int8")
    assert "a shell hands them on as plain words" in told["\N{EN DASH}kv-cache-dtype"].why
    assert told["\N{EN DASH}kv-cache-dtype"].lines == ("--kv-cache-dtype",)
    assert "--kv-cache-dtype int8" in told


@pytest.mark.parametrize(
    ("version", "value", "what"),
    [
        (None, "expandable_segments:True", None),
        (None, "expandable_segment:True", "expandable_segment:True"),
        (None, "max_split_size:128", "max_split_size:128"),
        (None, "expandable_segments=True", "expandable_segments=True"),
        (None, "expandable_segments:true", "expandable_segments:true"),
        ("2.0.1", "expandable_segments:True", "expandable_segments:True"),
        ("2.1.2", "expandable_segments:True", None),
        ("2.5.1", "per_process_memory_fraction:0.9", "per_process_memory_fraction:0.9"),
        ("2.10.0", "per_process_memory_fraction:0.9", None),
        (None, "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", None),
    ],
)
def test_options_of_the_allocator(version, value, what):
    events = () if version is None else (torch(version),)
    told = found(oom(), *events, command=f"PYTORCH_CUDA_ALLOC_CONF={value} python train.py")
    assert list(told) == ([] if what is None else [f"PYTORCH_CUDA_ALLOC_CONF={what}"])


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_what_is_to_be_copied_has_the_colon_that_torch_wants(name):
    command = f"{name}=max_split_size_mb=512,expandable_segments:True python train.py"
    for versions, number in (((), 1 + (name == "PYTORCH_ALLOC_CONF")), ((torch("2.6.0"),), 1)):
        told = found(*versions, command=command)
        assert len(told) == number
        for one in told.values():
            assert one.lines == ("export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512,expandable_segments:True",)
        if versions and name == "PYTORCH_ALLOC_CONF":
            assert told[command.split()[0]].outcome == "ignored"  # so nothing raises at the sign
        else:
            assert "colon" in told[f"{name}=max_split_size_mb=512"].why


def test_a_misspelt_option_of_the_allocator_is_told_the_right_one():
    told = found(command="PYTORCH_CUDA_ALLOC_CONF=expandable_segment:True python train.py")
    (one,) = told.values()
    assert one.lines == ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",)


def test_options_that_cancel_each_other():
    value = "backend:cudaMallocAsync,max_split_size_mb:128"
    told = found(runs=(run(variables={"PYTORCH_CUDA_ALLOC_CONF": value}),))
    assert told["max_split_size_mb:128 beside backend:cudaMallocAsync"].outcome == "ignored"


@pytest.mark.parametrize(("version", "wrong"), [("2.8.0", True), ("2.9.1", True), ("2.10.0", False)])
def test_the_new_name_of_the_variable_by_version(version, wrong):
    told = found(torch(version), command="PYTORCH_ALLOC_CONF=expandable_segments:True python train.py")
    assert bool(told) is wrong
    for one in told.values():
        assert one.lines == ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ('c = GenerationConfig(kv_cache_dtype="int8")', 'GenerationConfig(kv_cache_dtype="int8")'),
        ("out = model.generate(x, kv_cache_dtype='int8')", "generate(kv_cache_dtype='int8')"),
        ("out = model.generate(x, cache_implementation='int8')", "generate(cache_implementation='int8')"),
        ("model.config.max_seq_len = 8192", "model.config.max_seq_len = 8192"),
        ("m.generation_config.kv_cache_dtype = 'int8'", "m.generation_config.kv_cache_dtype = 'int8'"),
        ('llm = LLM(model="m", kv_cache_dtype="int8", seed=3)', 'LLM(kv_cache_dtype="int8")'),
        ("llm = vllm.LLM(model='m', cache_ttl=60)", "LLM(cache_ttl=60)"),
        (
            "model.generate(**f(x), max_new_tokens=512, max_length=8192)",
            "generate(max_new_tokens=512, max_length=8192)",
        ),
    ],
)
def test_habits_in_code(code, what):
    assert list(found(event(K.CODE, code=code))) == [what]
    assert list(found(traceback(("gen.py", 3, "main", code)))) == [what]


@pytest.mark.parametrize(
    "code",
    [
        "c = GenerationConfig(max_new_tokens=8)",
        "out = model.generate(x, cache_implementation='quantized')",
        "out = model.generate(x, max_new_tokens=8); tokenizer(t, max_length=9)",
        "if model.config.max_seq_len == 8192: pass",
        "x = regenerate(kv_cache_dtype='int8')",
        'llm = LLM(model="m", kv_cache_dtype="fp8", max_model_len=8192, my_own=1)',
        'llm = ChatLLM(model="m", kv_cache_dtype="int8")',
    ],
)
def test_code_that_does_what_it_says(code):
    assert found(event(K.CODE, code=code)) == {}


@pytest.mark.parametrize(("version", "outcomes"), [
    ("4.55.4", ["ignored"]), ("5.24.0", ["unsafe"]),
])  # fmt: skip
def test_a_window_set_after_loading_by_version(version, outcomes):
    told = found(transformers(version), event(K.CODE, code="model.config.sliding_window = 4096"))
    assert [one.outcome for one in told.values()] == outcomes


@pytest.mark.parametrize(("versions", "open_still"), [
    ({}, [True, True]), ({"torch": "2.9.0"}, [True, True]), ({"transformers": "4.55.4"}, [False]),
])  # fmt: skip
def test_it_is_so_in_some_versions_where_that_framework_s_own_is_not_known(versions, open_still):
    """Another framework's version says nothing of it."""
    finder = MisuseFinder(versions, load_knobs(), load_misuses())
    told = list(finder.of_code("model.config.sliding_window = 4096", "script.py:1"))
    assert [one.in_some_versions for one in told] == open_still


def test_what_the_programs_say_themselves():
    refused = event(K.OPTION_REFUSED, option="--batch-size", value="auto", program="vllm serve")
    strange = event(K.OPTION_REFUSED, option="--frob", program="train.py")
    overruled = event(K.OPTION_OVERRULED, option="max_length", by="max_new_tokens")
    told = found(refused, strange, overruled)
    assert told["--batch-size auto"].lines == ("--max-num-seqs <N>",)
    assert told["--frob"].why == "train.py says that it does not take this"
    assert told["max_length beside max_new_tokens"].outcome == "ignored"


def test_one_thing_is_told_once():
    told = found(
        event(K.OPTION_REFUSED, option="--batch-size", value="auto", program="vllm serve"),
        event(K.COMMAND_LINE, command="vllm serve M --batch-size auto"),
        command="vllm serve M --batch-size auto",
    )
    assert list(told) == ["--batch-size auto"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("torch.cuda.empty_cache()", "torch.cuda.empty_cache()"),
        ("out = model.generate(ids, use_cache=False)", "generate(use_cache=False)"),
        ("out = model.generate(ids, use_cache=True)", None),
        ("my_empty_cache()", None),
    ],
)
def test_habits_that_do_not_lower_the_peak_are_told_where_the_code_shows_them(code, told):
    shown = set(found(event(K.CODE, code=code)))
    assert shown == ({told} if told else set())
