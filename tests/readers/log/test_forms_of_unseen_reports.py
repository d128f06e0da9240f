# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN forms that public reports had and no rule had met WHEN read THEN each is the statement that it makes."""

from __future__ import annotations

from io import BytesIO

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log.engine import read_log

GIB = 1 << 30


def events(text: str, *kinds: K) -> list[LogEvent]:
    return [event for event in read_log(BytesIO(text.encode()), "job.log").events if event.kind in kinds]


def only(text: str, kind: K) -> LogEvent:
    (found,) = events(text, kind)
    return found


@pytest.mark.parametrize("path", ["/data/hub/weights/model-00001.safetensors", "weights.bin", "C:\\models\\w.gguf"])
def test_a_file_that_could_not_be_mapped_is_host_memory_not_shared_memory(path):
    text = f"RuntimeError: unable to mmap 12000000000 bytes from file <{path}>: Cannot allocate memory (12)"
    assert only(text, K.HOST_ALLOCATION_FAILED).fields["requested_bytes"] == 12_000_000_000
    assert events(text, K.SHM_EXHAUSTED) == []


@pytest.mark.parametrize("path", ["/torch_7_8_9", "/dev/shm/torch_7_8", "filename not specified"])
def test_torchs_own_files_are_shared_memory(path):
    text = f"RuntimeError: unable to mmap 64 bytes from file <{path}>: Cannot allocate memory (12)"
    assert only(text, K.SHM_EXHAUSTED).fields["requested_bytes"] == 64


@pytest.mark.parametrize(
    "text",
    [
        "AssertionError: No space left for only one request",
        "AssertionError: No space left for only one request, self.token_to_kv_pool_allocator.available_size()=0",
    ],
)
def test_the_last_request_of_sglang_finds_no_room(text):
    found = only(text, K.ENGINE_TOKEN_POOL_EXHAUSTED)
    assert found.fields["engine"] == "sglang"
    assert found.fields["available_tokens"] < found.fields["needed_tokens"]


@pytest.mark.parametrize(
    "text",
    [
        "srv update_slots: failed to find free space in the KV cache, retrying with smaller batch size, i = 0, n_batch = 256, ret = 1",
        "decode: failed to find a memory slot for batch of size 96",
    ],
)
def test_a_batch_that_finds_no_cells_waits(text):
    found = only(text, K.ENGINE_LOAD)
    assert (found.fields["engine"], found.fields["kv_usage"], found.fields["waiting"]) == ("llama.cpp", 1.0, 1)


@pytest.mark.parametrize(
    "text",
    [
        "update_slots : failed to decode the batch, n_batch = 1, ret = 1",
        "srv send_error: task id = 4, error: Context size has been exceeded.",
    ],
)
def test_a_batch_that_is_given_up(text):
    assert only(text, K.ENGINE_TOKEN_POOL_EXHAUSTED).fields["engine"] == "llama.cpp"


def test_another_failure_of_a_batch_is_not_the_cache():
    assert events("failed to decode the batch, n_batch = 1, ret = -3", K.ENGINE_TOKEN_POOL_EXHAUSTED) == []


def test_a_client_is_told_what_the_engine_died_of():
    text = "ERROR 01-02 03:04:05 [serving_completion.py:99] vllm.engine.multiprocessing.MQEngineDeadError: Engine loop is not running."
    found = only(text, K.ENGINE_PHASE)
    assert (found.fields["phase"], found.fields["edge"]) == ("serving", "told")


def test_the_kernels_choice_alone():
    text = (
        "kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c1,mems_allowed=0,"
        "oom_memcg=/kubepods/pod7,task_memcg=/kubepods/pod7/c1,task=python3,pid=4711,uid=0"
    )
    found = only(text, K.KERNEL_OOM)
    assert found.fields["constraint"] == "memcg"
    assert (found.fields["cgroup"], found.fields["program"], found.pid) == ("/kubepods/pod7", "python3", 4711)
    whole = (
        text + "\nkernel: Memory cgroup out of memory: Killed process 4711 (python3) total-vm:9000kB, anon-rss:8000kB"
    )
    assert len(events(whole, K.KERNEL_OOM)) == 1
    assert only(text.replace("MEMCG", "NONE"), K.KERNEL_OOM).fields["constraint"] == "global"


