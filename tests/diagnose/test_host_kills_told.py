# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN what kubelets, docker, Slurm, systemd and watchers of memory print of a kill WHEN it is diagnosed THEN the report
says whose memory ran out, with the figures that are there."""

from __future__ import annotations

import pytest

from oomdoctor.model.diagnosis import Confidence, Verdict

from .asked import ask, first

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

DESCRIBED = """Name:         trainer-0
Containers:
  proxy:
    State:          Running
    Ready:          True
    Restart Count:  0
    Limits:
      memory:  128Mi
  trainer:
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Ready:          False
    Restart Count:  4
    Limits:
      cpu:             8
      memory:          16Gi
      nvidia.com/gpu:  1
    Requests:
      cpu:             4
      memory:          12Gi
  logger:
    Limits:
      memory:  64Mi
"""
YAML = """spec:
  containers:
  - name: trainer
    resources:
      limits:
        memory: 24Gi
      requests:
        memory: 12Gi
status:
  containerStatuses:
  - lastState:
      terminated:
        exitCode: 137
        reason: OOMKilled
"""
INSPECTED = """        "State": {
            "OOMKilled": true,
            "Dead": false,
            "ExitCode": 137,
            "Error": ""
        },
        "RestartCount": 0,
        "HostConfig": {
            "Memory": 8589934592,
            "MemoryReservation": 0,
            "MemorySwap": 8589934592
"""
SEFF = """Job ID: 4160740
State: OUT_OF_MEMORY (exit code 0)
Cores per node: 20
Job Wall-clock time: 00:02:10
Memory Utilized: 31.87 GB
Memory Efficiency: 99.59% of 32.00 GB
"""
SACCT = """JobID           JobName     MaxRSS     ReqMem      State ExitCode
------------ ---------- ---------- ---------- ---------- --------
4412903           train                   32G OUT_OF_ME+    0:125
4412903.bat+      batch  33412436K            OUT_OF_ME+    0:125
4412903.ext+     extern          0             COMPLETED      0:0
"""
SACCT_BARS = """JobID|MaxRSS|ReqMem|State
131042||16000M|OUT_OF_MEMORY
131042.batch|15000M||OUT_OF_MEMORY
"""
UNIT = """× trainer.service - Trainer
     Loaded: loaded (/etc/systemd/system/trainer.service; enabled; preset: enabled)
     Active: failed (Result: oom-kill) since Mon 2024-05-27 22:23:15 CST; 12h ago
    Process: 935 ExecStart=/usr/bin/python3 train.py (code=killed, signal=KILL)
"""
EARLYOOM = """earlyoom[1233]: mem avail:  2430 of 31808 MiB ( 7.64%), swap free: 1419 of 15903 MiB ( 8.93%)
earlyoom[1233]: low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%
earlyoom[1233]: sending SIGTERM to process 29410 uid 1000 "cluster": oom_score 1170, VmRSS 23964 MiB, cmdline "c"
"""
NOHANG = """2023-08-10 16:53:26,460: Memory status that requires corrective actions:
  MemAvailable [383 MiB, 5.0 %] <= soft_threshold_min_mem [384 MiB, 5.0 %]
  SwapFree [104 MiB, 5.1 %] <= soft_threshold_min_swap [205 MiB, 10.0 %]
2023-08-10 16:53:26,463: TOP printed in 1ms; process with highest badness:
  PID: 903309, name: mysqld, badness: 849
2023-08-10 16:53:26,470:   VmRSS:     10432 MiB  (Anon: 10427 MiB, File: 6 MiB, Shmem: 0 MiB)
2023-08-10 16:53:26,470: Implement a corrective action:
2023-08-10 16:53:26,470:   Send SIGTERM to the victim; total response time: 13 ms
"""
LOW = "The node was low on resource: memory. "
TOLD = {
    "evicted": (
        LOW
        + "Threshold quantity: 750Mi, available: 225800Ki. Container nginx was using 4395616Ki, request is 0, has larger consumption of memory.",
        "HST017",
        "confirmed",
        {
            "host.available_bytes": 225800 * KIB,
            "host.eviction_threshold_bytes": 750 * MIB,
            "host.evicted": "nginx",
            "host.evicted_used_bytes": 4395616 * KIB,
            "host.evicted_request_bytes": 0,
            "host.job_limit_bytes": None,
        },
    ),
    "evicted, a decimal request": (
        LOW
        + "Container side was using 8Mi, request is 0. Container p1 was using 788244Ki, request is 128M, has larger consumption of memory.",
        "HST017",
        "likely",
        {"host.evicted": "p1", "host.evicted_request_bytes": 128_000_000},
    ),
    "refused by a node under pressure": (
        "4m7s        Warning   Evicted    pod/egg-1    The node had condition: [MemoryPressure].",
        "HST017",
        "likely",
        {"host.evicted_used_bytes": None},
    ),
    "the kubelet on the machine's kill": (
        "  Warning  SystemOOM  17m  kubelet  System OOM encountered, victim process: stress-ng-vm, pid: 3103923",
        "HST001",
        "likely",
        {"host.kernel_killed": "global", "host.kernel_victim": "stress-ng-vm (pid 3103923)"},
    ),
    "the kubelet and the kernel on the machine's kill": (
        "Warning  SystemOOM   3m57s  kubelet         System OOM encountered, victim process: stress-ng-vm, pid: 3103923\n"
        "Warning  OOMKilling  3m56s  kernel-monitor  Out of memory: Killed process 3103923 (stress-ng-vm) total-vm:15791416kB, anon-rss:14369596kB, file-rss:4kB, shmem-rss:36kB, UID:0 pgtables:28184kB oom_score_adj:1000",
        "HST001",
        "confirmed",
        {"host.kernel_victim_bytes": 14369596 * KIB, "host.kernel_kill_retold": None},
    ),
    "an old kubelet calls a cgroup's kill the machine's": (
        "System OOM encountered, victim process: gitlab-shell, pid: 3141592\n"
        "Memory cgroup out of memory: Killed process 3141592 (gitlab-shell) total-vm:15791416kB, anon-rss:36kB",
        "HST002",
        "confirmed",
        {"host.kernel_killed": "memcg"},
    ),
    "a cgroup's kill": (
        "  Warning  CgroupOOM  28s  kubelet  Cgroup OOM encountered, victim process: stress, pid: 470521",
        "HST002",
        "confirmed",
        {"host.kernel_killed": "memcg", "host.kernel_victim": "stress (pid 470521)"},
    ),
    "kubectl describe pod": (DESCRIBED, "HST002", "likely", {"host.job_limit_bytes": 16 * GIB, "exit.restarts": 4}),
    "a pod as YAML": (YAML, "HST002", "likely", {"host.job_limit_bytes": 24 * GIB}),
    "a pod of two limits as YAML": (
        YAML.replace("spec:", "spec:\n  containers:\n  - resources:\n      limits:\n        memory: 1Gi", 1),
        "HST002",
        "likely",
        {"host.job_limit_bytes": None},
    ),
    "docker inspect": (INSPECTED, "HST002", "likely", {"host.job_limit_bytes": 8 * GIB, "exit.restarts": None}),
    "docker inspect of the state alone": (
        '{"Dead":false,"Error":"","ExitCode":137,"OOMKilled":true,"RestartCount":2,"HostConfig":{"Memory":1073741824}}',
        "HST002",
        "likely",
        {"host.job_limit_bytes": GIB, "exit.restarts": 2},
    ),
    "a container that could not begin": (
        '"Error": "OCI runtime create failed: runc create failed: unable to start container process: container init was OOM-killed (memory limit too low?): unknown"',
        "HST002",
        "likely",
        {"host.job_limit_hit": True},
    ),
    "under WSL": (
        "[    0.000000] Linux version 5.15.90.1-microsoft-standard-WSL2 (oe-user@oe-host)\n"
        "[ 1234.567890] Out of memory: Killed process 812 (python) total-vm:21234567kB, anon-rss:15123456kB",
        "HST001",
        "confirmed",
        {"host.platform": "wsl"},
    ),
    "seff": (SEFF, "HST002", "likely", {"host.job_limit_bytes": 32 * GIB, "host.job_sampled_bytes": 34220151931}),
    "sacct": (SACCT, "HST002", "likely", {"host.job_limit_bytes": 32 * GIB, "host.job_sampled_bytes": 33412436 * KIB}),
    "sacct -P": (
        SACCT_BARS,
        "HST002",
        "likely",
        {"host.job_limit_bytes": 16000 * MIB, "host.job_sampled_bytes": 15000 * MIB},
    ),
    "sacct of each CPU's memory": (SACCT.replace(" 32G ", " 4Gc "), "HST002", "likely", {"host.job_limit_bytes": None}),
    "systemctl status": (UNIT, "HST015", "possible", {"host.oom_killer": "systemd"}),
    "systemctl status of a unit at its limit": (
        UNIT + "     Memory: 15.9G (max: 16.0G available: 0B peak: 16.0G)\n",
        "HST002",
        "likely",
        {"host.job_limit_bytes": 16 * GIB, "host.job_system": "systemd"},
    ),
    "systemctl status of a unit far from its limit": (
        UNIT + "     Memory: 1.9G (max: 16.0G available: 0B peak: 2.0G)\n",
        "HST015",
        "possible",
        {"host.job_limit_bytes": None},
    ),
    "a newer systemd": (
        "trainer.service: The kernel OOM killer killed some processes in this unit.",
        "HST015",
        "possible",
        {},
    ),
    "systemd-oomd, pressure": (
        "systemd-oomd[659]: Marked /system.slice/train.service for killing due to memory pressure for /system.slice being 85.03% > 80.00% for > 2s with reclaim activity",
        "HST014",
        "likely",
        {"host.oom_killer_victim": "/system.slice/train.service", "host.oom_killer_pressure": pytest.approx(0.8503)},
    ),
    "systemd-oomd, swap": (
        "systemd-oomd[709]: Killed /user.slice/a.service due to memory used (22369452032) / total (24681861120) and swap used (8589910016) / total (8589930496) being more than 90.00%",
        "HST014",
        "likely",
        {"host.total_bytes": 24681861120, "host.used_ratio": 22369452032 / 24681861120},
    ),
    "earlyoom": (
        EARLYOOM,
        "HST014",
        "likely",
        {
            "host.oom_killer_victim": "cluster (pid 29410)",
            "host.oom_killer_victim_bytes": 23964 * MIB,
            "host.available_bytes": 2430 * MIB,
            "host.total_bytes": 31808 * MIB,
        },
    ),
    "earlyoom 1.3": (
        'killing process 27541 "bash" with signal 15: badness 550, VmRSS 7609 MiB',
        "HST014",
        "likely",
        {"host.oom_killer_victim": "bash (pid 27541)", "host.oom_killer_victim_bytes": 7609 * MIB},
    ),
    "earlyoom 1.0": (
        "Killing process 'bash' with signal 15, pid: 5874, badness: 538, VmRSS: 3160 MiB",
        "HST014",
        "likely",
        {"host.oom_killer_victim": "bash (pid 5874)", "host.oom_killer_victim_bytes": 3160 * MIB},
    ),
    "nohang": (
        NOHANG,
        "HST014",
        "likely",
        {
            "host.oom_killer_victim": "mysqld (pid 903309)",
            "host.oom_killer_victim_bytes": 10432 * MIB,
            "host.available_bytes": 383 * MIB,
        },
    ),
    "macOS": (
        "kernel[0:1cd] [com.apple.xnu:memorystatus] memorystatus: killing_top_process pid 901 [node] (vm-pageshortage 12 30s rf:- type:daemon) 34416KB - memorystatus_available_pages: 83242",
        "HST001",
        "confirmed",
        {"host.kernel_victim": "node (pid 901)", "host.kernel_victim_bytes": 34416 * KIB, "host.platform": "macos"},
    ),
    "macOS, compressed memory": (
        "memorystatus: killing largest compressed process python3.11 [94572] 198602 MB",
        "HST001",
        "confirmed",
        {"host.kernel_victim": "python3.11 (pid 94572)", "host.kernel_victim_bytes": 198602 * MIB},
    ),
}


@pytest.mark.parametrize(("log", "rule", "confidence", "facts"), TOLD.values(), ids=TOLD)
def test_whose_memory_ran_out(log: str, rule: str, confidence: str, facts: dict[str, object]) -> None:
    found = ask(f"{log}\n")
    assert found.verdict is Verdict.OUT_OF_MEMORY
    assert (first(found).rule, first(found).confidence) == (rule, Confidence(confidence))
    assert {name: found.facts.value(name) for name in facts} == facts
    assert len(found.incidents) == 1


@pytest.mark.parametrize(
    "log",
    [
        "The node had condition: [DiskPressure].",
        SEFF.replace("OUT_OF_MEMORY", "COMPLETED"),
        SACCT.replace("OUT_OF_ME+", " COMPLETED"),
        "memorystatus: killing_idle_process pid 386 [wallpaperexportd] (idle-exit 1) 960KB",
        "memorystatus: killing_specific_process pid 9 [a] (long-idle-exit 1) 960KB",
        "earlyoom[1]: sending SIGTERM when mem <= 10.00% and swap <= 10.00%,",
        EARLYOOM.splitlines()[0],
    ],
)
def test_what_tells_of_no_kill(log: str) -> None:
    assert ask(f"{log}\n").verdict is Verdict.NO_FAILURE


def test_an_eviction_for_want_of_disk_space_is_not_of_memory() -> None:
    log = (
        "The node was low on resource: ephemeral-storage. Container a was using 52Ki, which exceeds its request of 0.\n"
    )
    assert ask(log).verdict is Verdict.NOT_OUT_OF_MEMORY


DEEPSPEED = """[2023-11-17 11:03:46,601] [INFO] [utils.py:803:see_memory_usage] MA 26.38 GB         Max_MA 26.38 GB         CA 26.71 GB         Max_CA 27 GB
[2023-11-17 11:03:46,602] [INFO] [utils.py:810:see_memory_usage] CPU Virtual Memory:  used = 322.57 GB, percent = 17.1%
[2023-11-17 11:04:06,578] [INFO] [utils.py:810:see_memory_usage] CPU Virtual Memory:  used = 1785.58 GB, percent = 94.6%
[2023-11-17 11:05:06,579] [ERROR] [launch.py:322:sigkill_handler] ['python', '-u', 'train.py'] exits with return code = -9
"""


def test_what_deepspeed_prints_of_the_host_is_a_curve_and_its_last_figure_counts() -> None:
    found = ask(DEEPSPEED)
    assert found.facts.value("host.used_ratio") == pytest.approx(0.946)
    (curve,) = [series for series in found.series if series.where == "host"]
    assert curve.values_bytes == (round(322.57 * GIB), round(1785.58 * GIB))
    assert (first(found).rule, first(found).confidence) == ("HST005", Confidence.LIKELY)


def test_an_eviction_is_not_answered_with_a_higher_limit() -> None:
    found = first(ask(f"{LOW}Container nginx was using 4395616Ki, request is 0, has larger consumption of memory.\n"))
    assert "resources.requests.memory, 4.19 GiB here" in found.remedies[0].do
    assert any("limit" in each.what for each in found.not_remedies)


def test_which_task_of_a_job_ran_out() -> None:
    found = ask(
        "slurmstepd: error: Detected 1 oom_kill event in StepId=11300781.0. Some of the step tasks have been OOM Killed.\n"
        "srun: error: gpu-node07: task 3: Out Of Memory\n"
    )
    assert [incident.where for incident in found.incidents] == ["task 3 on gpu-node07"]
    assert "in task 3 on gpu-node07" in found.summary


@pytest.mark.parametrize(
    ("log", "total", "parts"),
    [
        (DESCRIBED, 16 * GIB, {}),
        (SEFF, 32 * GIB, {"the most that accounting sampled": 34220151931}),
        (
            "memory: usage 8388608kB, limit 8388608kB, failcnt 4121\n"
            "Memory cgroup out of memory: Killed process 63214 (python) total-vm:13149468kB, anon-rss:7864992kB\n",
            8 * GIB,
            {
                "killed: python (pid 63214)": 7864992 * KIB,
                "others in the cgroup, page cache included": 8 * GIB - 7864992 * KIB,
            },
        ),
    ],
    ids=["described", "seff", "kernel"],
)
def test_the_limit_is_a_budget(log: str, total: int, parts: dict[str, int]) -> None:
    (budget,) = ask(log).budgets
    assert budget.total_bytes == total
    assert {part.name: part.bytes for part in budget.parts} == parts
