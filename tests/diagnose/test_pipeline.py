"""GIVEN evidence WHEN it goes through the pipeline THEN what the reader must know beside the diagnosis is noted."""

from __future__ import annotations

from pathlib import Path

from oomdoctor.diagnose import diagnose, diagnose_evidence
from oomdoctor.model.diagnosis import InputRecord, Verdict
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import RunRecord
from oomdoctor.playbook.load import load_playbook


def test_dashes_that_a_shell_would_not_read_are_told(tmp_path: Path) -> None:
    log = tmp_path / "fine.log"
    log.write_text("step 1 loss 2.0\n")
    (misuse,) = diagnose([log], command="vllm serve M \u2013max-num-seqs 8").misuses
    assert misuse.what == "\u2013max-num-seqs"
    assert diagnose([log], command="vllm serve M --max-num-seqs 8").misuses == ()


def test_what_a_log_shows_of_a_launch_line_is_judged_by_the_version_that_it_shows(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text("$ vllm serve M --swap-space 4\nINFO vLLM API server version 0.18.0\n")
    (misuse,) = diagnose([log]).misuses
    assert (misuse.what, misuse.where) == ("--swap-space 4", f"{log}:1")
    log.write_text("$ vllm serve M --swap-space 4\nINFO vLLM API server version 0.17.1\n")
    assert diagnose([log]).misuses == ()


def test_a_broken_rule_is_told_and_the_rest_works(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "X001.yaml").write_text("id: X001\nwhen: [oom.fre_bytes > 1]\n")
    log = tmp_path / "oom.log"
    log.write_text("MemoryError\n")
    diagnosis = diagnose([log], rules=[tmp_path / "rules"])
    assert any("X001.yaml" in note for note in diagnosis.notes)
    assert diagnosis.findings


def test_a_run_whose_end_nobody_recorded_is_not_called_fine() -> None:
    def run(status: int | None) -> RunRecord:
        return RunRecord("incident", ("sleep", "9"), None, 0.0, None, status, None)

    playbook, read = load_playbook(), (InputRecord("incident", "bundle", "read"),)
    unknown, fine = (
        diagnose_evidence(Evidence(runs=(run(status),), inputs=read), playbook, 0.0) for status in (None, 0)
    )
    assert (unknown.verdict, fine.verdict) == (Verdict.UNDETERMINED, Verdict.NO_FAILURE)
    assert "how the command ended is not recorded" in unknown.summary