def test_a_buffer_spread_over_banks():
    text = (
        "TT_FATAL: Out of Memory: Not enough space to allocate 2147483648 B DRAM buffer across 4 banks, where each bank needs to"
        " store 536870912 B, but bank size is 2147483648 B (allocated: 1073741824 B, free: 1073741824 B, largest free block: 402653184 B)"
    )
    found = only(text, K.DEVICE_OOM)
    assert found.fields["requested_bytes"] == 2 * GIB
    assert found.fields["total_bytes"] == 8 * GIB
    assert found.fields["allocated_bytes"] == found.fields["reserved_unallocated_bytes"] == 4 * GIB
    old = text.split(", but")[0]
    assert only(old, K.DEVICE_OOM).fields["requested_bytes"] == 2 * GIB
    inside = old.replace("DRAM", "L1")
    assert events(inside, K.DEVICE_OOM) == []
    assert only(inside, K.KERNEL_RESOURCE).fields["required_bytes"] == 536870912


def test_the_thread_that_pins_fails_without_a_reason():
    text = "RuntimeError: Caught RuntimeError in pin memory thread for device 1."
    assert only(text, K.PINNED_ALLOCATION_FAILED).fields["reason_unstated"] is True
    reason = text + "\nOriginal Traceback (most recent call last):\nRuntimeError: shapes differ"
    assert events(reason, K.PINNED_ALLOCATION_FAILED) == []


def test_the_rank_that_a_logger_names_after_other_things():
    text = "[01/02/2026-03:04:05] [TRT-LLM] [RANK 5] [E] Error executing load with args (1): CUDA out of memory. Tried to allocate 90.00 MiB."
    assert only(text, K.DEVICE_OOM).rank == 5


ENDED = "[2026-01-02 03:04:05,678] [INFO] [launch.py:318:sigkill_handler] Killing subprocess 81"


def test_a_launcher_that_ends_the_rest_without_an_error_of_any_child():
    killed = only(f"loading\n{ENDED}\n{ENDED[:-1]}2\n", K.PROCESS_KILLED)
    assert killed.fields["guess_only"] is True
    assert events(f"Traceback (most recent call last):\nValueError: no\n{ENDED}\n", K.PROCESS_KILLED) == []
    stated = only(f"{ENDED}\n[launch.py:324] ['python'] exits with return code = -9\n", K.PROCESS_KILLED)
    assert stated.fields["signal"] == 9
    assert events(f"{ENDED}\n[launch.py:324] ['python'] exits with return code = 1\n", K.PROCESS_KILLED) == []


def test_a_binding_names_the_code_for_a_batch_without_a_slot():
    found = only(
        "Unhandled exception. LLamaDecodeError: llama_decode failed: 'NoKvSlot'", K.ENGINE_TOKEN_POOL_EXHAUSTED
    )
    assert found.fields["engine"] == "llama.cpp"


def test_a_tensor_that_directml_could_not_place():
    text = (
        "RuntimeError: Could not allocate tensor with 50331648 bytes. There is not enough GPU video memory available!"
    )
    assert only(text, K.DEVICE_OOM).fields["requested_bytes"] == 50331648


def test_vulkans_code_behind_a_status():
    assert only("vma_allocator.cc:7: RESOURCE_EXHAUSTED; VK_ERROR_OUT_OF_DEVICE_MEMORY; vmaCreateBuffer;", K.DEVICE_OOM)


OPENED = "name: GeForce\nTotal memory: 8.00GiB\nFree memory: {free}\n"
RESERVED = "E cuda_driver.cc:9] failed to allocate 300.00M (314572800 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY"


