"""Diagnoses as the pipeline makes them: five of ordinary life and one from somebody who means harm."""

# ruff: noqa: E501 (records read best on a line each)

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.diagnosis import (
    Budget,
    BudgetPart,
    Comparison,
    Confidence,
    Diagnosis,
    Environment,
    EvidenceItem,
    Excerpt,
    Finding,
    Holding,
    HoldingPart,
    Incident,
    InputRecord,
    Missing,
    Misuse,
    NotRemedy,
    Remedy,
    Series,
    Setting,
    ToConfirm,
    Verdict,
)
from oomdoctor.model.facts import FactSet
from oomdoctor.model.source import Source
from oomdoctor.model.units import GIB, MIB

MADE = 1_764_400_000.0


def fact_set(rows: list[tuple[str, Any, Source, str | None]]) -> FactSet:
    facts = FactSet(REGISTRY)
    for name, value, source, member in rows:
        facts.put(name, value, source, member)
    return facts


def close(where: str, total: int, parts: list[tuple[str, int, str]], request: int | None = None) -> Budget:
    rest = total - sum(size for _, size, _ in parts)
    return Budget(where, total, tuple(BudgetPart(*part) for part in parts), rest, request)


def host_list() -> Diagnosis:
    """A list that grows on the host until the process's own limit stops it."""
    samples = "supervisor.records"
    times = tuple(1_764_399_700.0 + 0.5 * step for step in range(200))
    rss = tuple(180 * MIB + round(3.63 * GIB * (step / 199) ** 1.02) for step in range(200))
    finding = Finding(
        rule="HST004",
        cause="cgroup-limit",
        family="host",
        title="The process reached its own memory limit while a list kept growing",
        confidence=Confidence.CONFIRMED,
        scope={},
        explain=(
            "The process may map 4.00 GiB (ulimit -v). Its memory rose by 37.18 MiB a second from the first second to "
            "the last, and the request of 20.00 MiB was refused with 11.32 MiB left under the limit.\n\n"
            "The list `cache` in `collect()` holds 3.51 GiB in 184 elements: each step appends one and none is taken out."
        ),
        owner="variable `cache` (list, 184 elements) in collect(), train.py:31",
        evidence=(
            EvidenceItem(
                "host.process_limit_bytes", 4 * GIB, "bytes", f"{samples} (limits)", "for",
                "the process's own limit (RLIMIT_AS or RLIMIT_DATA)",
                "host.peak_virtual_bytes >= 0.95 * host.process_limit_bytes",
            ),
            EvidenceItem(
                "host.largest_holder_bytes", 3_768_320_000, "bytes", "probe/4711.records (exception)", "for",
                "bytes it holds", "host.largest_holder_bytes >= 0.5 * host.growth_bytes",
            ),
            EvidenceItem("host.growth_steady", True, "flag", f"{samples} (200 samples)", "for",
                         "host memory rose steadily to the failure", "host.growth_steady"),
            EvidenceItem("host.available_bytes", 41 * GIB, "bytes", f"{samples} (last sample)", "against",
                         "available host memory at the failure (last sample)", "host.available_bytes < 1 GiB"),
        ),
        remedies=(
            Remedy("bound-container", "Keep only what later steps read: write each element out, or bound the list",
                   Setting("python.code", "", ("cache = collections.deque(maxlen=16)",)), 3_440_640_000, True,
                   "Elements older than 16 steps are gone", "docs.python.org: collections.deque"),
            Remedy("raise-limit", "Raise the process's limit", Setting("ulimit.v", "16777216", ("ulimit -v 16777216",)),
                   None, None, "The list still grows: it only dies later", "bash(1), ulimit"),
        ),
        not_remedies=(
            NotRemedy("gc.collect()", "the list still refers to every element, so nothing is garbage"),
            NotRemedy("A machine with more memory", "41.00 GiB were still available: the limit is the process's own"),
        ),
        to_confirm=(ToConfirm("The length of the list over the steps", "python -X tracemalloc=5 train.py"),),
        explains_bytes=3_768_320_000,
    )  # fmt: skip
    return Diagnosis(
        verdict=Verdict.OUT_OF_MEMORY,
        summary=(
            "Host memory ran out at the process's own limit of 4.00 GiB: a request of 20.00 MiB was refused. "
            "The list `cache` in train.py:31 holds 3.51 GiB and grows with every step."
        ),
        fingerprint="1:5f0c2be7d1a4",
        findings=(finding,),
        budgets=(
            close("process limit", 4 * GIB, [
                ("list `cache`, train.py:31", 3_768_320_000, "counted by the probe"),
                ("interpreter and libraries", 201_326_592, "measured"),
                ("free under the limit", 11_869_880, "measured"),
            ], 20 * MIB),
            close("host", 64 * GIB, [
                ("this command", 3_981_516_800, "measured"),
                ("other processes", 19 * GIB, "measured"),
                ("available", 41 * GIB, "measured"),
            ]),
        ),
        incidents=(Incident(1_764_399_799.5, "host", "MemoryError", "stderr.log:212", 20 * MIB),),
        missing=(
            Missing("kernel log", "reading /dev/kmsg needs privileges", "`sudo dmesg --since -1h > kernel.log`"),
        ),
        facts=fact_set([
            ("host.total_bytes", 64 * GIB, Source(samples, record="sample 200"), None),
            ("host.available_bytes", 41 * GIB, Source(samples, record="sample 200"), None),
            ("host.failed_request_bytes", 20 * MIB, Source("stderr.log", 212), None),
            ("host.process_limit_bytes", 4 * GIB, Source(samples, record="limits"), None),
            ("host.growth_steady", True, Source(derived_from=("host.samples",)), None),
            ("host.watched_seconds", 99.5, Source(samples), None),
            ("host.samples", 200, Source(samples), None),
            ("exit.status", 1, Source(samples, record="exit"), None),
        ]),
        inputs=(InputRecord("reports/20251129-071500-train", "bundle", "read"),),
        environment=Environment(
            command="python train.py --steps 500",
            working_directory="/home/dev/project",
            started_seconds=1_764_399_700.0,
            ended_seconds=1_764_399_800.2,
            ended_how="exit status 1",
            versions={"python": "3.11.9", "numpy": "2.1.0"},
            host={"platform": "Linux 6.8", "cgroup limit": "none", "swap": "0 bytes"},
            variables={"OMP_NUM_THREADS": "4"},
        ),
        series=(Series("host", "resident, command and descendants", times, rss, "every 0.50 s by the sampler", 4 * GIB),),
        excerpts=(
            Excerpt("stderr.log", 208, (
                "Traceback (most recent call last):",
                '  File "train.py", line 58, in <module>',
                "    main()",
                '  File "train.py", line 31, in collect',
                "MemoryError: Unable to allocate 20.0 MiB for an array with shape (2621440,) and data type float64",
            ), (211, 212)),
        ),
        holdings=(
            Holding("process limit", "variable `cache` (list) in collect(), train.py:31", 3_768_320_000, 184, "counted by the probe"),
            Holding("process limit", "interpreter and libraries", 201_326_592, 1, "measured"),
        ),
        made_seconds=MADE,
    )  # fmt: skip


