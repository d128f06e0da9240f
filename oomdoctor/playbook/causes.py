"""The causes a finding may name, the family each stands in, and one line on each for people."""

from __future__ import annotations

from types import MappingProxyType

FAMILIES: dict[str, str] = {
    "capacity": "What must stay resident is larger than the place for it",
    "kv-cache": "Keys and values of the context",
    "activation": "What one step needs for a moment",
    "retention": "Memory that is kept though its work is done",
    "fragmentation": "There are enough bytes, but not side by side",
    "neighbour": "Somebody else holds the memory",
    "multi-gpu": "Work is spread badly over the devices",
    "overhead": "Fixed costs around the model",
    "limits": "The device offers less than it seems to",
    "host": "The machine's own memory, not the device's",
    "not-oom": "It reads like a lack of memory and is something else",
}

_CAUSES: dict[str, dict[str, str]] = {
    "capacity": {
        "weights-exceed-device": "The weights with their fixed overhead do not fit the device or its share",
        "load-spike": "The loaded model fits, but loading it needs more for a moment",
        "optimizer-state": "The optimizer's state is made at its first step and does not fit",
        "offload-granularity": "One component alone is larger than the device; offloading whole ones is no help",
        "build-limits": "Maxima fixed when the engine was built size its buffers",
        "preallocated-workspace": "A workspace that the engine takes at start does not fit",
        "estimator-error": "A front end misjudged what would fit",
        "live-exceeds-device": "What is live and the request are together more than the process could have",
        "fit-blocked-by-flags": "Options fixed by the user kept the program from fitting itself to the device",
    },
    "kv-cache": {
        "kv-pool-zero": "Weights and the measured peak leave no room for keys and values",
        "kv-below-max-length": "The pool is smaller than one request of the maximum length",
        "kv-pool-oversized": "The pool asked for is larger than the memory that is free",
        "default-context": "Nobody chose a context length, so the model's full length was reserved",
        "kv-growth": "A cache grows with every turn and nothing bounds it",
        "kv-pressure": "The pool is full and requests wait or are recomputed: slower, not a failure",
        "hybrid-state-pool": "The pools of a hybrid model (state or window layers) have the wrong sizes",
        "page-rounding": "Pages ran out before tokens did",
    },
    "activation": {
        "activation-peak": "One step's batch and length need too much at once",
        "prefill-activation": "A long prompt, or the prefill budget, makes the peak",
        "attention-quadratic": "Attention scores are written out for every pair of positions",
        "logits": "Buffers of tokens times vocabulary make the peak",
        "sampler-warmup": "The engine's warm-up samples for the most sequences at once",
        "encoder-peak": "An encoder of images or sound makes the peak",
        "decoder-peak": "The decoder that produces the picture or film makes the peak",
        "compute-buffer": "The scratch buffer of the compute graph does not fit",
        "input-outlier": "One input far larger than the others",
    },
    "retention": {
        "retained-tensors": "Something keeps tensors from step to step, and live memory climbs",
        "eval-grad": "Evaluation records gradients that nobody will use",
        "eval-accumulation": "Predictions pile up on the device during evaluation",
        "leak-outside-torch": "Device memory grows outside PyTorch's allocator",
        "sleep-residual": "An engine that was put to sleep or reloaded keeps a part",
        "runtime-unprofiled": "An engine grows beyond what it measured at start",
    },
    "fragmentation": {
        "fragmentation": "Idle reserved memory would cover the request, but no single block does",
        "stream-deferred-free": "Freed blocks wait for another stream before they can be used again",
    },
    "neighbour": {
        "other-process": "Another process holds memory on the device",
        "neighbour-miscounted": "An engine counted a neighbour's memory as its own while it measured",
    },
    "multi-gpu": {
        "ranks-on-one-gpu": "Several ranks put contexts or tensors on one device",
        "gpu-imbalance": "One device is full while others have room",
        "unintended-device": "Tensors land on a device nobody chose",
        "comm-buffers": "Communication buffers need the missing memory",
    },
    "overhead": {
        "graph-capture": "Capturing CUDA graphs, or their private pools, takes the memory",
        "non-torch-device": "A library asked the driver directly and found nothing left",
        "library-workspace": "The large block is a library's workspace",
        "speculative-decoding": "The draft model and its verification were not planned for",
        "lora-adapters": "The adapters were not planned for",
        "greedy-reservation": "A reservation made on purpose, taken for a leak",
    },
    "limits": {
        "memory-cap": "A fraction, watermark or size limit was set below the capacity",
        "device-smaller": "The device is a slice, or another one than expected",
        "platform-limit": "The driver refuses, or spills, although there is memory",
    },
    "host": {
        "host-ram": "Host memory ran out",
        "host-ram-per-rank": "Each rank or worker holds a full copy in host memory",
        "host-workers": "Worker processes together use up host memory",
        "host-leak": "Host memory climbs as time passes",
        "pinned-host": "Page-locked host memory was refused",
        "cgroup-limit": "The limit of a container, job or process was reached, not the machine's",
        "shm-limit": "Shared memory (/dev/shm) is full",
        "checkpoint-io": "Saving or loading a checkpoint needs a second copy",
    },
    "not-oom": {
        "impossible-size": "The size asked for makes no sense: a broken shape or an overflow",
        "not-oom-kernel-resource": "A kernel wants more on-chip memory than there is",
        "not-oom-device-assert": "An index error or assertion on the device",
        "not-oom-slot-table": "A table of request slots is full, not memory",
        "not-oom-workspace": "A library's fixed workspace is too small for the shape",
        "not-oom-recovered": "Allocations failed, but the program recovered and went on",
        "not-oom-masked": "Another error inside words about memory",
        "not-oom-ended-from-outside": "A signal or a timeout ended it",
    },
}  # fmt: skip

FAMILY_OF = MappingProxyType({cause: family for family, causes in _CAUSES.items() for cause in causes})
"""The family of each cause."""

MEANING_OF = MappingProxyType({cause: line for causes in _CAUSES.values() for cause, line in causes.items()})
"""One line on each cause."""
