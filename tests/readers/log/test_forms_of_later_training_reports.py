# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN forms of training jobs and hosts that no rule had met WHEN read THEN each is the statement that it makes."""

from __future__ import annotations

from io import BytesIO

import pytest

from oomdoctor.facts.frames import frames_of, operation_of, phase_of, restores_saved_device
from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log.engine import read_log


def events(text: str, *kinds: K) -> list[LogEvent]:
    return [event for event in read_log(BytesIO(text.encode()), "job.log").events if event.kind in kinds]


def only(text: str, kind: K) -> LogEvent:
    (found,) = events(text, kind)
    return found


@pytest.mark.parametrize(
    ("text", "used", "limit"),
    [
        ("=>> PBS: job killed: mem 2048kb exceeded limit 1024kb", 2048 << 10, 1024 << 10),
        ("w.o71:=>> PBS: job killed: mem job total 2048 kb exceeded limit 1024 kb", 2048 << 10, 1024 << 10),
        ("=>> PBS: job killed: pvmem 2048kb exceeded limit 1024kb", 2048 << 10, 1024 << 10),
        ("=>> PBS: job killed: vmem 3000000000 exceeded limit 2000000000", 3_000_000_000, 2_000_000_000),
        ("=>> PBS: job killed: vmem 3000000000b exceeded limit 2000000000b", 3_000_000_000, 2_000_000_000),
    ],
)
def test_pbs_counts_in_kib_or_in_bytes(text, used, limit):
    found = only(f"{text}\n", K.MEMORY_LIMIT_HIT)
    assert (found.fields["system"], found.size("used_bytes"), found.size("limit_bytes")) == ("pbs", used, limit)


def test_torques_letter_says_below_what_was_used():
    text = "Aborted by PBS Server\nJob exceeded a memory resource limit (vmem, pvmem, etc.). Job was aborted\nExit_status=-10\nresources_used.vmem=4000kb\nresources_used.mem=1000kb\nreq_information.memory.0=2000kb\n"
    found = only(text, K.MEMORY_LIMIT_HIT)
    assert (found.size("used_bytes"), found.size("limit_bytes")) == (4000 << 10, 2000 << 10)


@pytest.mark.parametrize("limit", ["h_vmem", "s_vmem", "h_rss"])
def test_grid_engines_letter(limit):
    text = f" Signal           = KILL\n Max vmem         = 12.500G\nfailed execd enforced {limit} limit because:\njob 7.1 died through signal KILL (9).\n"
    found = only(text, K.MEMORY_LIMIT_HIT)
    assert (found.fields["system"], found.size("used_bytes")) == ("grid-engine", 12.5 * (1 << 30))


@pytest.mark.parametrize("call", ["posix_fallocate", "shm_open", "ftruncate"])
def test_nccl_finds_no_room_in_shared_memory(call):
    text = f"n1:7:9 [1] include/shm.h:28 NCCL WARN Call to {call} failed : No space left on device\n"
    assert len(events(text, K.SHM_EXHAUSTED)) == 1


def test_nccl_that_may_not_open_shared_memory_is_no_want_of_it():
    text = "n1:7:9 [1] include/shm.h:28 NCCL WARN Call to shm_open failed : Permission denied\n"
    assert events(text, K.SHM_EXHAUSTED) == []


@pytest.mark.parametrize("status", ["9(SIGKILL)", "9 (SIGKILL)", "137"])
@pytest.mark.parametrize("replica", ["master 0", "workerpool0-0"])
def test_a_cloud_replica_without_memory(replica, status):
    text = f"The replica {replica} ran out-of-memory and exited with a non-zero status of {status}\n"
    assert only(text, K.PROCESS_KILLED).fields["oom_stated"] is True


@pytest.mark.parametrize(
    "text",
    [
        "12/80 [==>.....] - ETA: 36s - loss: 2.14Killed",
        "12/80 [==>.....] - ETA: 36sKilled",
        "epoch 3 loss: 0.5 acc: 0.91Killed",
    ],
)
def test_a_kill_behind_a_line_of_progress(text):
    assert only(f"{text}\n", K.PROCESS_KILLED).fields["reported_by"] == "shell"


@pytest.mark.parametrize("text", ["games: 12 wins: 3Killed", "loss: KilledByUser", "loss: 0.1 Killed by the user"])
def test_words_that_end_alike_are_no_kill(text):
    assert events(f"{text}\n", K.PROCESS_KILLED) == []


