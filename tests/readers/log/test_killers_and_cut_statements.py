# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN what kills for want of memory, and statements cut or wrapped, WHEN read THEN each says what it says, no more."""

from __future__ import annotations

import io

import pytest

from oomdoctor.diagnose.pipeline import diagnose
from oomdoctor.model.diagnosis import Verdict
from oomdoctor.model.events import EventKind
from oomdoctor.readers.log.engine import read_log


def events(text: str):
    return read_log(io.BytesIO(text.encode()), "log").events


def only(text: str, kind: EventKind):
    (found,) = [event for event in events(text) if event.kind is kind]
    return found


@pytest.mark.parametrize(
    ("text", "reporter", "fields"),
    [
        (
            "Jan 09 14:32:25 H systemd-oomd[70]: Killed /user.slice/u.slice/t.service due to memory pressure for /user.slice"
            " being 74.23% > 20.00% for > 2s with reclaim activity",
            "systemd-oomd",
            {"program": "/user.slice/u.slice/t.service"},
        ),
        (
            "systemd-oomd[7]: Killed /system.slice/httpd.service due to memory used (32305733632) / total (33046000000)"
            " and swap used (8000) / total (9000) being more than 90.00%",
            "systemd-oomd",
            {"program": "/system.slice/httpd.service"},
        ),
        ("avril 16 21:08:50 systemd-oomd[93]: Killed /user.slice/app.slice/tmux.scope", "systemd-oomd", {}),
        ("systemd-oomd[70]: oomd attempting to kill 113 with KILL", "systemd-oomd", {"pid": 113, "signal": 9}),
        ("train.service: systemd-oomd killed 2 process(es) in this unit.", "systemd-oomd", {}),
        (
            'sending SIGTERM to process 696 uid 1001 "python3": badness 757, VmRSS 637 MiB',
            "earlyoom",
            {"pid": 696, "program": "python3"},
        ),
        ('sending SIGKILL to process 12006 "python3": badness 209, VmRSS 2891 MiB', "earlyoom", {"pid": 12006}),
    ],
)
def test_who_watches_memory_says_that_it_killed(text, reporter, fields):
    kill = only(text, EventKind.PROCESS_KILLED)
    assert kill.word("reported_by") == reporter
    assert kill.fields["oom_stated"] is True
    assert fields.items() <= kill.fields.items()


@pytest.mark.parametrize(
    "text",
    [
        "systemd-oomd[93]: Considered 97 cgroups for killing, top candidates were:",
        "sending SIGTERM when mem <=  4.00% and swap <= 10.00%,",
        "Killed /home/user/old.log due to age",
    ],
)
def test_what_kills_nothing_is_no_kill(text):
    assert not [event for event in events(text) if event.kind is EventKind.PROCESS_KILLED]


@pytest.mark.parametrize("text", ["Killed", "**Killed**", "`Killed`", "已杀死", "  已杀死"])
def test_shells_say_it_in_their_language_and_people_make_it_bold(text):
    assert only(f"step 4\n{text}\n", EventKind.PROCESS_KILLED).word("reported_by") == "shell"


@pytest.mark.parametrize(
    ("trace", "constraint"),
    [
        ("out_of_memory+0xe8/0x3a0\n[7.1]  __alloc_pages_may_oom+0x144/0x218", "global"),
        ("out_of_memory+0x219/0x460\n[7.1]  __alloc_pages_slowpath.constprop.88+0x938/0xad0", "global"),
        ("out_of_memory+0x116/0x4e0\n[7.1]  mem_cgroup_out_of_memory+0xbb/0xd0", "memcg"),
        ("out_of_memory+0x116/0x4e0", None),
    ],
)
def test_the_call_trace_of_a_cut_report_tells_whose_memory_ran_out(trace, constraint):
    text = f"[7.0] python invoked oom-killer: gfp_mask=0x24280ca, order=0\n[7.1]  {trace}\n"
    assert only(text, EventKind.KERNEL_OOM).fields.get("constraint") == constraint


def test_rays_statements_may_be_wrapped_or_cut():
    wrapped = (
        "RayOutOfMemoryError: More than 95% of the memory on node\nlaptop is used (11.8 / 12.3 GB). The top 5 are:\n"
    )
    assert only(wrapped, EventKind.MEMORY_LIMIT_HIT).fields["threshold"] == 0.95
    cut = "Memory on the node (IP: 10.0.3.220, ID: d8d8) where the task (task ID: b909, name=dask:('simpl"
    assert only(cut, EventKind.MEMORY_LIMIT_HIT).word("system") == "ray"


