"""GIVEN what frameworks print WHEN a figure in it is commonly misread THEN it is read right, and the report says so."""

from __future__ import annotations

import pytest

from oomdoctor.model.diagnosis import Verdict

from .asked import GIB, MIB, ask, first, gib, in_vain, sentences, size, told

_OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 1.12 GiB (GPU 0; 10.92 GiB total capacity; 5.10 GiB already "
    "allocated; 940.25 MiB free; {kept})"
)


@pytest.mark.parametrize("kept", ["4.20 GiB cached", "9.30 GiB reserved in total by PyTorch"])
def test_cached_leaves_allocated_out_and_reserved_includes_it(kept):
    found = ask(_OLD.format(kept=kept))
    assert size(found, "reserved_unallocated") == pytest.approx(gib(4.20), abs=16 * MIB)
    assert size(found, "reserved") == pytest.approx(gib(9.30), abs=16 * MIB)
    assert first(found).cause == "fragmentation"


@pytest.mark.parametrize(("printed", "means"), [("2.00 MiB", "of 1 MiB or less"), ("20.00 MiB", "of 1 to 10 MiB")])
def test_the_smallest_segments_identify_nothing(printed, means):
    found = ask(sentences(printed, "1.94 MiB", "22.90 GiB", "290.11 MiB", own="23.64 GiB"))
    assert told(found, f"cuda:0: {printed} is what the allocator asks of the driver for any request {means}")
    assert first(found).confidence.value == "possible"
    assert not told(ask(sentences("1.20 GiB", "1.94 MiB", "22.90 GiB", "290.11 MiB")), "asks of the driver")


def test_what_is_still_idle_at_the_error_cannot_be_released():
    found = ask(sentences("3.10 GiB", "900.00 MiB", "17.90 GiB", "4.41 GiB", own="22.77 GiB"))
    assert first(found).cause == "fragmentation"
    assert "released every wholly free segment before it raised" in in_vain(found, "empty_cache()")
    assert first(found).remedies[0].frees_bytes == size(found, "reserved_unallocated") == gib(4.41)


def test_free_and_idle_together_may_be_less_than_the_request():
    found = ask(sentences("7.50 GiB", "2.00 GiB", "18.10 GiB", "3.01 GiB", own="21.60 GiB"))
    assert told(found, "are 5.01 GiB together, less than the 7.50 GiB asked for")
    assert "less than what was lacking (5.50 GiB)" in in_vain(found, "fragmentation")
    assert "fragmentation" not in {finding.cause for finding in found.findings}
    enough = ask(sentences("4.50 GiB", "2.00 GiB", "18.10 GiB", "3.01 GiB", own="21.60 GiB"))
    assert not in_vain(enough, "fragmentation")  # 5.01 GiB could hold it
    assert not told(enough, "together, less than")


def test_active_beyond_allocated_waits_for_another_stream():
    summary = """\
|  PyTorch CUDA memory summary, device ID 0                                 |
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
| Allocated memory      |  18432 MiB |  21000 MiB |  99999 MiB |  81567 MiB |
| Active memory         |  21504 MiB |  22000 MiB |  99999 MiB |  78495 MiB |
| GPU reserved memory   |  22528 MiB |  22528 MiB |  22528 MiB |      0 B   |
RuntimeError: CUDA out of memory. Tried to allocate 1024.00 MiB (GPU 0; 23.65 GiB total capacity; 18.00 GiB already \
allocated; 512.00 MiB free; 22.00 GiB reserved in total by PyTorch)
"""
    found = ask(summary)
    assert found.facts.value("allocator.pending_free_bytes", "cuda:0") == 3 * GIB
    assert first(found).cause == "stream-deferred-free"
    assert "not free yet" in in_vain(found, "expandable_segments")
    assert "fragmentation" not in {finding.cause for finding in found.findings[:1]}


def test_a_process_that_is_listed_may_be_the_failing_one_itself():
    others = " Process 184213 has 38.97 GiB memory in use."
    found = ask(sentences("1.20 GiB", "410.00 MiB", "37.80 GiB", "520.10 MiB", total="39.39 GiB", others=others))
    assert size(found, "process_used") == gib(38.97)
    assert size(found, "foreign") < 64 * MIB
    assert told(found, "the message's process 184213 is the failing process itself")
    assert "other-process" not in {finding.cause for finding in found.findings}
    others = " Process 184213 has 17.90 GiB memory in use."
    stranger = ask(sentences("1.20 GiB", "410.00 MiB", "20.00 GiB", "520.10 MiB", total="39.39 GiB", others=others))
    assert first(stranger).cause == "other-process"
    assert size(stranger, "foreign") == gib(17.90)


