# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN logs of several failures, in any order WHEN they are read THEN the latest is the one that the report is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Diagnosis, Verdict
from oomdoctor.readers.log.stamps import stamp_of

GIB, MIB = 1 << 30, 1 << 20


def oom(size: str, free: str = "1.19 GiB") -> str:
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}. GPU 0 has a total capacity of 23.69 GiB "
        f"of which {free} is free. Including non-PyTorch memory, this process has 22.49 GiB memory in use. Of the "
        "allocated memory 21.80 GiB is allocated by PyTorch, and 300.53 MiB is reserved by PyTorch but unallocated.\n"
    )


def traceback(size: str, free: str = "1.19 GiB") -> str:
    return (
        'Traceback (most recent call last):\n  File "/home/me/train.py", line 10, in <module>\n    loss.backward()\n'
        f"{oom(size, free)}"
    )


TOO_SMALL = (
    "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is needed, which is "
    "larger than the available KV cache memory (1.50 GiB). Based on the available memory, the estimated maximum model length "
    "is 12288.\n"
)
KILL = (
    "Nov 28 03:00:00 host kernel: Out of memory: Killed process 4242 (python) total-vm:100000kB, anon-rss:90000kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:100kB oom_score_adj:0\n"
)


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def read(**logs: str) -> Diagnosis:
        for name, text in logs.items():
            Path(name).write_text(text)
        return diagnose(list(logs))

    return read


def test_a_failure_that_came_before_in_the_same_words_is_another(read):
    told = read(log=traceback("2.00 GiB") + traceback("512.00 MiB", "0.10 GiB") + traceback("2.00 GiB"))
    assert [incident.requested_bytes for incident in told.incidents] == [2 * GIB, 512 * MIB, 2 * GIB]
    assert [incident.source for incident in told.incidents] == ["log:12", "log:8", "log:4"]
    assert told.facts.value("oom.free_bytes", "cuda:0") == round(1.19 * GIB)


def test_one_failure_that_is_printed_twice_is_one(read):
    told = read(log=traceback("2.00 GiB") + "launcher:\n" + traceback("2.00 GiB"))
    assert [incident.source for incident in told.incidents] == ["log:4"]


@pytest.mark.parametrize("between", ["$ vllm serve model\n", ""])
def test_a_pool_that_is_too_small_is_not_of_the_start_whose_device_was_full(read, between):
    told = read(log=traceback("2.00 GiB") + between + TOO_SMALL)
    assert told.findings[0].rule == "KV002"
    assert told.budgets == ()
    assert [incident.where for incident in told.incidents] == ["vllm", "cuda:0"]
    told = read(log=TOO_SMALL + between + traceback("2.00 GiB"))
    assert told.facts.value("engine.kv_pool_too_small") is None
    assert [incident.where for incident in told.incidents] == ["cuda:0", "vllm"]


def test_a_command_typed_after_the_failure_does_not_hide_it(read):
    told = read(log=traceback("2.00 GiB") + "$ python train.py --batch 1\n")
    assert told.facts.value("oom.requested_bytes", "cuda:0") == 2 * GIB


def test_another_failure_lends_no_budget(read):
    told = read(log=traceback("2.00 GiB") + KILL)
    assert told.budgets == ()
    assert [finding.rule for finding in told.findings] == ["HST001"]
    assert [one.explanation.rule for one in told.incidents] == ["HST001", "ACT001"]
    (budget,) = read(log=traceback("2.00 GiB")).budgets
    assert budget.moment == ""


LATE, EARLY = "2026-11-30 10:00:00 INFO start\n", "2026-11-28 10:00:00 INFO start\n"


@pytest.mark.parametrize(
    ("early", "late"),
    [(EARLY, LATE), ("Nov 28 03:00:00 box app: start\n", LATE), ("I1128 03:00:00.5 1 x.cc:1] start\n", LATE),
     ("[Sat Nov 28 03:00:00 2026] start\n", "30/Nov/2026:03:00:00 start\n"),
     ("INFO 12-31 23:59:59 start\n", "2027-01-01 00:10:00 start\n")],
)  # fmt: skip
def test_of_several_files_the_times_tell_which_is_the_latest(read, early, late):
    for names in ("ab", "ba"):
        logs = {"a": early + traceback("2.00 GiB"), "b": late + traceback("512.00 MiB", "0.10 GiB")}
        told = read(**{name: logs[name] for name in names})
        assert told.incidents[0].source == "b:5"
        assert told.facts.value("oom.requested_bytes", "cuda:0") == 512 * MIB
        assert any("told by the times" in note for note in told.notes) is (names == "ba")


def test_without_times_the_last_given_is_the_latest_and_that_is_said(read):
    for names in ("ab", "ba"):
        logs = {"a": LATE + traceback("2.00 GiB"), "b": traceback("512.00 MiB", "0.10 GiB")}
        told = read(**{name: logs[name] for name in names})
        assert told.incidents[0].source.startswith(names[-1])
        assert any("cannot be compared" in note for note in told.notes)