def test_a_card_without_its_number_has_a_capacity():
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 14.48 GiB. GPU  has a total capacity of 23.68 GiB of which 1.51 GiB is free."
    assert only(text, EventKind.DEVICE_OOM).size("total_bytes") == round(23.68 * 2**30)


def test_no_blocks_at_all_is_a_pool_without_room_unless_the_error_follows():
    line = "INFO 04-27 10:13:05 llm_engine.py:275] # GPU blocks: 0, # CPU blocks: 256\n"
    assert only(line, EventKind.ENGINE_KV_NONE)
    assert only(f"{line}ValueError: No available memory for the cache blocks.\n", EventKind.ENGINE_KV_NONE)
    some = line.replace("blocks: 0", "blocks: 10")
    assert not [event for event in events(some) if event.kind is EventKind.ENGINE_KV_NONE]


def test_a_pinned_buffer_that_vulkan_refused_is_made_of_other_memory():
    assert only("ggml_vulkan: Failed to allocate pinned memory.", EventKind.PINNED_ALLOCATION_FAILED).fields[
        "recovered"
    ]


@pytest.mark.parametrize(
    ("text", "rule", "confidence", "verdict"),
    [
        ("t.service: A process of this unit has been killed by the OOM killer.", "HST015", "possible", "out-of-memory"),
        (
            "[4.4] Killed process 935 (python) total-vm:113656kB, anon-rss:102104kB",
            "HST015",
            "possible",
            "out-of-memory",
        ),
        ("systemd-oomd[70]: oomd attempting to kill 113 with KILL", "HST014", "likely", "out-of-memory"),
        (
            "  Exit Code:    137\n  Container vllm failed liveness probe, will be restarted",
            "NOT008",
            "likely",
            "not-out-of-memory",
        ),
        (
            "  Reason: OOMKilled\n  Exit Code:    137\n  Container vllm failed liveness probe, will be restarted",
            "HST002",
            "likely",
            "out-of-memory",
        ),
        (
            "RuntimeError: [enforce fail at CPUAllocator.cpp:65] . DefaultCPUAllocator: can't allocate memory: you tried to"
            " allocate 4000000000000000 bytes. Error code 12 (Cannot allocate memory)",
            "NOT007",
            "likely",
            "not-out-of-memory",
        ),
        (
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 GiB"
            " of which 244.65 GiB is free. 1.05 GiB allowed; Of the allocated memory 1017.01 MiB is allocated by PyTorch,"
            " and 54.99 MiB is reserved by PyTorch but unallocated.",
            "LIM001",
            "likely",
            "out-of-memory",
        ),
        (
            "ncclCommInitRank failed: unhandled cuda error (run with NCCL_DEBUG=INFO for details). Last NCCL warning(error)"
            " log entry (may be unrelated) 'Cuda failure 2 'out of memory''.",
            "OVH002",
            "likely",
            "out-of-memory",
        ),
    ],
)
def test_what_each_comes_to(tmp_path, text, rule, confidence, verdict):
    path = tmp_path / "log.txt"
    path.write_text(f"step 1\n{text}\n")
    told = diagnose([path])
    assert (told.findings[0].rule, told.findings[0].confidence.value) == (rule, confidence)
    assert told.verdict is Verdict(verdict)


def test_tasks_of_one_size_are_no_copies_but_ranks_may_be(tmp_path):
    head = (
        "Memory on the node (IP: 10.0.0.1, ID: 8) where the task (task ID: 41, name=f, pid=1, memory used=12.18GB) was"
        " running was 61.91GB / 64.28GB (0.95), which exceeds the memory usage threshold of 0.95.\nPID\tMEM(GB)\tCOMMAND\n"
    )
    path = tmp_path / "log.txt"
    for command, copies in (("ray::preprocess", False), ("ray::RayWorkerWrapper.execute", True)):
        path.write_text(head + "".join(f"{pid}\t14.0{pid}\t{command}\n" for pid in range(1, 5)))
        found = diagnose([path]).findings
        assert (found[0].rule, found[0].confidence.value) == ("HST004", "likely")
        assert any(one.rule == "HST010" and one.confidence.value == "possible" for one in found) is copies


def test_gunicorn_tells_of_a_worker_that_was_killed_and_guesses_why():
    text = "[2026-11-30 11:18:15 +0000] [28079] [ERROR] Worker (pid:28126) was sent SIGKILL! Perhaps out of memory?"
    killed = only(text, EventKind.PROCESS_KILLED)
    assert (killed.fields["pid"], killed.fields["signal"], killed.fields["oom_stated"]) == (28126, 9, False)
    assert killed.word("reported_by") == "gunicorn"