def test_a_reservation_on_a_device_that_was_mostly_taken_when_it_was_opened():
    found = only(OPENED.format(free="300.00MiB") + RESERVED, K.DEVICE_OOM)
    assert (found.fields["total_bytes"], found.fields["free_bytes"]) == (8 * GIB, 300 << 20)
    assert events(OPENED.format(free="7.70GiB") + RESERVED, K.DEVICE_OOM) == []
    assert events(RESERVED, K.DEVICE_OOM) == []


def test_what_the_runtime_of_a_chip_found_free():
    text = "(1) Resource exhausted: Attempting to allocate 96.00M. That was not possible. There are 64.00M free.; (0x1x0_HBM0)"
    found = only(text, K.DEVICE_OOM)
    assert (found.fields["requested_bytes"], found.fields["free_bytes"]) == (96 << 20, 64 << 20)


INVOKED = "kernel: job invoked oom-killer: gfp_mask={mask}, order=0, oom_score_adj=0"


@pytest.mark.parametrize(
    ("mask", "constraint"),
    [("0x100cca(GFP_HIGHUSER_MOVABLE)", "global"), ("0xcc0(GFP_KERNEL)", None), ("0xd0", None)],
)
def test_a_page_for_a_users_memory_is_asked_of_the_machine(mask, constraint):
    assert only(INVOKED.format(mask=mask), K.KERNEL_OOM).fields.get("constraint") == constraint


def test_a_signal_whose_name_is_wrapped():
    text = "RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus\nerror. It is possible that"
    assert only(text, K.SHM_EXHAUSTED).pid == 12
    assert events("DataLoader worker (pid 12) is killed by signal: Bus\nTraceback", K.SHM_EXHAUSTED) == []


def test_torchs_sentences_on_a_line_each_and_cut():
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 MiB.\n"
        "GPU 1 has a total capacity of 31.00 GiB of which 20.00 MiB is free.\n"
        "Including non-PyTorch memory, this process has 30.00 GiB memory in use.\n"
    )
    found = only(text, K.DEVICE_OOM)
    assert found.device == 1
    assert found.fields["total_bytes"] == 31 * GIB
    assert found.fields["process_used_bytes"] == 30 * GIB


def test_tokens_available_without_a_blank():
    text = "RuntimeError: Prefill out of memory. Try to lower your batch size.Try to allocate 900 tokens.Avaliable tokens:4096self.x"
    found = only(text, K.ENGINE_TOKEN_POOL_EXHAUSTED)
    assert (found.fields["needed_tokens"], found.fields["available_tokens"]) == (900, 4096)


def test_pools_of_a_hybrid_model_that_all_hold_enough():
    text = "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 800 tokens.\nAvailable full tokens: 9000 (x)"
    assert only(text, K.ENGINE_TOKEN_POOL_EXHAUSTED).fields["available_tokens"] == 9000


REFUSED = "RuntimeError: CUDA Error: out of memory at /build/csrc/cumem_allocator.cpp:62"


@pytest.mark.parametrize("before", ['  File "cumem.py", line 9, in wake_up', "It took 0.5 seconds to fall asleep."])
def test_a_sleeping_engine_that_cannot_wake_up(before):
    assert only(f"{before}\n{REFUSED}", K.ENGINE_BUFFER_FAILED).fields["wakes"] is True
    assert "wakes" not in only(REFUSED, K.ENGINE_BUFFER_FAILED).fields


def test_a_word_alone_as_a_reporter_types_it():
    assert only("epoch 1\nkilled\n", K.PROCESS_KILLED)
    assert events("epoch 1\nkilled the old run\n", K.PROCESS_KILLED) == []


def test_a_server_that_tells_a_client_was_serving():
    text = "GenerationError: Request failed during generation: Server error: CUDA out of memory. Tried to allocate 50.00 MiB."
    assert only(text, K.ENGINE_PHASE).fields["phase"] == "serving"


def test_the_pool_of_one_process_in_blocks():
    assert only("INFO uniproc_executor.py:64] # GPU blocks: 3100", K.ENGINE_KV_POOL).fields["gpu_blocks"] == 3100


