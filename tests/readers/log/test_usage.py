"""GIVEN lines that show how a program was set up WHEN they are read THEN each says what was written, and no more."""

import io

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.readers.log.engine import read_log


def read(text: str, kind: K) -> list[dict[str, object]]:
    reading = read_log(io.BytesIO(text.encode()), "log")
    return [dict(event.fields) for event in reading.events if event.kind is kind]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("$ vllm serve M --kv-cache-dtype int8", "vllm serve M --kv-cache-dtype int8"),
        ("vllm serve M \\\n  --port 8 \\\n  --cache-ttl 300\nINFO start", "vllm serve M --port 8 --cache-ttl 300"),
        ("I ran `vllm serve M --max-num-seqs 8`", "vllm serve M --max-num-seqs 8"),
        ("vllm serve M \N{EN DASH}max-num-seqs 8", "vllm serve M \N{EN DASH}max-num-seqs 8"),
        (
            "python3 -m sglang.launch_server --model-path M --tp 2",
            "python3 -m sglang.launch_server --model-path M --tp 2",
        ),
        ("$ python -m vllm.entrypoints.api_server --tp 2", "python -m vllm.entrypoints.api_server --tp 2"),
        ("$ python train.py --batch 8", "python train.py --batch 8"),
        ("(env) me@host:~/w$ CUDA_VISIBLE_DEVICES=0 python3 a/b.py -b 8", "CUDA_VISIBLE_DEVICES=0 python3 a/b.py -b 8"),
        ("$ torchrun --nproc-per-node 8 \\\n  train.py --lr 1", "torchrun --nproc-per-node 8 train.py --lr 1"),
        ("$ docker run --gpus all vllm/vllm-openai --model M", "docker run --gpus all vllm/vllm-openai --model M"),
    ],
)  # fmt: skip
def test_launch_lines(text, command):
    assert read(text, K.COMMAND_LINE) == [{"command": command}]


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve M",
        "please see how vllm serve works -- it is explained there",
        "vllm serve: error: unrecognized arguments: --x",
        "it costs 5$ python train.py --x",
        "$ python train.py",
        "$ python --version",
        "then python train.py --batch 8 was tried",
    ],
)
def test_what_is_no_launch_line(text):
    assert read(text, K.COMMAND_LINE) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "api_server.py: error: unrecognized arguments: --batch-size auto --cache-ttl=300 --fast",
            [("--batch-size", "auto"), ("--cache-ttl", "300"), ("--fast", None)],
        ),
        (
            "vllm serve: error: argument --kv-cache-dtype: invalid choice: 'int8' (choose from 'auto', 'fp8')",
            [("--kv-cache-dtype", "int8")],
        ),
        ("RuntimeError: Unrecognized CachingAllocator option: expandable_segment", [("expandable_segment", None)]),
    ],
)
def test_options_that_a_program_refuses(text, found):
    assert [(one["option"], one.get("value")) for one in read(text, K.OPTION_REFUSED)] == found


def test_max_length_that_does_not_count():
    text = (
        "Both `max_new_tokens` (=512) and `max_length`(=8192) seem to have been set. `max_new_tokens` will take "
        "precedence. Please refer to the documentation for more information."
    )
    assert read(text, K.OPTION_OVERRULED) == [{"option": "max_length", "by": "max_new_tokens"}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,backend:native", "max_split_size_mb:64,backend:native"),
        ('os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:true"', "expandable_segments:true"),
        ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments=True python t.py", "expandable_segments=True"),
    ],
)
def test_variables_that_are_set(text, value):
    assert read(text, K.ENVIRONMENT) == [{"name": "PYTORCH_CUDA_ALLOC_CONF", "value": value}]


@pytest.mark.parametrize(
    "text",
    [
        "try setting max_split_size_mb.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
        "is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
    ],
)
def test_advice_sets_nothing(text):
    assert read(text, K.ENVIRONMENT) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('    config = GenerationConfig(\n        kv_cache_dtype="int8",\n    )\n    next()',
         'config = GenerationConfig( kv_cache_dtype="int8", )'),
        ("model.config.max_seq_len = 8192", "model.config.max_seq_len = 8192"),
        ('llm = LLM(\n    "m", kv_cache_dtype="int8",\n)', 'llm = LLM( "m", kv_cache_dtype="int8", )'),
        ("m.generation_config.kv_cache_dtype = 'int8'", "m.generation_config.kv_cache_dtype = 'int8'"),
        ("model.generate(**x, max_new_tokens=5, max_length=9)", "model.generate(**x, max_new_tokens=5, max_length=9)"),
    ],
)  # fmt: skip
def test_code_that_sets_something(text, code):
    assert read(text, K.CODE) == [{"code": code}]


@pytest.mark.parametrize("lead", ["+ ", "++ ", "    command: ", "$ "])
def test_a_launch_line_behind_what_shells_and_files_put_there(lead):
    assert read(f"{lead}vllm serve m --cache-ttl 60", K.COMMAND_LINE) == [{"command": "vllm serve m --cache-ttl 60"}]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("n=4, presence_penalty=0.0", ["SamplingParams(n=4)"]),
        ("n=16, best_of=16, presence_penalty=0.0", ["SamplingParams(n=16, best_of=16)"]),
        ("n=1, best_of=8, presence_penalty=0.0", ["SamplingParams(n=1, best_of=8)"]),
        ("n=1, best_of=1, presence_penalty=0.0", []),
        ("n=1, presence_penalty=0.0", []),
    ],
)
def test_requests_for_several_answers(asked, code):
    line = f"INFO 05-02 10:10:00 [logger.py:43] Received request cmpl-1: params: SamplingParams({asked}), x\n"
    assert [one["code"] for one in read(line, K.CODE)] == code


def test_asking_is_not_setting():
    assert read("if model.config.max_seq_len == 8192: pass", K.CODE) == []


@pytest.mark.parametrize(
    ("text", "package", "version"),
    [
        ("torch==2.5.1+cu121", "torch", "2.5.1+cu121"),
        ("torch                     2.5.1", "torch", "2.5.1"),
        ("PyTorch 2.5.1+cu121", "torch", "2.5.1+cu121"),
        ("torch: 2.9.0", "torch", "2.9.0"),
        ("pytorch      2.1.0     py3.10_cuda12.1_cudnn8.9.2_0    pytorch", "torch", "2.1.0"),
        ("transformers             4.45.0", "transformers", "4.45.0"),
        ("vllm 0.11.0", "vllm", "0.11.0"),
    ],
)
def test_versions_as_lists_of_packages_and_people_write_them(text, package, version):
    assert read(text, K.VERSION) == [{"package": package, "version": version}]


@pytest.mark.parametrize(
    "text", ["torch 2.1 or newer is needed", "needs torch 2.1", "torch  2.1 GiB", "vllm 0.9 failed"]
)
def test_what_is_no_version(text):
    assert read(text, K.VERSION) == []
