"""`--redact`: no name of a user, host, address, path or process is left; what is public and who is who stays."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from oomdoctor.cli.main import oomdoctor
from oomdoctor.diagnose import diagnose
from oomdoctor.diagnose.pseudonyms import Pseudonyms, kept_pseudonyms
from oomdoctor.diagnose.redaction import with_pseudonyms
from oomdoctor.errors import UsageError
from oomdoctor.report import FORMATS, render

LOG = """\
Mar  3 12:00:01 falcon-7 kernel: [12.4] oom-kill:oom_memcg=/tenants/zephyr,task=zephyrd,pid=4711,uid=1000
Mar  3 12:00:01 falcon-7 kernel: [12.4] Memory cgroup out of memory: Killed process 4711 (zephyrd) \
total-vm:33554432kB, anon-rss:16777216kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:33000kB oom_score_adj:0
$ ssh mallory@falcon-7.corp.example "python /data/mallory/zephyr/jobs/distil_step.py --master 10.1.2.3:29500"
nvidia-cublas-cu12==12.4.5.8 driver 550.54.15, peer fe80::1ff:fe23:4567:890a
listening on 127.0.0.1:80, rank 3 at 12:04:05
Traceback (most recent call last):
  File "/home/mallory/zephyr/jobs/distil_step.py", line 42, in main
  File "/home/mallory/conda/envs/zephyr/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1501, in _call
  File "C:\\Users\\trent\\zephyr\\judge_all.py", line 3, in f
loaded meta-llama/Llama-3.1-8B, 12 tokens/s
see https://pytorch.org/docs/stable/notes/cuda.html http://wiki.zephyr.example/gpu?x=1
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of \
which 1.04 GiB is free. Including non-PyTorch memory, this process has 22.60 GiB memory in use. Of the allocated \
memory 21.17 GiB is allocated by PyTorch, and 1.03 GiB is reserved by PyTorch but unallocated.
judge_all.py gave up on distil_step.py, node falcon-7, bob@db.zephyr.example
"""
SAMPLE = Path(__file__).parents[2] / "sample_logs" / "one-long-prompt.log"
PRIVATE = ("mallory", "trent", "falcon", "zephyr", "distil_step", "judge_all", "10.1.2.3", "fe80::1ff", "bob@")
PUBLIC = (
    "site-packages/torch/nn/modules/module.py",
    "12.4.5.8",
    "550.54.15",
    "127.0.0.1:80",
    "12:04:05",
    "12 tokens/s",
    "meta-llama/Llama-3.1-8B",
    "https://pytorch.org/docs/stable/notes/cuda.html",
    "CUDA out of memory. Tried to allocate 2.00 GiB",
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "zephyr.log"
    path.write_text(LOG)
    return path


def redacted_lines(log: Path, names: Pseudonyms) -> list[str]:
    found = with_pseudonyms(diagnose([log]), names)
    return [line for excerpt in found.excerpts for line in excerpt.lines]


def test_no_name_is_left_in_any_form(log: Path) -> None:
    found = with_pseudonyms(diagnose([log], command="python jobs/distil_step.py --out /data/zephyr/out"), Pseudonyms())
    for form in FORMATS:
        shown = render(found, form)
        assert [name for name in PRIVATE if name in shown] == []
        assert "21.17 GiB" in shown


def test_what_is_public_stays(log: Path) -> None:
    lines = "\n".join(redacted_lines(log, Pseudonyms()))
    assert [text for text in PUBLIC if text not in lines] == []


def test_relations_stay(log: Path) -> None:
    """The same file by its path and by its name alone, the same user at home and on a disk, host and process twice."""
    names = Pseudonyms()
    lines = redacted_lines(log, names)
    script = names.known("file")["distil_step.py"]
    assert re.fullmatch(r"file\d+\.py", script)
    assert sum(script in line for line in lines) == 3
    user, host = names.known("user")["mallory"], names.known("host")["falcon-7"]
    assert sum(f"/home/{user}/" in line for line in lines) == 2
    assert any(f"/data/{user}/" in line for line in lines)
    assert sum(re.search(rf"\b{host}\b", line) is not None for line in lines) == 3
    assert sum(names.known("process")["zephyrd"] in line for line in lines) == 2


def test_the_code_of_a_rule_is_no_process() -> None:
    finding = diagnose([SAMPLE]).findings[0]
    names = Pseudonyms()
    redacted = with_pseudonyms(replace(diagnose([SAMPLE]), summary=f"Held by process 12345 ({finding.rule})."), names)
    assert redacted.summary == f"Held by process 12345 ({finding.rule})."
    assert redacted.findings[0].rule == finding.rule
    assert names.known("process") == {}


def test_the_sources_of_evidence_still_lead_to_their_lines(log: Path) -> None:
    found = with_pseudonyms(diagnose([log]), Pseudonyms())
    (excerpt,) = {excerpt.path for excerpt in found.excerpts}
    assert {fact.source.path for fact in found.facts.values() if fact.source.path} == {excerpt}
    assert found.inputs[0].path.endswith(excerpt.rsplit("/", 1)[-1])


def analyzed(*arguments: str | Path) -> Result:
    return CliRunner().invoke(oomdoctor, ["analyze", "--format", "markdown", *map(str, arguments)])


def test_names_are_the_same_in_the_next_report_and_private(log: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first, second = analyzed("--redact", log), analyzed("--redact", log)
    assert first.exit_code == 0
    assert first.stdout == second.stdout
    assert "zephyr" not in first.stdout
    kept = tmp_path / "state/oomdoctor/pseudonyms.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(json.loads(kept.read_text())["user"].values())[:2] == ["user1", "user2"]


def test_another_file_may_be_named(log: Path, tmp_path: Path) -> None:
    assert analyzed("--pseudonyms", tmp_path / "names.json", log).exit_code == 0
    assert "mallory" in (tmp_path / "names.json").read_text()


@pytest.mark.parametrize(
    "content", ["", "[]", '{"schema": "other/1"}', '{"schema": "oomdoctor.pseudonyms/1", "user": 3}']
)
def test_a_file_that_is_something_else_is_left_alone(log: Path, tmp_path: Path, content: str) -> None:
    other = tmp_path / "names.json"
    other.write_text(content)
    refused = analyzed("--pseudonyms", other, log).exception
    assert isinstance(refused, UsageError)
    assert "--pseudonyms" in str(refused)
    assert other.read_text() == content


def test_a_folder_that_cannot_be_written_is_said(log: Path) -> None:
    refused = analyzed("--pseudonyms", "/proc/none/names.json", log).exception
    assert isinstance(refused, UsageError)
    assert "/proc/none" in str(refused)


def test_two_at_once_lose_none_of_each_others_names(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from oomdoctor.diagnose.pseudonyms import kept_pseudonyms\n"
        "for number in range(20):\n"
        "    with kept_pseudonyms(Path(sys.argv[1])) as names: names.of('user', f'{sys.argv[2]}{number}')\n"
    )
    file = tmp_path / "names.json"
    both = [subprocess.Popen([sys.executable, "-c", script, file, name], env=os.environ) for name in ("a", "b")]
    assert [one.wait(30) for one in both] == [0, 0]
    with kept_pseudonyms(file) as names:
        known = names.known("user")
    assert len(known) == len(set(known.values())) == 40


def test_nothing_is_kept_where_the_names_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "names.json"
    with pytest.raises(UsageError), kept_pseudonyms(file):
        (tmp_path / f"names.json.{os.getpid()}.part").write_text("in the way")
    assert not file.exists()
