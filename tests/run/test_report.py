"""When a report is made, and that making it never changes how the run ends."""

import json
import shutil
import subprocess

import pytest
from click.testing import CliRunner
from estimate.files import write_config
from harness import PYTHON

from oomdoctor.cli.main import oomdoctor

REPORTS = {"report.html", "report.json", "report.md"}


def run(folder, script, *options, prelude="", arguments=()):
    main = f"{prelude}\nfrom oomdoctor.cli.main import main; main()"
    command = [PYTHON, "-c", main, "run", "--output", str(folder), *options, "--", PYTHON, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, timeout=60)


def made(folder):
    return {file.name for file in folder.iterdir()} & REPORTS


@pytest.mark.parametrize(
    ("script", "options", "reported"),
    [
        ("pass", (), False),
        ("pass", ("--report", "always"), True),
        ("raise SystemExit(1)", (), True),
        ("raise MemoryError", ("--report", "never"), False),
        ("print('RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB')", (), True),
        ("import os; os.kill(os.getpid(), 9)", (), True),
    ],
)
def test_when_a_report_is_made(tmp_path, script, options, reported):
    done = run(tmp_path / "i", script, *options)
    assert made(tmp_path / "i") == (REPORTS if reported else set())
    assert str(tmp_path / "i").encode() in done.stderr


@pytest.mark.parametrize(
    "break_",
    [
        "import oomdoctor.report as r; r.render = lambda *a: 1 // 0",
        "import sys; sys.modules['oomdoctor.diagnose'] = None",
    ],
)
def test_a_report_that_fails_leaves_the_evidence_and_the_end(tmp_path, break_):
    done = run(tmp_path / "i", "raise SystemExit(9)", prelude=break_)
    assert done.returncode == 9
    assert made(tmp_path / "i") == set()
    assert f"oomdoctor report {tmp_path / 'i'}".encode() in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--interval", "0"),
        ("--keep-output", "much"),
        ("--report", "maybe"),
        ("--stacks", "some"),
        ("--history", "0"),
        ("--wrong",),
    ],
)
def test_wrong_options_are_wrong_usage_and_run_nothing(tmp_path, options):
    done = run(tmp_path / "i", f"open({str(tmp_path / 'ran')!r}, 'w')", *options)
    assert done.returncode == 2
    assert not (tmp_path / "ran").exists()


def test_a_command_that_cannot_be_recorded_anywhere_runs_all_the_same():
    prelude = "import tempfile; tempfile.tempdir = '/proc/nowhere'"
    done = run("/proc/oomdoctor-incident", "print('works'); raise SystemExit(6)", prelude=prelude)
    assert (done.returncode, done.stdout) == (6, b"works\n")
    assert b"the command ran without being recorded" in done.stderr


VLLM = """
print("INFO 01-01 00:00:00 Initializing a V1 LLM engine (v0.11.0) with config: model='llama', dtype=torch.bfloat16,"
      " max_seq_len=29000, tensor_parallel_size=1")
print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.58 GiB"
      " of which 512.00 MiB is free.")
raise SystemExit(1)
"""


def test_the_model_of_a_run_is_known_to_a_later_report(tmp_path):
    model = write_config(tmp_path / "model")
    run(tmp_path / "i", VLLM, "--report", "never", "--model", str(model.parent))
    shutil.rmtree(model.parent)
    words = ["report", str(tmp_path / "i"), "--format", "json"]
    later = json.loads(CliRunner().invoke(oomdoctor, words).stdout)
    assert later["estimate"]["settings"].startswith("llama on vllm: 1 x 29,000 tokens")
    assert later["estimate"]["parts"][0]["estimated_bytes"] == 2 * 8_030_261_248
    assert later["facts"]["model.kv_heads"]


TRAINING = """
print('''Traceback (most recent call last):
  File "/srv/train.py", line 8, in train
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB \\
of which 1.00 GiB is free.''')
raise SystemExit(1)
"""


def test_the_trainers_file_of_a_run_is_known_to_a_later_report(tmp_path):
    model, file = write_config(tmp_path / "model"), tmp_path / "sft.yaml"
    file.write_text("use_peft: true\nlora_r: 16\nbf16: true\ntorch_dtype: bfloat16\nhub_token: hunter2\n")
    options = (str(file), "--batch", "4", "--seq", "512")
    run(tmp_path / "i", TRAINING, "--report", "never", "--model", str(model.parent), arguments=options)
    file.unlink()
    later = CliRunner().invoke(oomdoctor, ["report", str(tmp_path / "i"), "--format", "json"]).stdout
    assert json.loads(later)["estimate"]["settings"].startswith("training of 6,815,744 parameters, adamw, bf16-mixed")
    assert not any(b"hunter2" in path.read_bytes() for path in (tmp_path / "i").rglob("*") if path.is_file())


def test_the_launchers_file_of_a_run_is_known_to_a_later_report(tmp_path):
    model, file = write_config(tmp_path / "model"), tmp_path / "ds.json"
    file.write_text('{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}, "wandb": {"api_key": "hunter2"}}')
    options = ("--deepspeed", str(file), "--batch", "4", "--seq", "512")
    run(tmp_path / "i", TRAINING, "--report", "never", "--model", str(model.parent), arguments=options)
    file.unlink()
    later = CliRunner().invoke(oomdoctor, ["report", str(tmp_path / "i"), "--format", "json"]).stdout
    assert "adamw, bf16-mixed, ZeRO 3 x 1, on a card of 79.15 GiB" in json.loads(later)["estimate"]["settings"]
    assert not any(b"hunter2" in path.read_bytes() for path in (tmp_path / "i").rglob("*") if path.is_file())
