# ruff: noqa: E501  (log lines are as long as they are)
"""Host memory, kills, the kernel's killer."""

from __future__ import annotations

import io
from typing import Any

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log import containers, host_memory, job_systems, kernel_oom, kills, runtimes, watchers
from oomdoctor.readers.log.engine import read_log

MIB, GIB = 1 << 20, 1 << 30


FAMILIES = tuple(each.FAMILY for each in (host_memory, runtimes, kernel_oom, kills, watchers, containers, job_systems))


def said(text: str) -> tuple[LogEvent, ...]:
    return read_log(io.BytesIO(text.encode()), "a.log", FAMILIES).events


def killed(**fields: Any) -> tuple[K, dict[str, Any]]:
    return K.PROCESS_KILLED, {"oom_stated": False, **fields}


def failed(**fields: Any) -> tuple[K, dict[str, Any]]:
    return K.HOST_ALLOCATION_FAILED, fields


def limit(**fields: Any) -> tuple[K, dict[str, Any]]:
    return K.MEMORY_LIMIT_HIT, fields


HOST = [
    (
        "[enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 1000 bytes. Error code 12 (Cannot allocate memory)",
        failed(allocator="torch-cpu", requested_bytes=1000),
    ),
    (
        "data. DefaultCPUAllocator: not enough memory: you tried to allocate 2000 bytes.",
        failed(allocator="torch-cpu", requested_bytes=2000),
    ),
    (
        "$ Torch: not enough memory: you tried to allocate 72GB. Buy new RAM!",
        failed(allocator="torch-cpu", requested_bytes=72 * GIB),
    ),
    (
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 58.0 GiB for an array with shape (10, 20) and data type uint16",
        failed(allocator="numpy", requested_bytes=58 * GIB, shape=(10, 20), dtype="uint16"),
    ),
    (
        "MemoryError: Unable to allocate array with shape (5,) and data type float64",
        failed(allocator="numpy", shape=(5,), dtype="float64"),
    ),
    ("MemoryError", failed(allocator="python")),
    ("  what():  std::bad_alloc", failed(allocator="malloc")),
    ("OSError: [Errno 12] Cannot allocate memory", failed(allocator="malloc")),
    ("-bash: fork: Cannot allocate memory", failed(allocator="fork")),
    (
        "OSError: [WinError 1455] The paging file is too small for this operation to complete",
        failed(allocator="windows-paging"),
    ),
    ("tcmalloc: large alloc 1453056000 bytes == 0x5576 @", (K.HOST_LARGE_ALLOCATION, {"requested_bytes": 1453056000})),
    (
        "cuda_driver.cc:802] failed to alloc 4096 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        (K.PINNED_ALLOCATION_FAILED, {"requested_bytes": 4096}),
    ),
    (
        "device_host_allocator.h:46] could not allocate pinned host memory of size: 4096",
        (K.PINNED_ALLOCATION_FAILED, {"requested_bytes": 4096}),
    ),
    (
        "RuntimeError: DataLoader worker (pid 572) is killed by signal: Bus error. It is possible that",
        (K.SHM_EXHAUSTED, {"signal": 7}),
    ),
    (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        (K.SHM_EXHAUSTED, {"signal": 7}),
    ),
    (
        "RuntimeError: unable to mmap 640 bytes from file </torch_12_34>: Cannot allocate memory (12)",
        (K.SHM_EXHAUSTED, {"requested_bytes": 640, "path": "/torch_12_34"}),
    ),
    (
        "RuntimeError: unable to write to file </torch_12_34>: No space left on device (28)",
        (K.SHM_EXHAUSTED, {"path": "/torch_12_34"}),
    ),
    (
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-abc12 (size 9637888)",
        (K.SHM_EXHAUSTED, {"path": "/dev/shm/nccl-abc12", "requested_bytes": 9637888}),
    ),
    (
        "(raylet) 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed",
        limit(system="ray", of_node=True, count=2),
    ),
    (
        "Memory on the node (IP: 1, ID: 2) where the task (actor ID: 3, name=Sim.run, pid=43, memory used=2.50GB) was running was 60.00GB / 62.50GB (0.96), which exceeds the memory usage threshold of 0.95. Ray killed this worker",
        limit(
            system="ray",
            of_node=True,
            used_bytes=60 * GIB,
            total_bytes=round(62.5 * GIB),
            threshold=0.95,
            top_processes=((43, round(2.5 * GIB), "Sim.run"),),
        ),
    ),
    (
        "More than 95% of the memory on node gpu1 is used (15.25 / 16.0 GB). The top 10 memory consumers are:\n\nPID\tMEM\tCOMMAND\n12\t4.5GiB\tray::f()",
        limit(
            system="ray",
            of_node=True,
            used_bytes=round(15.25 * GIB),
            total_bytes=16 * GIB,
            threshold=0.95,
            top_processes=((12, round(4.5 * GIB), "ray::f()"),),
        ),
    ),
    (
        "PID     MEM(GB) COMMAND\n40126   11.50   ray::A.b\n",
        (K.HOST_STATE, {"top_processes": ((40126, round(11.5 * GIB), "ray::A.b"),)}),
    ),
]

