"""GIVEN a headline that says memory ran out and a traceback cut before its error WHEN diagnosed THEN both make one
failure; a program's own word, or an error that is not cut, counts more than a headline.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Diagnosis, Verdict

CUT = """[rank2]:   File "/opt/job/finetune.py", line 41, in run
[rank2]:     self.optimizer.step()
[rank2]:   File "/opt/lib/python3.11/site-packages/torch/optim/adamw.py", line 205, in step
[rank2]:     state["exp_avg"] = torch.zeros_like(
"""


def told(tmp_path: Path, text: str) -> Diagnosis:
    (tmp_path / "report.log").write_text(text)
    return diagnose([tmp_path / "report.log"])


@pytest.mark.parametrize(
    "headline",
    [
        "[issue title] CUDA OOM when training a 13B model",
        "# CUDA out of memory after the first step",
        "Title: Out of Memory on two cards",
        "全参数微调时爆显存",
        "标题：微调 oom",
        "OOM on 8 x 40 GB cards",
    ],
)
def test_a_headline_over_a_cut_traceback(tmp_path, headline):
    found = told(tmp_path, f"{headline}\n{CUT}")
    assert (found.findings[0].cause, found.verdict) == ("optimizer-state", Verdict.OUT_OF_MEMORY)
    assert any("not in the text" in note for note in found.notes)


@pytest.mark.parametrize(
    "text",
    [
        CUT,
        f"[issue title] Training is slow\n{CUT}",
        f"[issue title] Avoid OOM in the first step\n{CUT}",
        f"[issue title] OOM of host RAM\n{CUT}",
        f"[issue title] CUDA OOM\n{CUT}[rank2]: ValueError: lists differ in length\n",
        "[issue title] CUDA OOM when training a 13B model\n",
        f"step 1 done\nwatching for OOM now\n{CUT}",
    ],
)
def test_nothing_is_made_of_other_words(tmp_path, text):
    assert told(tmp_path, text).facts.value("oom.count") is None


def test_the_steps_of_other_starts_around_it_change_nothing(tmp_path):
    steps = "".join(f"INFO 11-01 00:{n // 60:02d}:{n % 60:02d} step {n} loss 2.5 lr 1e-4\n" for n in range(200))
    cut = CUT.replace("[rank2]: ", "")
    found = told(tmp_path, f"{steps}[issue title] CUDA OOM when training a 13B model\n{cut}{steps}")
    assert found.findings[0].cause == "optimizer-state"


def test_a_message_of_the_program_says_more_than_the_headline(tmp_path):
    killed = "RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed.\n"
    found = told(tmp_path, f"[issue title] CUDA OOM in the data loader\n{killed}")
    assert found.findings[0].cause == "host-ram"
    assert found.facts.value("oom.count") is None
