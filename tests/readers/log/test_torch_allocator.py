# ruff: noqa: E501  (log lines are as long as they are)
from __future__ import annotations

import io
from typing import Any

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log.engine import read_log
from oomdoctor.readers.log.torch_allocator import FAMILY

MIB, GIB = 1 << 20, 1 << 30


def said(text: str) -> tuple[LogEvent, ...]:
    return read_log(io.BytesIO(text.encode()), "train.log", (FAMILY,)).events


def gib(size: float) -> int:
    return round(size * GIB)


def mib(size: float) -> int:
    return round(size * MIB)


SENTENCES = (
    "{backend} out of memory. Tried to allocate 3.00 GiB. GPU 2 has a total {word} of 39.50 GiB of which 1.50 GiB is free."
    "{others} Of the allocated memory 30.00 GiB is allocated by PyTorch, and 2.00 GiB is reserved by PyTorch but unallocated.{hint}"
)
SENTENCE_FIELDS: dict[str, Any] = {
    "backend": "cuda",
    "requested_bytes": 3 * GIB,
    "total_bytes": gib(39.5),
    "free_bytes": gib(1.5),
    "allocated_bytes": 30 * GIB,
    "reserved_bytes": 32 * GIB,
    "reserved_unallocated_bytes": 2 * GIB,
    "generation": "sentences",
}


def sentence(backend: str = "CUDA", word: str = "capacity", others: str = "", hint: str = "") -> str:
    return SENTENCES.format(backend=backend, word=word, others=others, hint=hint)