def test_a_notebooks_kernel_that_is_started_again_had_vanished():
    killed = only("INFO | KernelRestarter: restarting kernel (1/5), keep random ports", K.PROCESS_KILLED)
    assert killed.fields["guess_only"] is True


def test_the_node_before_the_allocators_words():
    text = "VAEDecode\nAllocation on device \nThis error means you ran out of memory on your GPU.\n"
    assert only(text, K.DEVICE_OOM).fields["node"] == "VAEDecode"
    assert "node" not in only("all went well:\nAllocation on device \n", K.DEVICE_OOM).fields


@pytest.mark.parametrize(
    ("text", "requested", "allocated"),
    [
        ("cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 2000000 bytes (total 900000000 bytes)", 2_000_000, 900_000_000),
        ("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 2,000,000 bytes (allocated so far: 900,000,000 bytes).", 2_000_000, 900_000_000),
        ("[11:02:03] src/storage/./pooled_storage_manager.h:162: cudaMalloc failed: out of memory", None, None),
        ("[11:02:03] src/storage/./pooled_storage_manager.h:62: Memory allocation failed.", None, None),
        ("MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /opt/include/rmm/mr/device/cuda_memory_resource.hpp:70: cudaErrorMemoryAllocation out of memory", None, None),
        ("MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/opt/include/rmm/mr/device/pool_memory_resource.hpp:196: Maximum pool size exceeded", None, None),
    ],
)  # fmt: skip
def test_allocators_of_other_frameworks_are_of_the_device(text, requested, allocated):
    found = only(f"{text}\n", K.DEVICE_OOM)
    assert (found.fields.get("requested_bytes"), found.fields.get("allocated_bytes")) == (requested, allocated)
    assert found.fields.get("pool_at_maximum") is (True if "pool size" in text else None)
    assert events(text, K.HOST_ALLOCATION_FAILED) == []


@pytest.mark.parametrize(("tail", "requested"), [("9", 9 * GIB), ("0", None), ("", None)])
def test_a_number_that_was_never_put_into_its_sentence(tail, requested):
    text = f"DefaultCPUAllocator: not enough memory: you tried to allocate %dGB. Buy new RAM!{tail}\n"
    assert only(text, K.HOST_ALLOCATION_FAILED).fields.get("requested_bytes") == requested


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("Your session crashed after using all available RAM. View runtime logs", "colab"),
        ("Your notebook tried to allocate more memory than is available. It has restarted.", "kaggle"),
        ("Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html.", "ray"),
    ],
)  # fmt: skip
def test_who_ended_a_session_or_worker_for_its_memory(text, system):
    assert only(f"{text}\n", K.MEMORY_LIMIT_HIT).fields["system"] == system


def test_the_end_of_rays_message_keeps_its_table_and_is_not_told_twice():
    tail = "Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/x/ray-oom-prevention.html.\n"
    rows = "411\t9.50\tray::TrainWorker\n412\t9.40\tray::TrainWorker\n"
    assert len(only(rows + tail, K.MEMORY_LIMIT_HIT).fields["top_processes"]) == 2
    head = "Memory on the node (IP: 10.0.0.2, ID: ab) where the task (task ID: 1, name=f, pid=411) was running was 60.0GB / 62.0GB (0.97), which exceeds the memory usage threshold of 0.95.\n"
    assert len(events(head + rows + tail, K.MEMORY_LIMIT_HIT)) == 1


def test_an_advice_about_sessions_is_no_end_of_one():
    assert events("# To avoid: Your session crashed after using all available RAM\n", K.MEMORY_LIMIT_HIT) == []


BOX = """│ C:\\\\tools\\\\trainer\\\\torch\\\\amp\\\\scaler.py:77 in _step                 │
│                                                                │
│    76 │   def _step(self, optimizer):                           │
│ ❱  77 │   │   return optimizer.step()                           │
│    78                                                          │
│ /srv/fit/torch/optim/adamw.py:12 in step                       │
│ ❱  12 │   state["exp_avg"] = torch.zeros_like(p)                │
╰────────────────────────────────────────────────────────────────╯
"""