def lines(seconds: int) -> list[str]:
    said = ["Starting to load model m", "Available KV cache memory: 3.00 GiB", *traceback("2.00 GiB").splitlines()]
    return [f"Nov 28 03:00:{place * seconds:02} box python[55]: {line}" for place, line in enumerate(said)]


@pytest.mark.parametrize("seconds", [1, 0])
def test_a_log_with_its_newest_line_first_is_read_from_its_end(read, seconds):
    told, turned = read(log="\n".join(lines(seconds))), read(log="\n".join(reversed(lines(seconds))))
    assert told.facts.value("activity.frame") is not None
    for name in ("activity.frame", "activity.phase", "activity.exception"):
        assert turned.facts.value(name) == told.facts.value(name)
    assert "newest lines come first" in turned.inputs[0].why
    assert told.inputs[0].why == ""
    assert turned.incidents[0].source == "log:1"
    (excerpt,) = [one for one in turned.excerpts if 1 in one.marked]
    assert "CUDA out of memory" in excerpt.lines[1 - excerpt.first_line]


def test_entries_of_several_lines_keep_their_order(read):
    entries = [f"2026-11-28T03:00:0{n}Z step {n}\n  more of {n}\n" for n in range(5)]
    told = read(log="".join([f"2026-11-28T03:00:09Z ERROR\n{traceback('2.00 GiB')}", *reversed(entries)]))
    assert told.facts.value("activity.frame") is not None
    assert told.incidents[0].source == "log:5"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-28T03:00:00.5Z x", 1795834800.5),
        ("[Sat Nov 28 03:00:00 2026] x", 1795834800.0),
        ("Nov 28, 2026 @ 03:00:00.000 x", 1795834800.0),
        ('{"__REALTIME_TIMESTAMP" : "1795834800000000"}', 1795834800.0),
        ("1795834800000000000 x", 1795834800.0),
        ("step 3: Nov 99 03:00:00", None),
        ("step 2026-11-28", None),
    ],
)
def test_forms_of_times(text, seconds):
    assert stamp_of(text) == seconds


RECOVERIES = {
    "says so on its line": f"WARNING: {oom('2.00 GiB').strip()}; retrying with batch 4\nepoch 1 loss 1\n",
    "says so after it": f"{traceback('2.00 GiB')}Reducing batch size to 16 and retrying\nTraining complete.\n",
    "skips": f"{traceback('2.00 GiB')}skipping this sample\n",
    "falls back": f"{traceback('2.00 GiB')}falling back to CPU for this batch\n",
    "counts on": "step 7 loss 1\n" + traceback("2.00 GiB") + "".join(f"step {n} loss 1\n" for n in range(8, 12)),
    "a bar goes on": " 7/99 [00:01<00:09]\r"
    + traceback("2.00 GiB")
    + "\r".join(f"{n}/99 [00:01<00:09" for n in range(8, 12)),
    "counts on and finishes": "step 7\n" + traceback("2.00 GiB") + "step 8\nTraining finished successfully\n",
    "host": "step 7\nnumpy.core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB for an array\nstep 8\nstep 9\nstep 10\n",
}


@pytest.mark.parametrize("log", RECOVERIES.values(), ids=RECOVERIES)
def test_what_went_on_is_said_to_have_recovered(read, log):
    told = read(log=log)
    assert told.findings[0].rule == "NOT005"
    assert told.verdict is Verdict.DEGRADED


NOT_RECOVERED = {
    "advice": f"{traceback('2.00 GiB')}You may try reducing batch size to 16\n",
    "network": f"{traceback('2.00 GiB')}Retrying (Retry(total=4)) after connection broken\n",
    "another rank's last step": "step 7\n" + traceback("2.00 GiB") + "step 8\n",
    "fails again": "step 7\n" + traceback("2.00 GiB") + "step 8\nstep 9\nstep 10\n" + traceback("2.00 GiB"),
    "ends": "step 7\n" + traceback("2.00 GiB") + "process exited with code 1\nstep 8\nstep 9\nstep 10\n",
}


@pytest.mark.parametrize("log", NOT_RECOVERED.values(), ids=NOT_RECOVERED)
def test_what_did_not_go_on_is_not(read, log):
    told = read(log=log)
    assert told.verdict is Verdict.OUT_OF_MEMORY
    assert told.incidents[0].then == ""


@pytest.mark.parametrize(
    "log",
    [
        "step 7\n" + traceback("2.00 GiB") + "$ python train.py --batch 8\nstep 1\nstep 2\nstep 3\n",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=1.batch.\nJob restarted\nTraining finished, exit code 0\n",
        traceback("2.00 GiB")
        + "INFO vLLM API server version 0.8.0\nAvg prompt throughput: 1.0 tokens/s, Avg generation "
        "throughput: 1.0 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 1.0%, CPU KV "
        "cache usage: 0.0%.\n",
    ],
    ids=["typed", "slurm", "server"],
)
def test_another_start_that_works_does_not_hide_the_cause(read, log):
    told = read(log=log)
    assert told.verdict is Verdict.OUT_OF_MEMORY
    assert told.incidents[0].then
    assert "Another start ran on after it." in told.summary