@pytest.mark.parametrize(
    ("text", "backend", "requested"),
    [
        ("  what():  Memory Object Allocation Failure", "opencl", None),
        ("RMM allocation of 32.00 GiB failed\n  File \"j.py\", line 3, in go\nMemoryError: std::bad_alloc", "rmm", 32 << 30),
        ("terminate called after throwing an instance of 'thrust::system::detail::bad_alloc'\n  what():  std::bad_alloc: out of memory", "thrust", None),
        ("terminate called after throwing an instance of 'rmm::bad_alloc'\n  what():  std::bad_alloc: out_of_memory", "thrust", None),
        ("GPUassert: out of memory solver.cu 88", "other", None),
        ("CUDA error at a/main.cu:71 code=2(cudaErrorMemoryAllocation) \"cudaMalloc(&d, n)\"", "other", None),
        ("Cuda error in file 'main.cu' in line 71 : out of memory.", "other", None),
        ("TotalUsedMemStatistics : 900 plus TotalUsedByEventMemStatistics : 0 and plus alloc size : 200 is more than total mem size : 1000.", "mindspore", 200),
        ("2026-04-09 Memory_Allocation_Failure(EL0004): Failed to allocate memory requested by GE module.\nCall rtMalloc fail, purpose: page caching, type = 2, size:4096, device_id:3[F]\nCall rtMalloc fail, purpose: page caching, type = 2, size:2048, device_id:3[F]", "npu", 4096),
    ],
)  # fmt: skip
def test_more_allocators_of_devices(text, backend, requested):
    found = only(f"{text}\n", K.DEVICE_OOM)
    assert (found.fields["backend"], found.size("requested_bytes")) == (backend, requested)
    assert events(f"{text}\n", K.HOST_ALLOCATION_FAILED) == []


def test_a_bad_alloc_of_nobody_is_the_hosts():
    assert len(events("MemoryError: std::bad_alloc\n", K.HOST_ALLOCATION_FAILED)) == 1


@pytest.mark.parametrize("word", ["with", "of"])
def test_tensorflow_names_the_shape_in_two_ways(word):
    found = only(
        f"ResourceExhaustedError: OOM when allocating tensor {word} shape [4,8] and type float\n", K.DEVICE_OOM
    )
    assert found.fields["shape"] == (4, 8)


def of_frames(text: str) -> tuple[str | None, str | None]:
    frames = frames_of(events(text, K.EXCEPTION)[0])
    return operation_of(frames), phase_of(frames)


def test_frames_of_a_notebook_without_links():
    text = "/opt/lib/python3.10/site-packages/accelerate/utils/operations.py in _convert_to_fp32(tensor)\n    779 \n    780     def _convert_to_fp32(tensor):\n--> 781         return tensor.float()\n\nOutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB.\n"
    assert of_frames(text)[0] == "logits"


@pytest.mark.parametrize(
    ("frame", "code", "expected"),
    [
        ("transformers/modeling_utils.py\", line 9, in _load_pretrained_model", "errors, state_dict_index = _load_state_dict_into_meta_model(", ("weights", "load")),
        ("accelerate/utils/modeling.py\", line 9, in set_module_tensor_to_device", "new_value = value.to(device)", ("copy-to-device", "load")),
        ("transformers/trainer.py\", line 9, in __init__", "self._move_model_to_device(model, args.device)", ("weights", "load")),
        ("unsloth/save.py\", line 9, in _merge_lora", "largest = torch.max(W.min().abs(), W.max())", ("checkpoint", "checkpoint")),
        ("nnunetv2/infer.py\", line 9, in run", "made = predict_and_return_logits(data)", (None, None)),
        ("flash_attn/bert_padding.py\", line 9, in forward", "return torch.gather(", ("activation", "forward")),
        ("flash_attn/flash_attn_interface.py\", line 9, in forward", "out = _flash_attn_forward(", ("attention", "forward")),
    ],
)  # fmt: skip
def test_what_a_frame_stands_for(frame, code, expected):
    text = f'  File "/v/site-packages/{frame}\n    {code}\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n'
    operation, phase = of_frames(text)
    assert (operation, phase) == expected


@pytest.mark.parametrize(
    ("call", "expected"), [("torch.load(path)", True), ("torch.load(path, map_location='cpu')", False)]
)
def test_torch_load_of_old_puts_tensors_back(call, expected):
    text = f'  File "run.py", line 4, in go\n    net.load_state_dict({call})\n  File "/v/site-packages/torch/serialization.py", line 156, in default_restore_location\n    result = fn(storage, location)\nRuntimeError: CUDA error: out of memory\n'
    assert restores_saved_device(frames_of(events(text, K.EXCEPTION)[0])) is expected