def test_a_boxed_traceback_without_its_header_is_read_from_its_first_frame():
    frames = only(BOX, K.EXCEPTION).fields["frames"]
    assert [(frame[1], frame[3]) for frame in frames] == [
        (77, "return optimizer.step()"),
        (12, 'state["exp_avg"] = torch.zeros_like(p)'),
    ]


def test_the_letter_of_a_drive_is_no_exception():
    text = '  File "C:\\\\run\\\\fit.py", line 3, in go\n    step()\nC:\\\\run\\\\lib\\\\site-packages\\\\torch\n'
    assert only(text, K.EXCEPTION).fields.get("exception_type") is None


@pytest.mark.parametrize(("free", "request_"), [("5000000", "1024"), ("4.8MB", "1KB")])
def test_xgboost_says_what_was_free(free, request_):
    text = f"[10:00:00] device_helpers.cuh:400: Memory allocation error on worker 3: std::bad_alloc: cudaErrorMemoryAllocation: out of memory\n- Free memory: {free}\n- Requested memory: {request_}\n"
    found = only(text, K.DEVICE_OOM)
    assert found.fields["requested_bytes"] < found.fields["free_bytes"]
    assert events(text, K.HOST_ALLOCATION_FAILED) == []


def test_opencl_tells_the_hosts_memory_from_the_devices():
    assert only("LightGBMError: Out of Host Memory\n", K.HOST_ALLOCATION_FAILED).fields["allocator"] == "opencl"
    assert only("clBuildProgram: CL_OUT_OF_HOST_MEMORY\n", K.HOST_ALLOCATION_FAILED).fields["allocator"] == "opencl"
    assert only("LightGBMError: Memory Object Allocation Failure\n", K.DEVICE_OOM).fields["backend"] == "opencl"


def test_an_elastic_failure_whose_lines_lost_their_form():
    text = "rank1 (local rank: 1)exitcode: -9 (pid: 411)error file: <N/A>\ntraceback : signal 9 (SIGKILL) received by PID 411\n"
    assert only(text, K.PROCESS_KILLED).fields["signal"] == 9


@pytest.mark.parametrize(
    ("text", "requested"),
    [
        ("pyarrow.lib.ArrowMemoryError: malloc of size 5000000 failed", 5_000_000),
        ("cv2.error: OpenCV(4.8.0) /io/alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate 5000000 bytes in function 'OutOfMemoryError'", 5_000_000),
        ("RuntimeError: [enforce fail at CPUAllocator.cpp:56] posix_memalign(&data, gAlignment, nbytes) == 0. 12 vs 0", None),
    ],
)  # fmt: skip
def test_more_libraries_that_the_host_refused(text, requested):
    assert only(f"{text}\n", K.HOST_ALLOCATION_FAILED).fields.get("requested_bytes") == requested


@pytest.mark.parametrize("worker", ["Worker", "Worker tcp://127.0.0.1:4410 (pid=71)", "Worker tcp://127.0.0.1:4410"])
def test_dasks_nanny_restarts_a_worker_for_its_memory(worker):
    text = f"distributed.nanny - WARNING - {worker} exceeded 95% memory budget. Restarting...\n"
    assert only(text, K.MEMORY_LIMIT_HIT).fields["system"] == "dask"


@pytest.mark.parametrize(
    "text",
    [
        "The Kernel crashed while executing code in the current cell or a previous cell.",
        "Kernel Restarting: The kernel for fit.ipynb appears to have died. It will restart automatically.",
    ],
)
def test_a_notebook_whose_kernel_is_gone(text):
    assert only(f"{text}\n", K.PROCESS_KILLED).fields["guess_only"] is True


def test_mindspore_names_the_device_and_the_size():
    text = "RuntimeError: Device(id:3) memory isn't enough and alloc failed, kernel name: k1, alloc size: 4096B.\n"
    found = only(text, K.DEVICE_OOM)
    assert (found.device, found.fields["requested_bytes"]) == (3, 4096)