EACH: list[tuple[str, int | None, dict[str, Any]]] = [
    (
        "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/THCStorage.cu:58",
        None,
        {"backend": "cuda", "exception_type": "RuntimeError", "generation": "bare"},
    ),
    (
        "THCudaCheck FAIL file=/pytorch/aten/src/THC/generic/THCStorage.cu line=58 error=2 : out of memory",
        None,
        {"backend": "cuda", "generation": "bare"},
    ),
    (
        "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 31.00 GiB total capacity; 24.00 GiB already allocated; 1.25 GiB free; 5.00 GiB cached)",
        0,
        {
            "backend": "cuda",
            "exception_type": "RuntimeError",
            "requested_bytes": gib(1.5),
            "total_bytes": 31 * GIB,
            "allocated_bytes": 24 * GIB,
            "free_bytes": gib(1.25),
            "reserved_bytes": 29 * GIB,
            "reserved_unallocated_bytes": 5 * GIB,
            "generation": "cached",
        },
    ),
    (
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 3; 10.75 GiB total capacity; 2.50 GiB already allocated; 26.00 MiB free; 4.00 GiB allowed; 2.75 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
        3,
        {
            "backend": "cuda",
            "exception_type": "RuntimeError",
            "requested_bytes": 20 * MIB,
            "total_bytes": gib(10.75),
            "allocated_bytes": gib(2.5),
            "free_bytes": 26 * MIB,
            "allowed_bytes": 4 * GIB,
            "reserved_bytes": gib(2.75),
            "reserved_unallocated_bytes": gib(0.25),
            "generation": "reserved",
            "advice": "max_split_size_mb",
        },
    ),
    (
        "torch.cuda.OutOfMemoryError: " + sentence(word="capacty"),
        2,
        {**SENTENCE_FIELDS, "exception_type": "torch.cuda.OutOfMemoryError"},
    ),
    (
        sentence(
            others=" Process 77 has 256.00 MiB memory in use. Including non-PyTorch memory, this process has 37.00 GiB memory in use. Process 78 has 1.00 GiB memory in use.",
            hint=" If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
        ),
        2,
        {
            **SENTENCE_FIELDS,
            "process_used_bytes": 37 * GIB,
            "other_processes": ((77, 256 * MIB), (78, GIB)),
            "advice": "expandable_segments",
        },
    ),
    (sentence(others=" Including non-PyTorch memory, this process has 0 bytes memory in use."), 2, SENTENCE_FIELDS),
    (
        sentence(others=" Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use."),
        2,
        {**SENTENCE_FIELDS, "capacity_unknown": True},
    ),
    (
        sentence(others=" Process N has 1.00 GiB memory in use."),
        2,
        {**SENTENCE_FIELDS, "other_processes": ((None, GIB),)},
    ),
    (
        sentence(others=" 33.00 GiB allowed;", backend="HIP"),
        2,
        {**SENTENCE_FIELDS, "backend": "hip", "allowed_bytes": 33 * GIB},
    ),
    (sentence(backend="XPU"), 2, {**SENTENCE_FIELDS, "backend": "xpu"}),
    (
        sentence().replace(
            "PyTorch, and", "PyTorch, with 512.00 MiB allocated in private pools (e.g., CUDA Graphs), and"
        ),
        2,
        # what is printed as allocated includes the free blocks of the pools
        {**SENTENCE_FIELDS, "private_pool_bytes": 512 * MIB},
    ),
    (
        "XPU out of memory. Tried to allocate 1.50 GiB (GPU 0; 15.50 GiB total capacity; 0 bytes already allocated; 0 bytes reserved in total by PyTorch)",
        0,
        {
            "backend": "xpu",
            "requested_bytes": gib(1.5),
            "total_bytes": gib(15.5),
            "allocated_bytes": 0,
            "reserved_bytes": 0,
            "reserved_unallocated_bytes": 0,
            "generation": "reserved",
        },
    ),
    (
        "RuntimeError: NPU out of memory. Tried to allocate 386.00 MiB (NPU 2; 60.00 GiB total capacity; 59.00 GiB already allocated; 59.25 GiB current active; 16.50 MiB free; 59.50 GiB reserved in total by PyTorch)",
        2,
        {
            "backend": "npu",
            "exception_type": "RuntimeError",
            "requested_bytes": 386 * MIB,
            "total_bytes": 60 * GIB,
            "allocated_bytes": 59 * GIB,
            "active_bytes": gib(59.25),
            "free_bytes": mib(16.5),
            "reserved_bytes": gib(59.5),
            "reserved_unallocated_bytes": gib(0.5),
            "generation": "reserved",
        },
    ),
    (
        "CNRT out of memory. Tried to allocate 2.00 GiB (MLU 0; 16.00 GiB total capacity; 15.00 GiB already allocated; 0.50 GiB free; 512.00 KiB cached)",
        0,
        {
            "backend": "mlu",
            "requested_bytes": 2 * GIB,
            "total_bytes": 16 * GIB,
            "allocated_bytes": 15 * GIB,
            "free_bytes": gib(0.5),
            "reserved_bytes": 15 * GIB + 512 * 1024,
            "reserved_unallocated_bytes": 512 * 1024,
            "generation": "cached",
        },
    ),
    (
        "RuntimeError: MPS backend out of memory (MPS allocated: 1.50 GB, other allocations: 7.25 GB, max allowed: 9.00 GB). Tried to allocate 512.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable",
        None,
        {
            "backend": "mps",
            "exception_type": "RuntimeError",
            "allocated_bytes": gib(1.5),
            "other_bytes": gib(7.25),
            "allowed_bytes": 9 * GIB,
            "requested_bytes": 512 * MIB,
            "pool": "private",
            "generation": "sentences",
        },
    ),
    (
        "[title] x.clone() torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 58.00 GiB.",
        None,
        {
            "backend": "cuda",
            "exception_type": "torch.OutOfMemoryError",
            "requested_bytes": 58 * GIB,
            "generation": "bare",
        },
    ),
    ("Tried to allocate 2.00 MiB", None, {"requested_bytes": 2 * MIB, "generation": "bare"}),
    (
        "RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.",
        None,
        {"backend": "cuda", "exception_type": "RuntimeError", "generation": "bare"},
    ),
    (
        "torch.OutOfMemoryError: HIP out of memory.",
        None,
        {"backend": "hip", "exception_type": "torch.OutOfMemoryError", "generation": "bare"},
    ),
    (
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 7 has a total capacity of 95.00 GiB ...",
        7,
        {
            "backend": "cuda",
            "exception_type": "Exception",
            "wrapped_by": "Capture cuda graph failed",
            "requested_bytes": 448 * MIB,
            "total_bytes": 95 * GIB,
            "generation": "sentences",
        },
    ),
    (
        "/a/b.py:10: UserWarning: Failed to clone() tensor with name w. Error: CUDA out of memory. Tried to allocate 2.00 MiB",
        None,
        {
            "backend": "cuda",
            "requested_bytes": 2 * MIB,
            "generation": "bare",
            "wrapped_by": "Failed to clone() tensor with name w. Error",
        },
    ),
    ("torch.OutOfMemoryError", None, {"exception_type": "torch.OutOfMemoryError", "generation": "bare"}),
    (
        "- **Exception Type:** torch.OutOfMemoryError",
        None,
        {"exception_type": "torch.OutOfMemoryError", "generation": "bare"},
    ),
    (
        "RuntimeError: Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.50 GiB (GPU  0; 15.50 GiB total capacity; 1.00 GiB already allocated; 2.00 GiB reserved in total by PyTorch)",
        0,
        {
            "requested_bytes": gib(6.5),
            "total_bytes": gib(15.5),
            "allocated_bytes": GIB,
            "reserved_bytes": 2 * GIB,
            "reserved_unallocated_bytes": GIB,
            "generation": "reserved",
            "backend": "xpu",
            "buffer_limit_bytes": 4 * GIB,
            "wrapped_by": None,
        },
    ),
]


