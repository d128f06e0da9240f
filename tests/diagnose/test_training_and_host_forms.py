# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN what people paste of trainings and of host memory WHEN it is diagnosed THEN the kind of failure is named, no surer than it shows."""

from __future__ import annotations

import pytest

from oomdoctor.diagnose.verdict import fingerprint
from oomdoctor.model.diagnosis import Confidence, Verdict

from .asked import GIB, MIB, ask, first, size

STATEMENT = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; 20.00 GiB already "
    "allocated; 1.00 GiB free; 21.00 GiB reserved in total by PyTorch)\n"
)


def smi(*cards: tuple[int, int], processes: str | None = None, name: str = "Tesla V100-SXM2...") -> str:
    """nvidia-smi of cards of 16160 MiB, each given as MiB in use and the share of time in which it computed."""
    rows = [
        f"|   {i}  {name}  On   | 00000000:0{i + 1}:00.0 Off |                    0 |\n"
        f"| N/A   40C    P0    60W / 300W |  {used}MiB / 16160MiB |     {load}%      Default |\n"
        "+-------------------------------+----------------------+----------------------+\n"
        for i, (used, load) in enumerate(cards)
    ]
    table = (
        "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
        "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n"
        "|===============================+======================+======================|\n" + "".join(rows)
    )
    if processes is None:
        return table
    return (
        f"{table}| Processes:                                                       GPU Memory |\n"
        "|  GPU       PID   Type   Process name                             Usage      |\n"
        "|=============================================================================|\n"
        f"{processes}+-----------------------------------------------------------------------------+\n"
    )


def test_a_statement_in_small_letters_has_the_same_figures() -> None:
    one, other = ask(STATEMENT), ask(STATEMENT.lower().replace("runtimeerror", "error"))
    for name in ("requested", "total", "free", "allocated", "reserved"):
        assert size(one, name) == size(other, name)
    assert first(other).cause == first(one).cause


def test_frames_behind_the_logger_of_a_platform() -> None:
    found = ask(
        '2024-02-03 10:11:12\t2024-02-03 10:11:12.000 [INFO] [Driver] File "/a/deepspeed/runtime/engine.py", line 1505, in _configure_zero_optimizer\n'
        "2024-02-03 10:11:12\t2024-02-03 10:11:12.000 [INFO] [Driver] torch.cuda.OutOfMemoryError: CUDA out of memory.\n"
    )
    assert (first(found).rule, first(found).confidence) == ("CAP002", Confidence.LIKELY)


def test_a_checkpoint_put_back_is_not_a_step_of_the_optimizer() -> None:
    found = ask(
        "Traceback (most recent call last):\n"
        '  File "/a/train.py", line 242, in restore\n    self.optimizer.load_state_dict(saved["optimizer"])\n'
        '  File "/a/torch/optim/optimizer.py", line 103, in load_state_dict\n    state_dict = deepcopy(state_dict)\n'
        + STATEMENT
    )
    assert first(found).cause == "checkpoint-io"


@pytest.mark.parametrize(
    ("status", "cause"),
    [("CUBLAS_STATUS_SUCCESS (3 vs. 0)", "non-torch-device"), ("CUDNN_STATUS_SUCCESS (4 vs. 0)", None)],
    ids=["no memory for a handle", "an internal error"],
)
def test_a_status_that_is_printed_as_a_number(status: str, cause: str | None) -> None:
    found = ask(f"mxnet.base.MXNetError: Check failed: e == {status} : Create handle failed\n")
    assert (found.findings[0].cause if found.findings else None) == cause


def test_free_pieces_that_lie_apart() -> None:
    found = ask(
        "RESOURCE_EXHAUSTED: Attempting to reserve 5.25G at the bottom of memory. That was not possible. "
        "There are 6.00G free, 0B reserved, and 2.50G reservable.\n"
    )
    assert (first(found).rule, first(found).confidence) == ("FRG004", Confidence.LIKELY)
    assert not any("torch" in str(remedy.set) for remedy in first(found).remedies)


class TestTablesAlone:
    def test_a_card_that_is_held_by_nobody_listed(self) -> None:
        held = ask(smi((12000, 0), processes=""))
        assert (first(held).rule, first(held).confidence) == ("NBR010", Confidence.LIKELY)
        assert held.verdict is Verdict.UNDETERMINED
        computing = ask(smi((12000, 95), processes=""))
        assert first(computing).confidence is Confidence.POSSIBLE  # the program itself, seen from inside a container

    def test_a_card_whose_processes_are_listed(self) -> None:
        row = "|    0     31794      C   python                                     11900MiB |\n"
        assert not ask(smi((12000, 0), processes=row)).findings

    def test_equal_cards_at_work_with_unequal_amounts(self) -> None:
        three = ask(smi((15000, 98), (9000, 60), (9010, 55)))
        assert (first(three).rule, first(three).confidence) == ("MGP009", Confidence.LIKELY)
        assert first(ask(smi((15000, 98), (9000, 60)))).confidence is Confidence.POSSIBLE

    def test_cards_of_which_one_rests(self) -> None:
        assert not ask(smi((15000, 98), (9000, 0), (9010, 0))).findings