def test_bytes_that_nobody_names_are_subtracted():
    found = ask(sentences("400.00 MiB", "120.00 MiB", "9.90 GiB", "310.00 MiB"))
    unexplained = size(found, "total") - size(found, "free") - size(found, "reserved")
    assert size(found, "unexplained") == unexplained == pytest.approx(gib(13.33), abs=16 * MIB)
    assert size(found, "foreign") == unexplained - GIB  # a context and libraries may take up to 1 GiB
    (budget,) = found.budgets
    assert sum(part.bytes for part in budget.parts) + budget.unattributed_bytes == budget.total_bytes
    assert first(found).cause == "other-process"


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 17179869184.00 GiB total capacity; 8.10 "
        "GiB already allocated; 0 bytes free; 8.40 GiB reserved in total by PyTorch)",
        sentences("512.00 MiB", "0 bytes", "6.90 GiB", "210.00 MiB", total="8.00 GiB", own="17179869184.00 GiB"),
    ],
)
def test_two_to_the_64_is_no_size(message):
    found = ask(message)
    assert told(found, "near 2^64 bytes is the driver's answer where it does not know")
    values = (size(found, name) for name in ("total", "process_used", "foreign", "requested"))
    assert all(value is None or value < 100 * GIB for value in values)


def test_zero_bytes_in_use_is_what_the_driver_does_not_know():
    found = ask(sentences("512.00 MiB", "0 bytes", "6.90 GiB", "210.00 MiB", total="8.00 GiB", own="0 bytes"))
    assert size(found, "process_used") is None
    assert "other-process" not in {finding.cause for finding in found.findings}


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.",
        "RuntimeError: Trying to create tensor with negative dimension -1207959552: [-1207959552]",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 17179869183.99 GiB. GPU 0 has a total capacity "
        "of 23.65 GiB of which 20.00 GiB is free.",
    ],
)
def test_impossible_sizes_are_a_bug_and_no_shortage(message):
    found = ask(message)
    assert found.verdict is Verdict.NOT_OUT_OF_MEMORY
    assert first(found).cause == "impossible-size"


def test_a_small_negative_dimension_is_another_slip():
    assert not ask("RuntimeError: Trying to create tensor with negative dimension -1: [-1, 4]").findings


_VLLM = """\
INFO 05-02 10:00:01 [core.py:61] Initializing a V1 LLM engine (v{version}) with config: model='m', max_seq_len=32768
INFO 05-02 10:00:02 [api_server.py:90] non-default args: {{'model': 'm', 'max_model_len': 32768{more}}}
INFO 05-02 10:00:40 [gpu_worker.py:298] Available KV cache memory: -1.37 GiB
ERROR 05-02 10:00:40 [core.py:396] ValueError: No available memory for the cache blocks. Try increasing \
`gpu_memory_utilization` when initializing the engine.
"""


@pytest.mark.parametrize(
    ("version", "share", "graphs", "words"),
    [
        ("0.8.5", 0.90, False, "taken on top of its share"),
        ("0.19.1", 0.90, False, "taken on top of its share"),
        ("0.21.0", 0.92, True, "counted within its share"),
    ],
)
def test_what_vllm_plans_with_by_version(version, share, graphs, words):
    found = ask(_VLLM.format(version=version, more=""))
    assert found.facts.value("engine.utilization") == share
    assert found.facts.value("engine.graphs_in_budget") is graphs
    assert told(found, words)
    chosen = ask(_VLLM.format(version=version, more=", 'gpu_memory_utilization': 0.7"))
    assert chosen.facts.value("engine.utilization") == 0.7
    assert found.facts.value("engine.kv_available_bytes") == pytest.approx(-gib(1.37), abs=2)


def test_what_a_version_that_is_not_known_plans_with_is_unknown():
    found = ask("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`")
    assert found.facts.value("engine.utilization") is None
    assert found.facts.value("engine.graphs_in_budget") is None


def _of_rank(rank: int) -> str:
    message = sentences(
        "2.10 GiB", "1.20 GiB", "75.00 GiB", "0.50 GiB", total="79.15 GiB", own="77.90 GiB", device=rank
    )
    return f"[rank{rank}]: {message}"