@pytest.mark.parametrize(("text", "device", "fields"), EACH)
def test_each_generation(text: str, device: int | None, fields: dict[str, Any]) -> None:
    (event,) = said(text)
    assert event.kind is K.DEVICE_OOM
    assert event.device == device
    assert dict(event.fields) == {name: value for name, value in fields.items() if value is not None}


def test_a_message_that_a_terminal_wrapped() -> None:
    words = sentence(others=" Process 77 has 256.00 MiB memory in use.").split(" ")
    text = "\n".join(" ".join(words[start : start + 12]) for start in range(0, len(words), 12))
    (event,) = said(text)
    assert dict(event.fields) == {**SENTENCE_FIELDS, "other_processes": ((77, 256 * MIB),)}


def test_a_message_that_was_cut_does_not_eat_what_follows() -> None:
    cut = sentence().partition(" Of the allocated")[0]
    (event,) = said(cut + "\nsomething else\n4.00 GiB already allocated; no\n")
    assert "allocated_bytes" not in event.fields
    assert event.fields["free_bytes"] == gib(1.5)


def test_cuda_malloc_async() -> None:
    (event,) = said(
        "torch.cuda.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of memory)\n"
        "Currently allocated     : 16.00 GiB\nRequested               : 4.50 GiB\nDevice limit            : 22.00 GiB\n"
        "Free (according to CUDA): 11.00 MiB\nPyTorch limit (set by user-supplied memory fraction)\n                        : 20.00 GiB\n"
    )
    assert event.device == 1
    assert dict(event.fields) == {
        "backend": "cudaMallocAsync",
        "exception_type": "torch.cuda.OutOfMemoryError",
        "allocated_bytes": 16 * GIB,
        "requested_bytes": gib(4.5),
        "total_bytes": 22 * GIB,
        "free_bytes": 11 * MIB,
        "allowed_bytes": 20 * GIB,
        "generation": "sentences",
    }


def test_the_largest_number_there_is_is_no_limit() -> None:
    (event,) = said(
        "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\n"
        "Currently allocated     : 21.26 GiB\nRequested               : 4.00 GiB\nDevice limit            : 24.00 GiB\n"
        "Free (according to CUDA): 2.28 GiB\nPyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB\n"
    )
    assert event.size("requested_bytes") == 4 * GIB
    assert "allowed_bytes" not in event.fields


def test_a_failed_mapping_is_a_try_as_well() -> None:
    (event,) = said(
        "[W1129 15:39:56.7 CUDACachingAllocator.cpp:528] expandable_segments: memory mapping failed with OOM on device 1 while trying to map 20971520 bytes (free: 10485760, total: 4096)."
    )
    assert (event.kind, event.device, event.fields["requested_bytes"]) == (K.DEVICE_OOM_TRY, 1, 20971520)


def test_a_failed_try_is_not_a_failure() -> None:
    (event,) = said(
        "[W1129 15:39:39.565841999 CUDACachingAllocator.cpp:3934] memory allocation failed with OOM on device 0 while trying to allocate 1048576 bytes (free: 2048, total: 4096)."
    )
    assert (event.kind, event.device) == (K.DEVICE_OOM_TRY, 0)
    assert dict(event.fields) == {"requested_bytes": 1048576, "free_bytes": 2048, "total_bytes": 4096}


@pytest.mark.parametrize(
    "end",
    [
        "\n  while trying to allocate 671088640 bytes (free: 513736704, total: 85095874560).\n",
        " while trying to\nallocate 671088640 bytes (free: 513736704, total: 85095874560).\n",
        " while trying to allocate 671088640 bytes\n(free: 513736704, total: 85095874560).\n",
    ],
)
def test_a_try_over_two_lines(end: str) -> None:
    (event,) = said(
        f"[W1129 15:39:39.5 CUDACachingAllocator.cpp:3933] memory allocation failed with OOM on device 5{end}"
    )
    assert (event.kind, event.device) == (K.DEVICE_OOM_TRY, 5)
    assert dict(event.fields) == {
        "requested_bytes": 671088640,
        "free_bytes": 513736704,
        "total_bytes": 85095874560,
    }


