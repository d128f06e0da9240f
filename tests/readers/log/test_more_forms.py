"""GIVEN messages in older or rarer forms WHEN they are read THEN the same statement comes out as of the usual one."""

from __future__ import annotations

from io import BytesIO

import pytest

from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.readers.log.engine import read_log

GIB, MIB = 1 << 30, 1 << 20


def events(text: str, *kinds: EventKind) -> list[LogEvent]:
    return [event for event in read_log(BytesIO(text.encode()), "job.log").events if event.kind in kinds]


@pytest.mark.parametrize(
    ("text", "scope", "count"),
    [
        ("max 3\noom 1\noom_kill 7\n", "cgroup", 7),
        ("/sys/fs/cgroup/memory.events:oom_kill 7\n", "cgroup", 7),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", "cgroup", 0),
        ("drop_slab 0\noom_kill 12\nnuma_pte_updates 5\n", "system", 12),
    ],
)
def test_counters_of_kills(text, scope, count):
    (found,) = events(text, EventKind.OOM_KILL_COUNT)
    assert (found.fields["scope"], found.fields["count"]) == (scope, count)


def test_a_counter_without_its_neighbours_is_of_nobody():
    assert events("oom_kill 7\n", EventKind.OOM_KILL_COUNT) == []
    assert events("the option oom_kill 7 is not known here\n", EventKind.OOM_KILL_COUNT) == []


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("memory.max: 4294967296\n", 4 * GIB),
        ("$ cat /sys/fs/cgroup/memory.max\n4294967296\n", 4 * GIB),
        ("$ cat /sys/fs/cgroup/memory/memory.limit_in_bytes\n4294967296\n", 4 * GIB),
        ("$ cat /sys/fs/cgroup/memory.max\nmax\n", None),
        ("$ cat memory.limit_in_bytes\n9223372036854771712\n", None),
    ],
)
def test_limits_of_a_group(text, limit):
    assert [found.fields["limit_bytes"] for found in events(text, EventKind.CGROUP_LIMIT)] == ([limit] if limit else [])


@pytest.mark.parametrize(
    "text",
    [
        "[rank1]: ncclRemoteError: A call failed, possibly a network error or a remote process exiting prematurely.",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:589] Connection closed by peer [10.0.0.3]:14",
        "NCCL error: remote process exited or there was a network error, NCCL version 2.19.3",
    ],
)
def test_a_rank_that_lost_another(text):
    assert len(events(text, EventKind.PEER_LOST)) >= 1
    assert events("HTTP: Connection reset by peer while reading /v1/models", EventKind.PEER_LOST) == []


def test_rays_monitor_before_it_had_a_table():
    text = (
        "(raylet) node_manager.cc:2966: System memory low at node with IP 10.0.0.5. Used memory (120.50GB) / total "
        "capacity (125.00GB) (0.964) exceeds threshold 0.95, killing latest task with name f to avoid running out."
    )
    (found,) = events(text, EventKind.MEMORY_LIMIT_HIT)
    assert found.fields["system"] == "ray"
    assert (found.fields["used_bytes"], found.fields["total_bytes"]) == (round(120.5 * GIB), 125 * GIB)


def test_a_cache_that_the_host_refused():
    text = """\
ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 68719476768
llama_kv_cache_init: failed to allocate buffer for kv cache
"""
    (found,) = events(text, EventKind.HOST_ALLOCATION_FAILED)
    assert found.fields["purpose"] == "kv"
    (other,) = events(text.splitlines()[0] + "\n", EventKind.HOST_ALLOCATION_FAILED)
    assert "purpose" not in other.fields


_METAL = """\
ggml_metal_init: recommendedMaxWorkingSetSize  = 10922.67 MB
ggml_metal_add_buffer: allocated 'data            ' buffer, size = 12000.00 MB, ( {} / 10922.67)
{}
"""


def test_weights_beyond_the_working_set_of_metal():
    (found,) = events(_METAL.format("12000.50", "GGML_ASSERT: ggml-metal.m:1453: false"), EventKind.ENGINE_PROFILE)
    assert found.fields["weights_bytes"] == round(12000.5 * MIB)
    assert found.fields["budget_bytes"] == round(10922.67 * MIB)
    assert events(_METAL.format("9000.00", "GGML_ASSERT: ggml-metal.m:1453: false"), EventKind.ENGINE_PROFILE) == []
    assert events(_METAL.format("12000.50", "llama_new_context: ok"), EventKind.ENGINE_PROFILE) == []


def test_frames_as_ipython_names_them():
    text = """\
File ~/work/model.py:31, in Model.forward(self, x)
     30 h = self.norm(x)
---> 31 return self.head(h)

OutOfMemoryError: CUDA out of memory. Tried to allocate 642.00 MiB. GPU
"""
    (found,) = events(text, EventKind.EXCEPTION)
    assert found.fields["frames"] == (("~/work/model.py", 31, "Model.forward", "return self.head(h)"),)


def test_code_behind_logging_headers_keeps_its_order():
    head = "(EngineCore_DP0 pid=270) ERROR 11-19 12:16:36 [core.py:842] "
    lines = (
        "self.runner.warm(hidden)",
        "out, idx = scores.sort(dim=-1)",
        "^^^^",
        "torch.OutOfMemoryError: CUDA out of memory.",
    )
    (found,) = events("\n".join(head + line for line in lines), EventKind.EXCEPTION)
    assert [frame[3] for frame in found.fields["frames"]] == [
        "self.runner.warm(hidden)",
        "out, idx = scores.sort(dim=-1)",
    ]


def test_a_call_that_is_quoted_without_indentation():
    text = "net = Net.from_file('x.bin', device=0).cuda()\ntorch.OutOfMemoryError: CUDA out of memory."
    (found,) = events(text, EventKind.EXCEPTION)
    assert found.fields["frames"][0][3] == "net = Net.from_file('x.bin', device=0).cuda()"
    (prose,) = events(
        "The run ended = badly (again).\ntorch.OutOfMemoryError: CUDA out of memory.", EventKind.EXCEPTION
    )
    assert prose.fields.get("frames") is None


def test_the_sentence_of_a_launcher_around_a_failed_warm_up():
    text = 'Error: Warmup(Generation("CUDA out of memory. Tried to allocate 2.00 GiB"))'
    (found,) = events(text, EventKind.ENGINE_WARMUP_FAILED)
    assert found.fields["what"] == "other"
    assert events('Error: Warmup(Generation("expected scalar type Half"))', EventKind.ENGINE_WARMUP_FAILED) == []


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.88.", 0.88),
        ("RuntimeError: Not enough memory to allocate KV cache.", None),
    ],
)
def test_newer_words_of_sglang_for_a_pool_of_nothing(text, share):
    (found,) = events(text, EventKind.ENGINE_KV_NONE)
    assert found.fields.get("utilization") == share


def test_old_names_of_llama_cpps_weights():
    (found,) = events("llm_load_tensors:      CUDA0 buffer size =  3946.35 MiB", EventKind.ENGINE_WEIGHTS)
    assert found.fields["weights_bytes"] == round(3946.35 * MIB)
    assert found.device == 0