def test_all_ranks_print_the_error():
    found = ask("\n".join(map(_of_rank, range(4))))
    assert told(found, "All 4 ranks that are seen report the error, and their devices hold alike")


def test_one_rank_ran_out_and_the_others_lost_it():
    lost = "[rank{0}]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank {0}] NCCL error: remote process exited or there was a \
network error, NCCL version 2.19.3"
    found = ask("\n".join([_of_rank(2), *(lost.format(rank) for rank in (0, 1, 3))]))
    assert told(found, "Only rank 2 ran out of memory")
    assert told(found, "So rank 2 failed first")
    assert found.facts.value("ranks.peers_lost_connection") is True


def test_one_of_several_ranks_holds_more_than_its_share():
    found = ask(_of_rank(0), command="torchrun --nproc-per-node 4 train.py")
    assert told(found, "Of 4 ranks only rank 0 reports the error")


_TRY = (
    "[W1120 10:00:{:02d}.123456789 CUDACachingAllocator.cpp:3001] memory allocation failed with OOM on device 0 while "
    "trying to allocate 2147483648 bytes (free: 536870912, total: 25393692672)"
)


def test_tries_are_not_incidents():
    tries = "\n".join(_TRY.format(second % 60) for second in range(300))
    message = sentences("2.00 GiB", "512.00 MiB", "22.00 GiB", "600.00 MiB", own="23.12 GiB")
    found = ask(f"{tries}\n{message}")
    assert len(found.incidents) == 1
    assert found.facts.value("oom.count") == 1
    assert told(found, "The 300 lines about memory allocation that 'failed with OOM' are tries")
    alone = ask(f"{tries}\nstep 100 loss 2.3\n")
    assert alone.verdict is Verdict.NO_FAILURE
    assert told(alone, "the program went on")


def test_a_full_pool_preempts_and_does_not_run_out():
    found = ask(
        """\
INFO 05-02 10:10:01 [loggers.py:116] Engine 000: Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: \
1200.0 tokens/s, Running: 60 reqs, Waiting: 40 reqs, GPU KV cache usage: 99.6%, Prefix cache hit rate: 10.0%
WARNING 05-02 10:10:02 [scheduler.py:1057] Sequence group 17 is preempted by PreemptionMode.RECOMPUTE mode because \
there is not enough KV cache space. total_num_cumulative_preemption=51
"""
    )
    assert found.verdict is Verdict.DEGRADED
    assert first(found).cause == "kv-pressure"
    assert "Device memory did not run out" in first(found).explain


_BEAMS = """\
Traceback (most recent call last):
  File "gen.py", line 20, in <module>
    out = model.generate(**inputs, max_new_tokens=4096, {arguments})
  File "/opt/lib/python3.11/site-packages/transformers/cache_utils.py", line 120, in update
    self.keys = torch.cat([self.keys, key_states], dim=-2)
""" + sentences("34.00 MiB", "12.00 MiB", "22.90 GiB", "240.00 MiB", own="23.62 GiB")


def test_the_cache_of_generate_is_seen_in_the_peak_only():
    found = ask(_BEAMS.format(arguments="do_sample=True"))
    assert first(found).cause == "kv-growth"
    assert any("generate() drops its cache when it returns" in each.what for each in first(found).to_confirm)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ("num_beams=8", 8),
        ("do_sample=True, num_return_sequences=4", 4),
        ("do_sample=True", None),
        ("num_beams=1", None),
    ],
)
def test_beams_and_parallel_answers_multiply_the_cache(arguments, count):
    found = ask(_BEAMS.format(arguments=arguments))
    assert found.facts.value("activity.sequences_per_request") == count
    offered = [remedy.do for remedy in first(found).remedies if remedy.id == "fewer-sequences"]
    assert bool(offered) is (count is not None)
    assert count is None or f"instead of {count}" in offered[0]


@pytest.mark.parametrize(("asked", "count"), [("n=4", 4), ("n=1, best_of=6", 6), ("n=1", None)])
def test_a_server_s_requests_for_several_answers_multiply_its_cache(asked, count):
    found = ask(
        f"""\
INFO 05-02 10:10:00 [logger.py:43] Received request cmpl-1: prompt: None, params: SamplingParams({asked}, seed=None), x
INFO 05-02 10:10:01 [loggers.py:116] Engine 000: Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: \
1200.0 tokens/s, Running: 60 reqs, Waiting: 40 reqs, GPU KV cache usage: 99.6%, Prefix cache hit rate: 10.0%
WARNING 05-02 10:10:02 [scheduler.py:1057] Sequence group 17 is preempted by PreemptionMode.RECOMPUTE mode because \
there is not enough KV cache space. total_num_cumulative_preemption=51
"""
    )
    assert first(found).cause == "kv-pressure"
    assert found.facts.value("activity.sequences_per_request") == count
    assert any(remedy.id == "fewer-answers" for remedy in first(found).remedies) is (count is not None)