@pytest.mark.parametrize(
    "line",
    [
        "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits reached",
        "RuntimeError: can't start new thread",
        "OpenBLAS blas_thread_init: pthread_create failed for thread 5 of 64: Resource temporarily unavailable",
        "libgomp: Thread creation failed: Resource temporarily unavailable",
        "-bash: fork: retry: Resource temporarily unavailable",
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
    ],
)
def test_a_limit_on_threads_is_not_host_memory(line: str) -> None:
    found = ask(f"{line}\n")
    assert [finding.rule for finding in found.findings] == ["HST019"]
    assert found.incidents[0].cause == "no further thread or process could be started"


def test_limits_of_different_kinds_have_fingerprints_of_their_own() -> None:
    told = [
        ask(line)
        for line in (
            "java.lang.OutOfMemoryError: Java heap space\n",
            "RuntimeError: can't start new thread\n",
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0 cgroup.\n",
        )
    ]
    assert {first(each).cause for each in told} == {"cgroup-limit"}
    assert len({fingerprint(each.findings, each.incidents, each.facts) for each in told}) == 3


class TestWentOn:
    RETRIED = (
        f"step 10 loss 2.1\n{STATEMENT}Reducing batch size to 16 and retrying\nstep 11 loss 2.0\nstep 12 loss 1.9\n"
    )

    def test_a_program_that_went_on_is_degraded(self) -> None:
        assert ask(self.RETRIED).verdict is Verdict.DEGRADED

    def test_a_program_that_ended_later_of_something_else_is_not(self) -> None:
        found = ask(
            f"{self.RETRIED}Traceback (most recent call last):\n"
            '  File "train.py", line 80, in main\n    metrics["f1"]\nKeyError: \'f1\'\n'
        )
        assert (first(found).rule, found.verdict) == ("NOT005", Verdict.NOT_OUT_OF_MEMORY)
        assert "It ended later with KeyError" in first(found).explain

    def test_no_sentence_denies_the_failure_that_the_next_one_tells(self) -> None:
        found = ask("| WARNING: ran out of memory, retrying batch\n")
        assert first(found).rule == "NOT005"
        assert "no allocation that failed" not in found.summary


def test_a_message_s_process_has_the_name_that_a_table_lists() -> None:
    message = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB "
        "of which 1.00 GiB is free. Process 4242 has 9.50 GiB memory in use. Including non-PyTorch memory, this process "
        "has 5.20 GiB memory in use. Of the allocated memory 4.80 GiB is allocated by PyTorch, and 20.00 MiB is reserved "
        "by PyTorch but unallocated.\n"
    )
    row = "|    0     4242      C   blender                                     9728MiB |\n"
    found = ask(f"{message}{smi((15130, 50), processes=row)}")
    assert first(found).owner == "blender (pid 4242)"
    assert any("blender (pid 4242)" in remedy.do for remedy in first(found).remedies)
    assert first(ask(message)).owner == "process 4242"


def test_what_kubectl_describes_of_the_container() -> None:
    found = ask(
        "Containers:\n  trainer:\n    Container ID:   containerd://a\n    State:          Running\n"
        "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
        "    Restart Count:  4\n    Limits:\n      memory:  16Gi\n    Mounts:\n      /dev/shm from dshm (rw)\n"
        "Volumes:\n  dshm:\n    Type:       EmptyDir (a temporary directory that shares a pod's lifetime)\n"
        "    Medium:     Memory\n    SizeLimit:  64Mi\n"
    )
    assert "of the container trainer" in first(found).explain
    assert "restarted 4 times" in first(found).explain
    assert found.facts.value("host.shm_total_bytes") == 64 * MIB
    assert found.facts.value("host.job_limit_bytes") == 16 * GIB


@pytest.mark.parametrize(
    ("line", "rule", "confidence"),
    [
        ("pandas.errors.ParserError: Error tokenizing data. C error: out of memory", "HST003", Confidence.LIKELY),
        ("OSError:[Errno 12]  Cannot allocate memory", "HST003", Confidence.LIKELY),
        (
            "E failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY; total memory reported: 18446744073648275456",
            "NBR009",
            Confidence.LIKELY,
        ),
        ("RuntimeError: One or more background workers are no longer alive. Exiting.", "HST005", Confidence.POSSIBLE),
        (
            "triton.OutOfResources: out of resource: shared memory, Required: 163842, Hardware limitation: 101376.",
            "NOT001",
            Confidence.CONFIRMED,
        ),
    ],
)
def test_forms(line: str, rule: str, confidence: Confidence) -> None:
    found = first(ask(f"{line}\n"))
    assert (found.rule, found.confidence) == (rule, confidence)


def test_precedents_never_make_more_than_three_findings() -> None:
    found = ask(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. GPU 6 has a total capacity of 44.53 GiB of which 448.00 KiB is free.\n"
    )
    assert len(found.findings) <= 3