KILLS = [
    ("Killed", killed(signal=9, reported_by="shell")),
    (
        "/var/spool/slurm_script: line 28:  8156 Killed                  python3 main.py --a 1",
        killed(signal=9, reported_by="shell", pid=8156, program="python3 main.py --a 1"),
    ),
    (
        "[1]+  4242 killed     python train.py",
        killed(signal=9, reported_by="shell", pid=4242, program="python train.py"),
    ),
    ("zsh: killed     python a.py", killed(signal=9, reported_by="shell", program="python a.py")),
    ("Bus error (core dumped)", killed(signal=7, reported_by="shell")),
    (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 (pid: 29066) of binary: /usr/bin/python",
        killed(signal=9, exit_code=-9, pid=29066, program="/usr/bin/python", reported_by="elastic"),
    ),
    ("  traceback : Signal 9 (SIGKILL) received by PID 7", killed(signal=9, pid=7, reported_by="elastic")),
    ("[launch.py:321] Process 12 exits with return code = -9", killed(signal=9, exit_code=-9, reported_by="deepspeed")),
    (
        "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL",
        killed(signal=9, reported_by="spawn"),
    ),
    (
        "subprocess.CalledProcessError: Command 'x' died with <Signals.SIGKILL: 9>.",
        killed(signal=9, reported_by="subprocess"),
    ),
    (
        "mpirun noticed that process rank 1 with PID 55 on node n1 exited on signal 9 (Killed).",
        killed(signal=9, pid=55, reported_by="mpirun"),
    ),
    (
        "RuntimeError: DataLoader worker (pid 5) is killed by signal: Killed.",
        killed(signal=9, pid=5, reported_by="dataloader"),
    ),
    ("RuntimeError: DataLoader worker (pid(s) 41, 42) exited unexpectedly", killed(pid=41, reported_by="dataloader")),
    (
        "(1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop",
        killed(reported_by="ray", guess_only=True),
    ),
    (
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        killed(reported_by="ray", oom_stated=True, of_node=True),
    ),
    (
        "train.service: A process of this unit has been killed by the OOM killer.",
        killed(reported_by="systemd", oom_stated=True),
    ),
    (
        "train.service: Failed with result 'oom-kill'.",
        killed(reported_by="systemd", oom_stated=True, program="train.service"),
    ),
    ("train.service: Main process exited, code=killed, status=9/KILL", killed(reported_by="systemd", signal=9)),
    ("      Reason:       OOMKilled", killed(reported_by="kubernetes", oom_stated=True)),
    ("      Exit Code:    137", killed(reported_by="container", signal=9, exit_code=137)),
    ("command terminated with exit code 137", killed(reported_by="container", signal=9, exit_code=137)),
    (
        "container terminated with exit code (137). Reason [Error]",
        killed(reported_by="container", signal=9, exit_code=137),
    ),
    (
        "slurmstepd: error: Detected 2 oom-kill event(s) in step 37.batch cgroup.",
        limit(system="slurm", count=2, step="37.batch"),
    ),
    (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=11.0. Some of the step tasks have been OOM Killed.",
        limit(system="slurm", count=1, step="11.0"),
    ),
    (
        "srun: error: node7: task 0: Out Of Memory",
        killed(reported_by="slurm", oom_stated=True, node="node7", tasks="0"),
    ),
    (
        "slurmstepd: error: Job 12 exceeded memory limit (2048 > 1024), being killed",
        limit(system="slurm", used_bytes=2 * MIB, limit_bytes=MIB),
    ),
    ("=>> PBS: job killed: mem 2048kb exceeded limit 1024kb", limit(system="pbs", used_bytes=2 * MIB, limit_bytes=MIB)),
    (
        "The node was low on resource: memory. Container app was using 12Ki, which exceeds its request of 0.",
        limit(
            system="kubernetes", of_node=True, program="app", container_used_bytes=12 << 10, container_request_bytes=0
        ),
    ),
]