def test_dashes_pasted_from_a_document_are_read_and_told():
    found = ask(
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in "
        "KV cache (12000).",
        command="vllm serve m –max-num-seqs 64 —gpu-memory-utilization 0.95",
    )
    assert [misuse.what for misuse in found.misuses] == ["–max-num-seqs", "—gpu-memory-utilization"]
    assert all("a shell hands them on as plain words" in misuse.why for misuse in found.misuses)
    assert found.facts.value("engine.utilization") == 0.95


_STILL = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 3090        On  |   00000000:01:00.0 Off |                  N/A |
| 30%   45C    P2            120W / 350W  |   22144MiB /  24576MiB |     55%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""


def test_one_still_proves_nothing_about_growth():
    found = ask(_STILL)
    assert found.verdict is Verdict.NO_FAILURE
    assert told(found, "It shows what was in use at that moment. It cannot show whether that grew")
    assert not found.findings


_KILLED = "epoch 3 step 120\nKilled\nexit code 137\n"


def test_exit_137_alone_is_no_proof():
    found = ask(_KILLED)
    assert found.verdict is Verdict.UNDETERMINED
    assert first(found).confidence.value == "possible"
    assert any("memory.events" in gap.how_to_get_it for gap in found.missing)


@pytest.mark.parametrize(
    ("printed", "cause", "limit"),
    [
        ("$ cat /sys/fs/cgroup/memory.max\n8589934592\n$ cat /sys/fs/cgroup/memory.events\nlow 0\nhigh 0\nmax 127\n"
         "oom 4\noom_kill 2\n", "cgroup-limit", 8 * GIB),
        ("$ cat /sys/fs/cgroup/memory/memory.oom_control\noom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
         "cgroup-limit", None),
        ("[ 7248.7] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task=python,pid=16832,uid=1000\n"
         "[ 7248.8] Out of memory: Killed process 16832 (python) total-vm:33905928kB, anon-rss:6481792kB\n",
         "host-ram", None),
    ],
)  # fmt: skip
def test_counters_and_limits_are_proof(printed, cause, limit):
    found = ask(printed + _KILLED)
    assert first(found).cause == cause
    assert first(found).confidence.value in ("likely", "confirmed")
    assert found.verdict is Verdict.OUT_OF_MEMORY
    assert found.facts.value("host.cgroup_limit_bytes") == limit


def test_a_counter_that_stayed_at_zero_proves_no_kill():
    found = ask("memory.events:\nlow 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n" + _KILLED)
    assert found.verdict is Verdict.UNDETERMINED
    assert first(found).confidence.value == "possible"


def test_kills_on_the_machine_since_it_started_prove_nothing_of_this_one():
    found = ask("$ grep oom_kill /proc/vmstat\noom_kill 1\n" + _KILLED)
    assert first(found).confidence.value == "possible"
    assert found.facts.value("host.system_oom_kills") is None
    assert ask("$ grep oom_kill /proc/vmstat\noom_kill 0\n" + _KILLED).facts.value("host.system_oom_kills") == 0


def test_free_blocks_of_graph_pools_are_subtracted_once():
    found = ask(sentences("3.10 GiB", "900.00 MiB", "17.90 GiB", "0.41 GiB", own="19.77 GiB", private="2.00 GiB"))
    assert size(found, "allocated") == pytest.approx(gib(15.90), abs=2)
    assert size(found, "reserved") == pytest.approx(gib(18.31), abs=2)
    assert size(found, "private_pool") == gib(2.00)


def test_what_no_listed_process_holds_is_nobodys_that_is_known():
    found = ask(sentences("2.00 GiB", "1.20 GiB", "12.10 GiB", "0.30 GiB", own="12.90 GiB"))
    assert told(found, "cuda:0: of what is in use at least 9.55 GiB are held by no process that is listed")
    assert "other processes" not in {part.name for part in found.budgets[0].parts}
    assert (first(found).rule, first(found).confidence.value) == ("NBR001", "likely")
    assert first(found).owner is None
    assert [remedy.id for remedy in first(found).remedies] == ["find-the-other", "another-device"]
