# ruff: noqa: E501  (launch lines are as long as they are)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomdoctor.readers.log.launch import launch_options, launch_program, pasted_dashes, server_options
from oomdoctor.readers.log.printed_options import printed_options


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("vllm serve org/m --max-model-len=4096", (("max-model-len", "4096"),)),
        ("vllm serve org/m --max-model-len 4096 --enforce-eager", (("max-model-len", "4096"), ("enforce-eager", None))),
        ("vllm serve org/m --log-level info", (("log-level", "info"),)),
        ("vllm serve --enable-prefix-caching org/m", (("enable-prefix-caching", None),)),
        ("vllm serve org/m --enable-chunked-prefill False", (("enable-chunked-prefill", "False"),)),
        ("vllm serve org/m --max-model-len -1", (("max-model-len", "-1"),)),
        ("vllm serve org/m -tp 4 -q awq", (("tensor-parallel-size", "4"), ("quantization", "awq"))),
        ("A=1 CUDA_VISIBLE_DEVICES=0,1 vllm serve org/m --port 80", (("port", "80"),)),
        ("python train.py --lr=1e-4 --fp16", (("lr", "1e-4"), ("fp16", None))),
        ("python train.py -c conf.yaml --bs 2", (("bs", "2"),)),
        ("python -m llama_cpp.server --n_ctx 2048", (("n_ctx", "2048"),)),
        (
            "./llama-server -m a.gguf -c 8192 -ngl 99 -fa -ctk q8_0 -ub 256",
            (
                ("model", "a.gguf"),
                ("ctx-size", "8192"),
                ("n-gpu-layers", "99"),
                ("flash-attn", None),
                ("cache-type-k", "q8_0"),
                ("ubatch-size", "256"),
            ),
        ),
        (
            "python -m sglang.launch_server \\\n  --model-path org/m \\\n  --cuda-graph-bs 1 2 4 --tp 2",
            (("model-path", "org/m"), ("cuda-graph-bs", "1 2 4"), ("tp", "2")),
        ),
        ('vllm serve org/m --rope-scaling \'{"type": "yarn"}\'', (("rope-scaling", '{"type": "yarn"}'),)),
        ("vllm serve org/m --port 80 > out.log 2>&1", (("port", "80"),)),
        ("vllm serve org/m --disable-log-stats && echo --done", (("disable-log-stats", None), ("done", None))),
        ('vllm serve org/m --name "unfinished --port 80', (("name", '"unfinished'), ("port", "80"))),
        ("vllm serve org/m –max-num-seqs 16 —swap-space=0", (("max-num-seqs", "16"), ("swap-space", "0"))),
        (
            "python t.py --lora_target_modules q_proj v_proj --bf16 --target a b",
            (("lora_target_modules", "q_proj v_proj"), ("bf16", None), ("target", "a")),
        ),
        ("", ()),
    ],
)
def test_options(command: str, options: tuple[tuple[str, str | None], ...]) -> None:
    assert launch_options(command) == options


def test_pasted_dashes_are_reported_as_written() -> None:
    assert pasted_dashes("vllm serve org/m –max-num-seqs 16 --port 80 —swap-space=0") == (
        "–max-num-seqs",
        "—swap-space=0",
    )
    assert pasted_dashes("echo 3–4 'a — b'") == ()


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("vllm serve org/m", "vllm"),
        ("/opt/venv/bin/vllm serve org/m", "vllm"),
        ("python3.11 -u -m vllm.entrypoints.openai.api_server --model org/m", "vllm"),
        ("python /usr/local/bin/vllm serve org/m", "vllm"),
        ("docker run --gpus all --name vllm vllm/vllm-openai:v0.9.0 --model org/m", "vllm"),
        ("python -m sglang.launch_server --model-path org/m", "sglang"),
        ("docker run lmsysorg/sglang:latest python3 -m sglang.launch_server", "sglang"),
        ("./build/bin/llama-server -m a.gguf", "llama.cpp"),
        ("python -m llama_cpp.server --model a.gguf", "llama.cpp"),
        ("C:\\llama\\llama-cli.exe -m a.gguf", "llama.cpp"),
        ("text-generation-launcher --model-id org/m", "tgi"),
        ("docker run -p 80:80 ghcr.io/huggingface/text-generation-inference:2.0 --model-id org/m", "tgi"),
        ("OLLAMA_DEBUG=1 ollama serve", "ollama"),
        ("torchrun --nproc-per-node 8 train.py", "torchrun"),
        ("python -m torch.distributed.run train.py", "torchrun"),
        ("deepspeed --num_gpus 8 train.py", "deepspeed"),
        ("accelerate launch train.py", "accelerate"),
        ("srun --gres=gpu:1 python train.py --model vllm", "python"),
        ("conda run -n vllm python train.py", "python"),
        ("python", "python"),
        ("python -m", "python"),
        ("./train.sh", "other"),
        ("", "other"),
    ],
)
def test_program(command: str, program: str) -> None:
    assert launch_program(command) == program


@given(st.text(alphabet="-–—a=b '\"\\\n1.{}", max_size=60))
def test_no_text_is_refused(command: str) -> None:
    launch_options(command)
    launch_program(command)
    pasted_dashes(command)
    printed_options(command, closed=True)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a=1, b='x, y', c=[1, {2: 3}], d=f(4, 5)) and more, e=6", (("a", "1"), ("b", "x, y"), ("c", "[1, {2: 3}]"), ("d", "f(4, 5)"))),
        ("'a': 1, \"b\": None}", (("a", "1"), ("b", "None"))),
        ("a=it's, b=2", (("a", "it's"), ("b", "2"))),
        ("a: Some(\n  4,\n), b: None,\n}", (("a", "4"), ("b", "None"))),
        ("positional, a=1", (("a", "1"),)),
        ("a='x\\'y, z', b=2", (("a", "x\\'y, z"), ("b", "2"))),
    ],
)  # fmt: skip
def test_printed_options(text: str, options: tuple[tuple[str, str], ...]) -> None:
    assert printed_options(text) == options


@pytest.mark.parametrize(
    "command",
    [
        "vllm bench latency --model x --batch-size 8",
        "cd vllm && python train.py --batch-size 4",
        "lm_eval --model vllm --model_args pretrained=x --batch_size 4",
        "evalplus.codegen --backend vllm --batch-size 4",
        "lighteval vllm pretrained=x --batch-size 4",
        "python -m sglang.bench_one_batch --batch-size 4",
    ],
)
def test_options_of_other_programs_are_not_the_server_s(command: str) -> None:
    assert [options for program, options in server_options(command) if program in ("vllm", "sglang")] == []


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve x --batch-size 4",
        "CUDA_VISIBLE_DEVICES=0 /opt/bin/vllm serve x --batch-size 4 && python bench.py --ctx-size 3",
        "python -m vllm.entrypoints.openai.api_server --model x --batch-size 4",
        "docker run --gpus all vllm/vllm-openai:v0.9.1 --batch-size 4",
    ],
)
def test_options_of_a_server_end_with_its_command(command: str) -> None:
    ((program, options),) = [found for found in server_options(command) if found[0] == "vllm"]
    assert program == "vllm"
    assert ("batch-size", "4") in options
    assert not [name for name, _ in options if name == "ctx-size"]