@pytest.mark.parametrize(("text", "expected"), HOST + KILLS)
def test_each_form(text: str, expected: tuple[K, dict[str, Any]]) -> None:
    (event,) = said(f"{text}\n")
    assert (event.kind, dict(event.fields)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "failed (exitcode: 1) local_rank: 0 (pid: 2) of binary: /usr/bin/python",
        "Process 12 exits with return code = 1",
        "except MemoryError:",
        "This DataLoader will create 8 worker processes in total. Our suggested max number of worker is 4",
        "0 Workers (tasks / actors) killed due to memory pressure (OOM)",
        "Killed the old job",
        "step 137 of 200",
    ],
)
def test_what_is_no_memory_event(text: str) -> None:
    assert said(text) == ()


def test_a_fork_is_known_by_the_failing_code() -> None:
    (event,) = said(
        '  File "a.py", line 1, in f\n    self.pid = os.fork()\nOSError: [Errno 12] Cannot allocate memory\n'
    )
    assert event.fields["allocator"] == "fork"


def test_docker_inspect() -> None:
    text = '"Running": false,\n"OOMKilled": {},\n"Dead": false,\n"ExitCode": {},\n'
    (event,) = said(text.format("true", 137))[:1]
    assert (event.fields["oom_stated"], event.fields["exit_code"], event.fields["signal"]) == (True, 137, 9)
    events = said(text.format("false", 137))
    assert [event.fields["oom_stated"] for event in events] == [False, False]
    assert said(text.format("false", 0)) == ()


BLOCK = """[100.100000] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=986
[100.100001] CPU: 3 PID: 42 Comm: python
[100.100002] memory: usage 1048576kB, limit 2097152kB, failcnt 17
[100.100003] Tasks state (memory values in pages):
[100.100004] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[100.100005] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/c,task=python,pid=42,uid=0
[100.100006] Memory cgroup out of memory: Killed process 42 (python) total-vm:4096kB, anon-rss:2048kB, file-rss:52kB, shmem-rss:1024kB, UID:0 pgtables:1372kB oom_score_adj:986
[100.100007] oom_reaper: reaped process 42 (python), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
"""


def test_a_kernel_block_of_a_cgroup() -> None:
    (event,) = said(BLOCK)
    assert (event.kind, event.pid, event.source.line) == (K.KERNEL_OOM, 42, 7)
    assert dict(event.fields) == {
        "constraint": "memcg",
        "pid": 42,
        "program": "python",
        "oom_score_adj": 986,
        "cgroup": "/kubepods/pod1",
        "usage_bytes": GIB,
        "limit_bytes": 2 * GIB,
        "total_vm_bytes": 4 * MIB,
        "anon_rss_bytes": 2 * MIB,
        "shmem_rss_bytes": MIB,
    }


def test_the_limit_of_memory_and_swap_is_told_where_that_one_was_hit() -> None:
    both = "[100.100002] memory+swap: usage 3145728kB, limit 3145728kB, failcnt 44\n[100.100003] Tasks state"
    (event,) = said(BLOCK.replace("[100.100003] Tasks state", both))
    assert (event.fields["usage_bytes"], event.fields["limit_bytes"]) == (3 * GIB, 3 * GIB)
    assert event.fields["swap_counts"] is True
    full = BLOCK.replace("usage 1048576kB", "usage 2097152kB")  # memory is at its own limit
    (event,) = said(full.replace("[100.100003] Tasks state", both))
    assert event.fields["limit_bytes"] == 2 * GIB
    assert "swap_counts" not in event.fields


