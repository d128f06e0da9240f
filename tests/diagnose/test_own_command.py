"""GIVEN a log and the command it came from WHEN lines to copy are made THEN they hold that command as it was typed."""

from __future__ import annotations

import json

import pytest

from oomdoctor.diagnose.own_command import changed, filled
from oomdoctor.report import render

from .asked import ask, sentences

FULL = sentences("3.10 GiB", "900.00 MiB", "19.90 GiB", "1.41 GiB", own="22.77 GiB")


@pytest.mark.parametrize(
    ("command", "line", "shown"),
    [
        ("vllm serve m --max_num_seqs 256 --port 1", "--max-num-seqs 64", "vllm serve m --max_num_seqs 64 --port 1"),
        ("vllm serve 'a b' --max-num-seqs=256", "--max-num-seqs 64", "vllm serve 'a b' --max-num-seqs=64"),
        ("vllm serve m", "--max-num-seqs 64", "vllm serve m --max-num-seqs 64"),
        ("vllm serve m --enforce-eager", "--enforce-eager", None),
        ("vllm serve m --max-num-seqs 64", "--max-num-seqs 64", None),
        ("llama-server -m x -c 32768 -np 4", "--ctx-size 8192", "llama-server -m x -c 8192 -np 4"),
        ("a --lr 1 --lr 2", "--lr 3", None),
        ("python t.py", "export OMP_NUM_THREADS=1", "OMP_NUM_THREADS=1 python t.py"),
        ("OMP_NUM_THREADS=8 python t.py", "export OMP_NUM_THREADS=1", None),
        ("python t.py", "model.to('cpu')", None),
        ("sudo python t.py", "export OMP_NUM_THREADS=1", None),
        ("docker run -it vllm/vllm-openai --model m", "export OMP_NUM_THREADS=1", None),
        (
            "docker run vllm/vllm-openai --model m",
            "--max-num-seqs 64",
            "docker run vllm/vllm-openai --model m --max-num-seqs 64",
        ),
    ],
)
def test_one_setting_is_changed_and_all_else_stays(command: str, line: str, shown: str | None) -> None:
    assert changed(command, line, starts_it=True) == shown


def test_a_flag_of_another_program_is_not_put_on_the_line() -> None:
    assert changed("python t.py", "--max-num-seqs 64", starts_it=False) is None


def test_assignments_stand_behind_env() -> None:
    assert (
        filled("oomdoctor run -- <your command>", "A=1 python 't x.py'") == "oomdoctor run -- env A=1 python 't x.py'"
    )
    assert filled("NCCL_DEBUG=INFO <your command>", "A=1 python t.py") == "NCCL_DEBUG=INFO A=1 python t.py"


@pytest.mark.parametrize("command", ["docker run -it a python t.py", "sudo docker run a", "A=1 ssh host python t.py"])
def test_what_a_client_starts_elsewhere_is_not_watched_from_here(command: str) -> None:
    assert filled("oomdoctor run -- <your command>", command) == "oomdoctor run -- <your command>"


def test_the_command_is_in_every_line_to_copy() -> None:
    found = ask(FULL, command='python train.py --name "two words" --batch 32')
    asked = [each.command for finding in found.findings for each in finding.to_confirm]
    asked += [each.how_to_get_it for each in found.missing]
    assert 'oomdoctor run -- python train.py --name "two words" --batch 32' in asked
    assert not any("<your command>" in line for line in asked)
    for form in ("json", "html", "markdown", "terminal"):
        assert "your command" not in render(found, form), form


@pytest.mark.parametrize(
    "command",
    [
        *("cd /srv && python t.py", "python t.py > log 2>&1", "python 'cut", "vllm serve –x 1"),
        "python t.py --api-key sk-abcdefghijklmnopqrstuvwxyz012345",
    ],
)
def test_a_line_that_only_a_shell_reads_is_not_put_behind_another_program(command: str) -> None:
    found = ask(FULL, command=command)
    assert any("<your command>" in each.command for finding in found.findings for each in finding.to_confirm)


def test_a_setting_is_shown_in_the_command() -> None:
    log = (
        "INFO 05-02 10:00:01 [core.py:61] Initializing a V1 LLM engine (v0.9.2) with config: model='m'\n"
        "ValueError: To serve at least one request with the models's max seq len (131072), (15.00 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (9.81 GiB).\n"
    )
    found = ask(log, command="vllm serve m --max_model_len 131072")
    shown = [
        r["command"] for d in json.loads(render(found, "json"))["diagnoses"] for r in d["remedies"] if r["command"]
    ]
    assert "vllm serve m --max_model_len 131072 --kv-cache-dtype fp8" in shown