def test_figures_of_the_next_try_are_not_those_of_one_that_was_cut() -> None:
    first, second = said(
        "[W1129 CUDACachingAllocator.cpp:3933] memory allocation failed with OOM on device 5\n"
        "[W1129 CUDACachingAllocator.cpp:3933] memory allocation failed with OOM on device 6 while trying to allocate 1048576 bytes (free: 1, total: 4096).\n"
    )
    assert (first.device, dict(first.fields)) == (5, {})
    assert (second.device, second.fields["requested_bytes"]) == (6, 1048576)


@pytest.mark.parametrize(
    "text",
    [
        "    except torch.cuda.OutOfMemoryError:",
        "catch OOM: out of memory is possible",
        "from torch import OutOfMemoryError",
    ],
)
def test_code_and_prose_are_not_messages(text: str) -> None:
    assert said(text) == ()


NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 23.69 GiB of"
    " which {free} is free. Of the allocated memory {allocated} is allocated by PyTorch, and 1.00 GiB is reserved by"
    " PyTorch but unallocated."
)
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 23.69 GiB total capacity; {allocated} already"
    " allocated; 1.00 GiB free; {reserved} reserved in total by PyTorch)"
)


@pytest.mark.parametrize(
    ("text", "aside", "kept"),
    [
        (NEW.format(free="90.00 GiB", allocated="3.00 GiB"), ("free_bytes", "total_bytes"), ("allocated_bytes",)),
        (
            OLD.format(allocated="7.45 PiB", reserved="20.00 GiB"),
            ("allocated_bytes", "reserved_bytes"),
            ("free_bytes",),
        ),
        (
            OLD.format(allocated="9.00 GiB", reserved="2.00 GiB"),
            ("allocated_bytes", "reserved_bytes"),
            ("total_bytes",),
        ),
        (NEW.format(free="1.00 GiB", allocated="30.00 GiB"), (), ("allocated_bytes", "total_bytes", "free_bytes")),
        (
            NEW.format(free="20.00 GiB", allocated="9.00 GiB"),
            ("free_bytes", "total_bytes", "allocated_bytes", "reserved_bytes"),
            ("requested_bytes",),
        ),
        (
            NEW.format(free="20.00 GiB", allocated="9.00 GiB").replace("CUDA", "XPU"),
            (),
            ("free_bytes", "allocated_bytes"),
        ),
        (NEW.format(free="14.00 GiB", allocated="8.75 GiB"), (), ("free_bytes", "allocated_bytes", "total_bytes")),
        (OLD.format(allocated="22.90 GiB", reserved="22.95 GiB"), (), ("free_bytes", "total_bytes")),
    ],
)
def test_figures_that_cannot_all_be_true_are_set_aside(text, aside, kept):
    (found,) = [one for one in said(text) if one.kind is K.DEVICE_OOM]
    assert bool(found.fields.get("contradictory")) is bool(aside)
    assert not any(name in found.fields for name in aside)
    assert all(name in found.fields for name in kept)


ONCE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 31.00 GiB of"
    " which 2.00 GiB is free. Process {pid} has 29.00 GiB memory in use. Of the allocated memory 26.00 GiB is allocated"
    " by PyTorch, and 2.00 GiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(
    ("text", "pid"),
    [
        (f"{ONCE.format(pid=310)} {ONCE.format(pid=310)}", 310),
        (f"{ONCE.format(pid=310)} | caused by: {ONCE.format(pid=310)}", 310),
        (f"{ONCE.format(pid=310)} {ONCE.format(pid=99)}", 310),
        (f"step failed: CUDA out of memory. Tried to allocate 3.00 GiB. / {ONCE.format(pid=310)}", 310),
        (f"{ONCE.format(pid=310)} {ONCE.format(pid=99).replace('3.00 GiB', '5.00 GiB')}", 310),
    ],
    ids=["twice", "as the cause", "with another number", "cut first", "another request"],
)
def test_a_statement_ends_where_it_begins_again_on_its_line(text, pid):
    (found,) = [one for one in said(text) if one.kind is K.DEVICE_OOM]
    assert found.fields["requested_bytes"] == 3 * GIB
    assert found.fields["total_bytes"] == 31 * GIB
    assert found.fields["other_processes"] == ((pid, 29 * GIB),)


def test_a_process_listed_twice_is_counted_once():
    text = ONCE.format(pid=310).replace("Of the", "Process 310 has 29.00 GiB memory in use. Of the")
    (found,) = [one for one in said(text) if one.kind is K.DEVICE_OOM]
    assert found.fields["other_processes"] == ((310, 29 * GIB),)