def test_a_reaper_alone_tells_of_a_kill() -> None:
    reaped = "[100.100007] oom_reaper: reaped process 42 (python), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB\n"
    (event,) = said(reaped)
    assert (event.kind, event.pid, event.fields["program"]) == (K.KERNEL_OOM, 42, "python")
    assert "constraint" not in event.fields


def test_a_global_kill_and_an_old_announcement() -> None:
    (event,) = said(
        "kernel: Out of memory: Killed process 9 (java) total-vm:4096kB, anon-rss:2048kB, file-rss:0kB, shmem-rss:0kB\n"
    )
    assert (event.fields["constraint"], event.fields["program"]) == ("global", "java")
    (event,) = said(
        "Memory cgroup out of memory: Kill process 24 (job) score 968 or sacrifice child\n"
        "Killed process 24 (job) total-vm:4096kB, anon-rss:2048kB, file-rss:0kB\n"
    )
    assert (event.source.line, event.fields["constraint"], event.fields["anon_rss_bytes"]) == (2, "memcg", 2 * MIB)


def test_a_block_whose_end_is_missing() -> None:
    (event,) = said("\n".join(BLOCK.splitlines()[:3]))
    assert event.kind is K.KERNEL_OOM
    assert dict(event.fields) == {"usage_bytes": GIB, "limit_bytes": 2 * GIB}


def test_two_blocks_are_two_events() -> None:
    events = said(BLOCK + BLOCK.replace("42", "43").replace("2097152", "4194304"))
    assert [event.fields["limit_bytes"] for event in events] == [2 * GIB, 4 * GIB]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (
            "MemoryError: Unable to allocate 298. GiB for an array with shape (200000, 200000) and data type float64",
            298 * GIB,
        ),
        ("MemoryError: Unable to allocate 800. MiB for an array with shape (10, 20) and data type int8", 800 * MIB),
        (
            "_ArrayMemoryError: Unable to allocate 1.00 TiB for an array with shape (10, 20) and data type int8",
            1024 * GIB,
        ),
    ],
)
def test_numpy_prints_three_digits_with_a_bare_dot(text: str, size: int) -> None:
    (event,) = said(text)
    assert event.fields["requested_bytes"] == size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[    4.973019] [drm] amdgpu: 98304M of VRAM memory ready", {"device_total_bytes": 98304 * MIB}),
        ("[    4.973023] [drm] amdgpu: 15611M of GTT memory ready.", {"device_shared_bytes": 15611 * MIB}),
        (
            "Nov 29 10:00:00 box kernel: amdgpu 0000:c4:00.0: amdgpu: 512M of VRAM memory ready",
            {"device_total_bytes": 512 * MIB},
        ),
    ],
)
def test_what_the_kernel_says_of_an_amd_devices_memory(text: str, expected: dict[str, int]) -> None:
    (event,) = said(text)
    assert (event.kind, event.fields) == (K.HOST_STATE, expected)


def test_shared_memory_in_other_words() -> None:
    (event,) = said("ERROR: Unexpected BUS error encountered in DataLoader worker. This might be caused by shm\n")
    assert event.kind is K.SHM_EXHAUSTED
    opened = "RuntimeError: unable to open shared memory object </torch_11_22> in read-write mode"
    (event,) = said(f"{opened}\n")
    assert event.fields["reason_unstated"] is True
    assert said(f"{opened}: Too many open files (24)\n") == ()


def test_a_shell_s_word_behind_a_progress_bar() -> None:
    (event,) = said("Loading shards:  50%|#####     | 2/4 [00:03<00:03,  1.50s/it]Killed\n")
    assert (event.kind, event.size("signal")) == (K.PROCESS_KILLED, 9)


@pytest.mark.parametrize(("usage", "told"), [(2097152, True), (1000000, False)])
def test_a_cgroup_at_its_limit_of_a_block_cut_at_both_ends(usage: int, told: bool) -> None:
    events = said(f"kernel: memory: usage {usage}kB, limit 2097152kB, failcnt 77\nkernel: swap: usage 0kB, limit 0kB\n")
    assert [e.size("limit_bytes") for e in events] == ([2 * GIB] if told else [])
