# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN a program that did not end of memory WHEN its log is read THEN the verdict says what ended it, not "no failure"."""

from __future__ import annotations

import pytest

from oomdoctor.model.diagnosis import Verdict
from oomdoctor.report.view import view_report

from .asked import ask, first
from .mixtures import NUMPY, TRAINING

SLURM = "slurmstepd: error: *** JOB 4411 ON gpu-3 CANCELLED AT 2026-11-30T10:00:00{} ***\n"
FROM_OUTSIDE = {
    SLURM.format(" DUE TO TIME LIMIT"): "The job reached its time limit, says slurm",
    SLURM.replace("JOB 4411", "STEP 4411.0").format(" DUE TO TIME LIMIT"): "The job reached its time limit, says slurm",
    SLURM.format(" DUE TO PREEMPTION"): "The job was preempted, says slurm",
    SLURM.format(""): "The job was cancelled, says slurm",
    "=>> PBS: job killed: walltime 3620 exceeded limit 3600\n": "The job reached its time limit, says pbs",
    "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n": "The job reached its time limit, says lsf",
    "Reason: Evicted\nMessage: The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 8Gi.\n": "Evicted for want of disk space, says kubernetes",
    "Message: Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.\n": "Evicted for want of disk space, says kubernetes",
    "Reason: DeadlineExceeded\nMessage: Job was active longer than specified deadline\n": "The job ran past its deadline, says kubernetes",
}
CRASHED = {
    "epoch 3\nSegmentation fault (core dumped)\n": "The program ended with a segmentation fault.",
    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n": "The program ended with a segmentation fault.",
    "./run.sh: line 3:  4410 Segmentation fault      (core dumped) python train.py\n": "The program ended with a segmentation fault.",
    "[ 812.1] python[4410]: segfault at 0 ip 00007f1c2b sp 00007ffd error 4 in libc.so.6\n": "The program ended with a segmentation fault.",
    "terminate called after throwing an instance of 'std::runtime_error'\nAborted (core dumped)\n": "The program aborted.",
    "Illegal instruction (core dumped)\n": "The program met an illegal instruction.",
    "##[error]Process completed with exit code 1.\n": "Ended with status 1.",
    "ERROR: Job failed: exit code 2\n": "Ended with status 2.",
    "make: *** [train] Error 1\n": "Ended with status 1.",
    SLURM.format(" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"): "The node failed, says slurm.",
}


@pytest.mark.parametrize(("log", "said"), FROM_OUTSIDE.items())
def test_what_its_system_ended_is_not_out_of_memory(log, said):
    found = ask(f"step 3 loss 1.2\n{log}")
    assert found.verdict is Verdict.NOT_OUT_OF_MEMORY
    assert first(found).rule == "NOT010"
    assert view_report(found).headline.startswith(said)


@pytest.mark.parametrize(("log", "said"), CRASHED.items())
def test_what_crashed_is_said_and_not_explained(log, said):
    found = ask(log)
    assert found.verdict is Verdict.UNDETERMINED
    assert view_report(found).headline == said
    assert found.findings == ()


@pytest.mark.parametrize("failure", [TRAINING, NUMPY])
@pytest.mark.parametrize("end", [*FROM_OUTSIDE, *CRASHED])
def test_after_memory_ran_out_the_end_is_of_that(failure, end):
    alone, found = ask(failure), ask(failure + end)
    assert found.verdict is Verdict.OUT_OF_MEMORY
    assert first(found).rule == first(alone).rule
    assert found.incidents[0].cause == alone.incidents[0].cause


@pytest.mark.parametrize(
    "log",
    [
        "Process completed with exit code 0.\n",
        "if you see Segmentation fault, update the driver\n",
        "Aborted requests: 3\nTraining complete.\n",
        "epoch 1\nepoch 2\nTraining complete.\n",
    ],
)
def test_what_only_speaks_of_such_ends_is_no_failure(log):
    assert ask(log).verdict is Verdict.NO_FAILURE


def test_a_kill_stays_a_kill():
    assert ask("##[error]Process completed with exit code 137.\n").incidents[0].cause == "process killed"