def fragmentation() -> Diagnosis:
    """Enough is reserved on cuda:0, but in pieces."""
    total, request = 25_438_126_080, 1_610_612_736
    device = {"device": "cuda:0"}
    times = tuple(0.25 * step for step in range(2400))
    allocated = tuple(round((15.2 + 2.4 * math.sin(step / 11) + step / 2400) * GIB) for step in range(2400))
    reserved = tuple(round((18.0 + 3.9 * min(1.0, step / 1500)) * GIB) for step in range(2400))
    finding = Finding(
        rule="FRG001",
        cause="fragmentation",
        family="fragmentation",
        title="Enough memory is reserved, but no single block of it can serve the request",
        confidence=Confidence.LIKELY,
        scope=device,
        explain=(
            "The request of 1.50 GiB is smaller than the 5.31 GiB that the allocator holds without using them, but its "
            "largest free block is 832.00 MiB. The idle bytes lie between live blocks, so the allocator could not give "
            "them back to the driver before it raised."
        ),
        owner="torch's caching allocator on cuda:0 (212 segments, 5.31 GiB idle)",
        evidence=(
            EvidenceItem("oom.reserved_unallocated_bytes", 5_701_632_000, "bytes", "train.log:4182", "for",
                         "reserved by the allocator but in no live tensor; could not be released",
                         "oom.reserved_unallocated_bytes >= oom.requested_bytes"),
            EvidenceItem("allocator.largest_free_block_bytes", 832 * MIB, "bytes", "oom.pickle (block 1840)", "for",
                         "largest block in the caching allocator that could serve a request of the same pool and stream",
                         "allocator.largest_free_block_bytes < oom.requested_bytes"),
            EvidenceItem("allocator.expandable_segments", False, "flag", "oom.pickle (settings)", "for",
                         "segments can grow in place", "not allocator.expandable_segments"),
            EvidenceItem("allocator.retries", 0, "count", "oom.pickle (statistics)", "against",
                         "cudaMalloc failures that a cache release cured", "allocator.retries > 0"),
        ),
        remedies=(
            Remedy("expandable-segments", "Let the allocator grow segments in place",
                   Setting("torch.expandable_segments", "True",
                           ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",), "torch 2.9.1"),
                   5_701_632_000, True, "Slower first steps; not with CUDA IPC",
                   "docs.pytorch.org/docs/2.9/notes/cuda.html"),
            Remedy("max-split", "Do not split blocks above 512 MiB",
                   Setting("torch.max_split_size_mb", "512", (
                       "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512",
                       "export PYTORCH_ALLOC_CONF=max_split_size_mb:512",
                   ), "the second from torch 2.10 on"),
                   None, None, "More memory may be reserved", "docs.pytorch.org/docs/2.9/notes/cuda.html"),
            Remedy("smaller-batch", "Lower the batch size from 12 to 10", None, 1_073_741_824, False,
                   "Fewer samples a step", "computed from the snapshot"),
        ),
        not_remedies=(
            NotRemedy("torch.cuda.empty_cache() before the failing line",
                      "the allocator already released all it could before raising"),
        ),
        to_confirm=(ToConfirm("Run once with the setting and compare reserved minus allocated",
                              "oomdoctor run -- python train.py --batch 12"),),
        explains_bytes=5_701_632_000,
    )  # fmt: skip
    second = Finding(
        rule="ACT001", cause="activation-peak", family="activation", title="One step's activations are the larger part",
        confidence=Confidence.POSSIBLE, scope=device,
        explain="Activations hold 7.90 GiB at the peak; they grow with batch × length.",
        evidence=(EvidenceItem("owner.activations_bytes", 8_482_560_000, "bytes", "oom.pickle (owners)", "for",
                               "bytes of activations", "owner.activations_bytes > owner.weights_bytes"),),
        remedies=(Remedy("checkpointing", "Recompute activations in the backward pass",
                         Setting("torch.checkpoint", "", ("model.gradient_checkpointing_enable()",)), 5 * GIB, True,
                         "About a third more compute a step", "huggingface.co/docs/transformers"),),
        explains_bytes=8_482_560_000,
    )  # fmt: skip
    return Diagnosis(
        verdict=Verdict.OUT_OF_MEMORY,
        summary=(
            "cuda:0 could not serve a request of 1.50 GiB with 396.00 MiB free of 23.69 GiB, although 5.31 GiB lay idle "
            "in the allocator. The idle memory is in pieces, the largest 832.00 MiB."
        ),
        fingerprint="1:9a41c07be25d",
        findings=(finding, second),
        budgets=(
            close("cuda:0", total, [
                ("other processes", 402_653_184, "measured"),
                ("driver's reserve", 268_435_456, "measured"),
                ("CUDA context and libraries", 515_899_392, "measured"),
                ("weights", 3_489_660_928, "counted by the probe"),
                ("gradients", 1_744_830_464, "counted by the probe"),
                ("optimizer state", 3_489_660_928, "counted by the probe"),
                ("activations", 8_482_560_000, "from the snapshot"),
                ("idle in the allocator", 5_701_632_000, "printed by the program"),
                ("free", 415_236_096, "printed by the program"),
            ], request),
            close("cuda:1", total, [
                ("driver's reserve", 268_435_456, "measured"),
                ("CUDA context and libraries", 515_899_392, "measured"),
                ("weights", 3_489_660_928, "counted by the probe"),
                ("gradients", 1_744_830_464, "counted by the probe"),
                ("optimizer state", 3_489_660_928, "counted by the probe"),
                ("activations", 7_482_560_000, "from the snapshot"),
                ("free", 7_415_236_096, "measured"),
            ]),
        ),
        incidents=(
            Incident(None, "cuda:0", "CUDA out of memory", "train.log:4182", request),
            Incident(None, "cuda:0", "CUDA out of memory (caught)", "train.log:2077", 805_306_368),
        ),
        missing=(
            Missing("time of the failure", "the log has no timestamps", "`oomdoctor run -- python train.py …`"),
            Missing("processes on cuda:1", "nvidia-smi.txt was made after the crash", "`nvidia-smi -q -x > nvidia-smi.xml`"),
        ),
        facts=fact_set([
            ("oom.requested_bytes", request, Source("oom.pickle", record="oom event 1"), "cuda:0"),
            ("oom.requested_exact", True, Source("oom.pickle", record="oom event 1"), "cuda:0"),
            ("oom.total_bytes", total, Source("train.log", 4182), "cuda:0"),
            ("oom.free_bytes", 415_236_096, Source("train.log", 4182), "cuda:0"),
            ("oom.reserved_unallocated_bytes", 5_701_632_000, Source("train.log", 4182), "cuda:0"),
            ("oom.shortfall_bytes", request - 415_236_096,
             Source(derived_from=("oom.requested_bytes", "oom.free_bytes")), "cuda:0"),
            ("allocator.largest_free_block_bytes", 832 * MIB, Source("oom.pickle", record="block 1840"), "cuda:0"),
            ("devices.fullest_used_ratio", 0.98368, Source("nvidia-smi.txt", 14), None),
            ("torch.version", "2.9.1", Source("train.log", 3), None),
            ("activity.phase", "forward", Source("train.log", 4175), None),
        ]),
        misuses=(
            Misuse("generate(max_new_tokens=512, max_length=8192)", "ignored", "max_new_tokens takes precedence", "Instead",
                   ("tokenizer(…, truncation=True, max_length=<N>)",), "serve.py:88"),
        ),
        inputs=(
            InputRecord("train.log", "log", "read"),
            InputRecord("oom.pickle", "pytorch-snapshot", "read"),
            InputRecord("nvidia-smi.txt", "nvidia-smi", "partly", "the process table is cut off"),
        ),
        environment=Environment(command="torchrun --nproc-per-node 2 train.py --batch 12",
                                versions={"torch": "2.9.1", "CUDA": "12.8", "driver": "570.86"}),
        series=(
            Series("cuda:0", "allocated", times, allocated, "allocator events", total, True),
            Series("cuda:0", "reserved", times, reserved, "allocator events", total, True),
        ),
        excerpts=(
            Excerpt("train.log", 4180, (
                "step 1183 loss 2.114",
                '  File "train.py", line 204, in forward',
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 23.69 GiB "
                "of which 396.00 MiB is free. Including non-PyTorch memory, this process has 22.66 GiB memory in use.",
            ), (4182,)),
        ),
        holdings=(
            Holding("cuda:0", "activations of model.layers.*.mlp (forward, model.py:88)", 6_174_015_488, 64, "snapshot stacks", "activations"),
            Holding(
                "cuda:0", "parameters of Model 'model' local to main()", 3_489_660_928, 291, "census", "weights and buffers",
                (HoldingPart("layers.*.mlp", 2_147_483_648), HoldingPart("layers.*.attn", 1_073_741_824)),
            ),
            Holding("cuda:0", "optimizer state (AdamW exp_avg, exp_avg_sq)", 3_489_660_928, 582, "census"),
            Holding("cuda:0", "activations of attention (forward, model.py:61)", 2_308_544_512, 32, "snapshot stacks", "activations"),
            Holding("cuda:0", "gradients of model.layers", 1_744_830_464, 291, "census"),
        ),
        notes=("The rule file rules/mine.yaml could not be loaded: line 4: unknown fact 'oom.fre_bytes'.",),
        made_seconds=MADE,
    )  # fmt: skip


def kv_too_small() -> Diagnosis:
    """vLLM's pool cannot hold one request of the maximum length."""
    total = 85_899_345_920
    finding = Finding(
        rule="KVC002", cause="kv-below-max-length", family="kv-cache",
        title="The KV pool is smaller than one request of the maximum length",
        confidence=Confidence.CONFIRMED, scope={},
        explain=(
            "One request of 131,072 tokens needs 16.00 GiB of keys and values; 11.21 GiB are left after weights and the "
            "profiled activation peak. 91,824 tokens would fit."
        ),
        owner="vLLM's weights (61.42 GiB) and its utilization limit of 0.90",
        evidence=(
            EvidenceItem("engine.kv_needed_bytes", 16 * GIB, "bytes", "vllm.log:87", "for",
                         "bytes one request of the maximum length needs", "engine.kv_needed_bytes > engine.kv_available_bytes"),
            EvidenceItem("engine.kv_available_bytes", 12_036_645_847, "bytes", "vllm.log:87", "for",
                         "left for the KV pool; negative: the rest is already over the budget"),
            EvidenceItem("engine.context_set_by_user", False, "flag", "vllm.log:2", "against",
                         "the command or log shows that someone chose the context length"),
        ),
        remedies=(
            Remedy("shorter", "Serve requests up to the length that fits",
                   Setting("vllm.max_model_len", "91824", ("--max-model-len 91824",), "vLLM 0.11.0"),
                   5_143_223_337, True, "Longer requests are refused", "docs.vllm.ai/en/v0.11.0/configuration/conserving_memory"),
            Remedy("utilization", "Give the engine 0.96 of the card",
                   Setting("vllm.gpu_memory_utilization", "0.96", ("--gpu-memory-utilization 0.96",)),
                   5_153_960_755, True, "Leaves 3.20 GiB for everything else", "docs.vllm.ai"),
        ),
        not_remedies=(NotRemedy("--max-num-seqs 1", "the pool must hold one request of the maximum length in any case"),),
        explains_bytes=5_143_223_337,
    )  # fmt: skip
    return Diagnosis(
        verdict=Verdict.OUT_OF_MEMORY,
        summary=(
            "vLLM cannot start: one request of 131,072 tokens needs 16.00 GiB of KV cache, and 11.21 GiB are left of "
            "80.00 GiB. Lower the maximum length to 91,824 tokens, or give the engine more of the card."
        ),
        fingerprint="1:77e0a3c1f9b2",
        findings=(finding,),
        budgets=(
            close("cuda:0", total, [
                ("driver's reserve", 858_993_459, "measured"),
                ("CUDA context and libraries", 1_288_490_188, "printed by the program"),
                ("weights", 65_949_222_830, "printed by the program"),
                ("activation peak", 1_610_612_736, "printed by the program"),
                ("left for the KV pool", 12_036_645_847, "printed by the program"),
            ], 16 * GIB),
        ),
        incidents=(Incident(1_764_399_000.0, "cuda:0", "ValueError: the model's max seq len is larger than the KV cache",
                            "vllm.log:87", 16 * GIB),),
        missing=(
            Missing("memory of other processes", "no nvidia-smi output among the inputs", "`nvidia-smi -q -x > nvidia-smi.xml`"),
            Missing("allocator snapshot", "the engine stopped before any allocation failed", ""),
        ),
        facts=fact_set([
            ("engine.name", "vllm", Source("vllm.log", 1), None),
            ("engine.version", "0.11.0", Source("vllm.log", 1), None),
            ("engine.kv_needed_tokens", 131072, Source("vllm.log", 87), None),
            ("engine.kv_needed_bytes", 16 * GIB, Source("vllm.log", 87), None),
            ("engine.kv_available_bytes", 12_036_645_847, Source("vllm.log", 87), None),
            ("engine.utilization", 0.9, Source("vllm.log", 2), None),
        ]),
        inputs=(InputRecord("vllm.log", "log", "read"),),
        environment=Environment(command="vllm serve example/model-32b --gpu-memory-utilization 0.90 --cache-ttl 300",
                                versions={"vllm": "0.11.0"}),
        comparisons=(
            Comparison("one step", 1_610_612_736, 4_831_838_208, "vllm.log:80", "live tensors and the request that failed"),
            Comparison("CUDA graphs", 536_870_912, 483_183_820, "vllm.log:81", "vllm.log:92"),
        ),
        misuses=(
            Misuse("--cache-ttl 300", "refused", "vLLM has no such option, and keys and values do not expire by time", "",
                   (), "command line"),
            Misuse("PYTORCH_ALLOC_CONF=expandable_segments:True", "ignored",
                   "The CUDA allocator of these versions reads PYTORCH_CUDA_ALLOC_CONF only", "Instead",
                   ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",), "vllm.log:3"),
        ),
        excerpts=(
            Excerpt("vllm.log", 86, (
                "INFO 11-29 06:50:00 [gpu_worker.py:298] Available KV cache memory: 11.21 GiB",
                "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, "
                "which is larger than the available KV cache memory (11.21 GiB).",
            ), (86, 87)),
        ),
        made_seconds=MADE,
    )  # fmt: skip


def undetermined() -> Diagnosis:
    """A killed process, and nothing that says why."""
    return Diagnosis(
        verdict=Verdict.UNDETERMINED,
        summary=(
            "The command was killed with SIGKILL (exit status 137), and nothing in the input says that memory was why. "
            "Collect the kernel log or the cgroup's counters to tell."
        ),
        fingerprint="1:000000000000",
        findings=(),
        budgets=(Budget("host", 32 * GIB, (), 32 * GIB),),
        incidents=(Incident(None, "host", "killed (exit status 137)", "job.log:9"),),
        missing=(
            Missing("kernel log", "not among the inputs",
                    "`journalctl -k --since '1 hour ago' | grep -i -E 'oom|killed process' > kernel.log`"),
            Missing("cgroup counters", "not among the inputs", "`cat /sys/fs/cgroup/memory.events`"),
            Missing("memory samples", "the command was not run under oomdoctor", "`oomdoctor run -- ./job.sh`"),
            Missing("exit status of each worker", "the log ends with the parent's line", "`oomdoctor run -- ./job.sh`"),
            Missing("limits of the process", "not printed", "`ulimit -a`"),
        ),
        facts=fact_set([
            ("exit.status", 137, Source("job.log", 9), None),
            ("exit.killed", True, Source("job.log", 9), None),
            ("exit.kill_explained_by_memory", False, Source(derived_from=("exit.killed",)), None),
        ]),
        inputs=(InputRecord("job.log", "log", "read"), InputRecord("core.4711", "unknown", "refused", "not a kind known here")),
        made_seconds=MADE,
    )  # fmt: skip


def not_oom() -> Diagnosis:
    """A kernel's shared memory, worded like an out-of-memory error."""
    finding = Finding(
        rule="NOT002", cause="not-oom-kernel-resource", family="not-oom",
        title="A GPU kernel wants more shared memory than the chip has", confidence=Confidence.CONFIRMED, scope={},
        explain="The kernel wants 160.00 KiB of on-chip shared memory; the chip has 99.00 KiB. Device memory was not short.",
        evidence=(EvidenceItem("lookalike.kernel_resource_required_bytes", 163_840, "bytes", "run.log:55", "for",
                               "how much of it the kernel wanted",
                               "lookalike.kernel_resource_required_bytes > lookalike.kernel_resource_limit_bytes"),),
        remedies=(Remedy("smaller-tiles", "Use smaller tiles or fewer stages in the kernel's configuration",
                         Setting("triton.num_stages", "2", ("num_stages=2",)), None, None, "Some throughput", "triton-lang.org"),),
        not_remedies=(NotRemedy("A smaller batch", "shared memory is taken per thread block, whatever the batch"),),
    )  # fmt: skip
    return Diagnosis(
        verdict=Verdict.NOT_OUT_OF_MEMORY,
        summary=(
            "This is not an out-of-memory failure: a GPU kernel asked for 160.00 KiB of shared memory and the chip has "
            "99.00 KiB. Device memory was not short."
        ),
        fingerprint="1:31d9e6a0c4f8",
        findings=(finding,),
        budgets=(),
        incidents=(Incident(None, "cuda:0", "OutOfResources: shared memory", "run.log:55"),),
        missing=(Missing("budget of the device", "nothing in the input measures it", "`nvidia-smi -q -x > nvidia-smi.xml`"),),
        facts=fact_set([
            ("lookalike.kernel_resource", "shared memory", Source("run.log", 55), None),
            ("lookalike.kernel_resource_required_bytes", 163_840, Source("run.log", 55), None),
            ("lookalike.kernel_resource_limit_bytes", 101_376, Source("run.log", 55), None),
        ]),
        inputs=(InputRecord("run.log", "log", "read"),),
        made_seconds=MADE,
    )  # fmt: skip


ATTACK = (
    "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>\"'></style></title>"
    "\x1b[31mred\x1b]8;;http://evil.example\x07link\x9b2J\r\n| a | `b` **c** [d](http://evil.example) ![e](//evil.example)"
    "{{ 7 * 7 }} {% raw %} [bold]rich[/bold] ~~~ ``` # @everyone <!channel> &amp; \u202egnp.exe\u2066 \ud83d\x00 "
)
LONG = ATTACK + "A" * 10_000


def hostile() -> Diagnosis:
    """The diagnosis of `fragmentation` with an attack in every free string of it."""
    attacked = _attack(fragmentation(), "")
    facts = fact_set([
        ("torch.version", ATTACK, Source(ATTACK, 1, ATTACK), None),
        ("owner.top", LONG, Source(derived_from=(ATTACK,)), ATTACK),
    ])  # fmt: skip
    return replace(attacked, facts=facts, summary=ATTACK + ". " + LONG)


_KEPT = {"speaks", "status", "outcome"}
"""Strings of a closed set, which no input can reach."""


def _attack(value: Any, name: str) -> Any:
    if isinstance(value, (FactSet, Enum)) or name in _KEPT:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _attack(getattr(value, each.name), each.name) for each in fields(value)})
    if isinstance(value, str):
        return LONG if name in ("explain", "owner", "title") else ATTACK
    if isinstance(value, tuple):
        return tuple(_attack(each, name) for each in value)
    if isinstance(value, dict):
        # The keys of a scope are of a closed set; those of the environment are not.
        return {(key if name == "scope" else ATTACK): _attack(each, name) for key, each in value.items()}
    return value


ORDINARY = {
    "host-list": host_list,
    "fragmentation": fragmentation,
    "kv-too-small": kv_too_small,
    "undetermined": undetermined,
    "not-oom": not_oom,
}
ALL = {**ORDINARY, "hostile": hostile}
