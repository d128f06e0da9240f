# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN what several witnesses print of one failure WHEN incidents are told THEN it is one, and two stay two."""

from __future__ import annotations

import io

import pytest
from given import event, gib, oom

from oomdoctor.facts import one_failure
from oomdoctor.facts.incidents import find_incidents
from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.model.evidence import Evidence
from oomdoctor.readers.log.engine import read_log

MEMCG = "Memory cgroup out of memory: Killed process {pid} (python) total-vm:20971520kB, anon-rss:8123456kB"
GLOBAL = "Out of memory: Killed process {pid} (python) total-vm:20971520kB, anon-rss:8123456kB"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}. GPU {card} has a total capacity of 79.15 GiB of "
    "which 1.02 GiB is free. Of the allocated memory 74.10 GiB is allocated by PyTorch, and 1.20 GiB is reserved by "
    "PyTorch but unallocated."
)
FIRST = OOM.format(size="2.00 GiB", card=1)
TENSOR = (
    "OOM when allocating tensor with shape[256,96,160,160] and type float on /job:localhost/device:GPU:0 by GPU_0_bfc"
)

ONE = {
    "TensorFlow warns, then raises": (
        "2023-05-01 10:00:00.100000: W bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying to allocate"
        " 2.25GiB (rounded to 2415919104)requested by op model/conv2d/Conv2D\n"
        f"2023-05-01 10:00:10.200000: W op_kernel.cc:1745] OP_REQUIRES failed : RESOURCE_EXHAUSTED: {TENSOR}\n"
        f"ResourceExhaustedError: Graph execution error:\n{TENSOR}\n",
        "device out of memory",
    ),
    "ComfyUI sums it up": (
        "torch.OutOfMemoryError: Allocation on device \n\nGot an OOM, unloading all loaded models.\n",
        "device out of memory",
    ),
    "slurmstepd and srun": (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=44.0. Some of the step tasks have been OOM Killed.\n"
        "srun: error: nid001277: task 1: Out Of Memory\n",
        "a memory limit was hit",
    ),
    "the raylet and the task": (
        "(raylet) node_manager.cc:3277: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers\n"
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        "Memory on the node (IP: 10.0.0.1, ID: 8) where the task (task ID: 41, name=f, pid=548, memory used=12.18GB)"
        " was running was 61.91GB / 64.28GB (0.95), which exceeds the memory usage threshold of 0.95.\n",
        "the node ran low on memory, says ray",
    ),
    "peers aborted by their watchdog": (
        f"[rank1]: {FIRST}\n"
        "[rank0]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n"
        "failed (exitcode: -6) local_rank: 0 (pid: 4242) of binary: /usr/bin/python\n"
        "  traceback : Signal 6 (SIGABRT) received by PID 4242\n",
        "device out of memory",
    ),
    "docker and the kernel": (
        f'[1.5] {MEMCG.format(pid=7)}\n    "OOMKilled": true,\n    "ExitCode": 137,\n',
        "killed by the kernel for want of memory",
    ),
    "systemd and the kernel": (
        f"Nov 29 10:00:01 a kernel: {GLOBAL.format(pid=7)}\n"
        "Nov 29 10:00:01 a systemd[1]: t.service: A process of this unit has been killed by the OOM killer.\n"
        "Nov 29 10:00:01 a systemd[1]: t.service: Main process exited, code=killed, status=9/KILL\n"
        "Nov 29 10:00:01 a systemd[1]: t.service: Failed with result 'oom-kill'.\n",
        "killed by the kernel for want of memory",
    ),
    "kubelet and the container's state": (
        "      Reason:       Error\n      Exit Code:    137\n"
        "  Normal  Killing  2m  kubelet  Container vllm failed liveness probe, will be restarted\n",
        "killed because its probe failed, says kubelet",
    ),
}
TWO = {
    "two requests": f"{FIRST}\nretrying\n{OOM.format(size='512.00 MiB', card=1)}\n",
    "two cards": f"{FIRST}\n{OOM.format(size='2.00 GiB', card=0)}\n",
    "the device, then the host": f"{FIRST}\n[9.5] {GLOBAL.format(pid=7)}\n",
    "two victims, no times": f"{GLOBAL.format(pid=7)}\n{GLOBAL.format(pid=8)}\n",
    "the machine, then a cgroup": f"{GLOBAL.format(pid=7)}\n{MEMCG.format(pid=8)}\n",
    "two shapes, no sizes": f"{TENSOR}\nEpoch 2\n{TENSOR.replace('256', '128')}\n",
}


def incidents(text: str):
    return find_incidents(Evidence(events=read_log(io.BytesIO(text.encode()), "log").events))


@pytest.mark.parametrize(("text", "cause"), ONE.values(), ids=ONE)
def test_witnesses_of_one_failure_are_one_incident(text, cause):
    (incident,) = incidents(text)
    assert incident.cause == cause


def test_of_the_witnesses_the_one_with_figures_is_told():
    (incident,) = incidents(ONE["TensorFlow warns, then raises"][0])
    assert incident.requested_bytes == 2415919104


@pytest.mark.parametrize("text", TWO.values(), ids=TWO)
def test_two_failures_stay_two(text):
    assert len(incidents(text)) == 2


def test_an_abort_that_nothing_explains_is_told():
    (incident,) = incidents("failed (exitcode: -6) local_rank: 0 (pid: 4242) of binary: /usr/bin/python\n")
    assert incident.cause == "process killed"


def test_of_thousands_of_failures_few_are_held_against_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    compare = one_failure._is_one_failure

    def counting(told: list[LogEvent], other: LogEvent) -> bool:
        nonlocal compared
        compared += 1
        return compare(told, other)

    monkeypatch.setattr(one_failure, "_is_one_failure", counting)
    refused = [oom(requested_bytes=gib(number)) for number in range(1, 1001)]
    killed = [event(EventKind.KERNEL_OOM, pid=number) for number in range(1, 1001)]
    assert len(one_failure.failures_of([*refused, *killed])) == 2000
    assert compared < 2000
