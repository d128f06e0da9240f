"""GIVEN the emulated device WHEN torch's genuine allocator runs on it THEN it sees a card, as NVML does."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from emulation.wheel import environment
from on_device import RUNTIME, Device

pytestmark = pytest.mark.device

EMULATE = Path(__file__).parent / "emulate.py"
MIB, GIB = 1 << 20, 1 << 30
CONTEXT = 420 * MIB

PROCESSES = """
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
print({one.pid: one.usedGpuMemory for one in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)})
"""


def processes(device: Device) -> dict[int, int]:
    """Who holds how much of the first card."""
    answer: dict[int, int] = ast.literal_eval(device.printed_without_torch(PROCESSES))
    return answer


@pytest.mark.extended
def test_free_memory_is_what_nobody_holds(device: Device) -> None:
    lines = device.printed("""
print(*torch.cuda.mem_get_info())
large = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
small = torch.empty(1, device="cuda")
print(*torch.cuda.mem_get_info())
del large, small
torch.cuda.empty_cache()
print(*torch.cuda.mem_get_info())
""").splitlines()
    total = 24 * GIB
    assert lines[0] == f"{total - CONTEXT} {total}"
    assert lines[1] == f"{total - CONTEXT - 102 * MIB} {total}"
    assert lines[2] == lines[0]


def test_running_out_reads_as_on_a_real_card(device: Device) -> None:
    ended = device.run("held = [torch.empty(5 << 30, dtype=torch.uint8, device='cuda') for _ in range(9)]")
    assert ended.returncode == 1
    assert (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 0 has a total capacity of 24.00"
        " GiB of which 3.59 GiB is free. Including non-PyTorch memory, this process has 20.41 GiB memory in use. Of the"
        " allocated memory 20.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
    ) in ended.stderr


def test_the_observer_and_the_snapshot_agree_with_the_card(device: Device) -> None:
    answer = json.loads(
        device.printed("""
import json
seen = []
torch.cuda.memory._record_memory_history(max_entries=1000, stacks="python")
def observe(device, size, total, free):
    snapshot = torch.cuda.memory._snapshot()
    seen.append([size, total, free, sum(one["total_size"] for one in snapshot["segments"])])
torch._C._cuda_attach_out_of_memory_observer(observe)
held = [torch.empty(3 << 30, dtype=torch.uint8, device="cuda") for _ in range(7)]
try:
    torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError:
    pass
print(json.dumps(seen))
""")
    )
    assert answer == [[3 * GIB, 24 * GIB, 3 * GIB - CONTEXT, 21 * GIB]]


def test_nvml_names_each_process_and_what_it_holds(device: Device) -> None:
    assert processes(device) == {}
    one = device.start("malloc(1 << 30)")
    other = device.start("cuda.cudaDeviceSynchronize()")
    assert processes(device) == {one.pid: GIB + CONTEXT, other.pid: CONTEXT}
    for process in (one, other):
        process.communicate()
    assert processes(device) == {}


def test_all_versions_of_the_process_table_agree(device: Device) -> None:
    answer = device.printed_without_torch("""
nvml = ctypes.CDLL("libnvidia-ml.so.1")
class First(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong)]
class Later(ctypes.Structure):
    _fields_ = [*First._fields_, ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]
malloc(1 << 30)
nvml.nvmlInit_v2()
handle = ctypes.c_void_p()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
for name, layout in (("", First), ("_v2", Later), ("_v3", Later)):
    function = getattr(nvml, "nvmlDeviceGetComputeRunningProcesses" + name)
    count = ctypes.c_uint(0)
    too_small = function(handle, ctypes.byref(count), None)
    table = (layout * count.value)()
    code = function(handle, ctypes.byref(count), table)
    print(too_small, count.value, code, table[0].pid == os.getpid(), table[0].used)
""")
    assert answer.splitlines() == [f"7 1 0 True {GIB + CONTEXT}"] * 3


def test_nvml_tells_the_rest_of_a_card(device_with: Callable[..., Device]) -> None:
    device = device_with(memory_bytes=(24 * GIB, 80 * GIB), reserve_bytes=300 * MIB)
    answer = device.printed("""
import pynvml
pynvml.nvmlInit()
for index in range(pynvml.nvmlDeviceGetCount()):
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    first, second = (pynvml.nvmlDeviceGetMemoryInfo(handle, version=v) for v in (None, pynvml.nvmlMemory_v2))
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(handle))) == index
    assert str(torch.cuda.get_device_properties(index).uuid) == pynvml.nvmlDeviceGetUUID(handle)[4:]
    print(pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetPciInfo(handle).busId, first.total, first.used,
          second.total, second.reserved, second.used, second.free, pynvml.nvmlDeviceGetMigMode(handle),
          pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
""")
    first, second = answer.splitlines()
    reserve = 300 * MIB
    assert first == (
        f"Emulated CUDA 24576 MiB 00000000:01:00.0 {24 * GIB + reserve} {reserve} {24 * GIB + reserve} {reserve} 0"
        f" {24 * GIB} [0, 0] 0"
    )
    assert second.startswith(f"Emulated CUDA 81920 MiB 00000000:02:00.0 {80 * GIB + reserve} ")


def test_two_processes_share_a_card(device: Device) -> None:
    other = device.start("malloc(18 << 30)")
    ended = device.run("torch.empty(6 << 30, dtype=torch.uint8, device='cuda')")
    assert f"of which 5.18 GiB is free. Process {other.pid} has 18.41 GiB memory in use." in ended.stderr
    other.communicate()
    assert device.run("torch.empty(6 << 30, dtype=torch.uint8, device='cuda')").returncode == 0


def test_what_a_killed_process_held_is_free_again(device: Device) -> None:
    other = device.start("malloc(18 << 30)")
    other.kill()
    other.wait()
    assert processes(device) == {}
    assert device.run("torch.empty(20 << 30, dtype=torch.uint8, device='cuda')").returncode == 0


@pytest.mark.extended
def test_processes_killed_at_any_instant_leave_the_card_usable(device: Device) -> None:
    for _ in range(10):
        running = [device.start("", then="while True: cuda.cudaFree(malloc(64 << 20))") for _ in range(2)]
        time.sleep(0.05)
        for process in running:
            process.kill()
            process.communicate()
    assert processes(device) == {}


def test_a_context_that_does_not_fit_is_refused(device: Device) -> None:
    others = [device.start("malloc(23 << 30)"), device.start("malloc(100 << 20)")]
    ended = device.run("torch.empty(1, device='cuda')")
    for process in others:
        process.communicate()
    assert ended.returncode == 1
    assert "CUDA error: out of memory" in ended.stderr


def test_cards_may_differ(device_with: Callable[..., Device]) -> None:
    device = device_with(memory_bytes=(4 * GIB, 8 * GIB))
    answer = device.printed("""
torch.empty(6 << 30, dtype=torch.uint8, device="cuda:1")
print([torch.cuda.get_device_properties(i).total_memory >> 30 for i in range(torch.cuda.device_count())])
try:
    torch.empty(6 << 30, dtype=torch.uint8, device="cuda:0")
except torch.cuda.OutOfMemoryError as error:
    print(error)
""")
    assert answer.startswith(
        "[4, 8]\nCUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 4.00"
    )


@pytest.mark.parametrize(
    ("visible", "sizes"),
    [("1", [8]), ("1,0", [8, 4]), ("", []), ("-1", []), ("0,7,1", [4]), ("0,0", []), ("UUID", [8])],
)
def test_cuda_sees_the_visible_devices_and_nvml_sees_all(
    device_with: Callable[..., Device], visible: str, sizes: list[int]
) -> None:
    device = device_with(memory_bytes=(4 * GIB, 8 * GIB))
    if visible == "UUID":
        visible = device.printed_without_torch(
            "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(1)))"
        )
    answer = device.printed_without_torch(
        """
import pynvml
pynvml.nvmlInit()
count = ctypes.c_int()
cuda.cudaGetDeviceCount(ctypes.byref(count))
print([free_and_total()[1] >> 30 for index in range(count.value) if cuda.cudaSetDevice(index) == 0])
print(pynvml.nvmlDeviceGetCount())
""",
        CUDA_VISIBLE_DEVICES=visible,
    )
    assert answer == f"{sizes}\n2"


def test_torch_counts_the_visible_devices(device_with: Callable[..., Device]) -> None:
    device = device_with(memory_bytes=(4 * GIB, 8 * GIB))
    text = "print(torch.cuda.device_count(), torch.cuda.get_device_properties(0).total_memory >> 30)"
    assert device.printed(text, CUDA_VISIBLE_DEVICES="1") == "1 8"


@pytest.mark.extended
def test_expandable_segments_take_and_give_back(device: Device) -> None:
    answer = device.printed(
        """
before = torch.cuda.mem_get_info()[0]
held = [torch.empty(30 << 20, dtype=torch.uint8, device="cuda") for _ in range(100)]
segments = torch.cuda.memory_snapshot()
print([(one["is_expandable"], one["total_size"] >> 20) for one in segments])
print(before - torch.cuda.mem_get_info()[0] >> 20)
del held[50:]
torch.cuda.empty_cache()
print(before - torch.cuda.mem_get_info()[0] >> 20)
large = torch.empty(20 << 30, dtype=torch.uint8, device="cuda")
del held, large
torch.cuda.empty_cache()
print(before - torch.cuda.mem_get_info()[0])
""",
        PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
    )
    assert answer.splitlines() == ["[(True, 3000)]", "3000", "1500", "0"]


def test_a_memory_fraction_is_kept(device: Device) -> None:
    ended = device.run(
        "torch.cuda.set_per_process_memory_fraction(0.25); torch.empty(7 << 30, dtype=torch.uint8, device='cuda')"
    )
    assert "6.00 GiB allowed" in ended.stderr


@pytest.mark.extended
def test_the_drivers_own_pool_runs_out_too(device: Device) -> None:
    ended = device.run(
        "held = [torch.empty(5 << 30, dtype=torch.uint8, device='cuda') for _ in range(9)]",
        PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync",
    )
    assert "OutOfMemoryError" in ended.stderr


def test_a_busy_stream_delays_what_it_used(device: Device) -> None:
    answer = device.printed("""
import time
side = torch.cuda.Stream()
def use():
    buffer = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    buffer.record_stream(side)
def pending():
    numbers = torch.cuda.memory_stats()
    return (numbers["active_bytes.all.current"] - numbers["allocated_bytes.all.current"]) >> 20
with torch.cuda.stream(side):
    torch.cuda._sleep(int(1.41e9))
begin = time.monotonic()
for _ in range(4):
    use()
print(pending(), side.query())
torch.cuda.synchronize()
print(time.monotonic() - begin > 0.9, side.query())
use()
print(pending(), torch.cuda.memory_reserved() >> 20)
""")
    assert answer.splitlines() == ["2048 False", "True True", "512 2048"]


def test_a_device_reads_as_written_until_a_kernel_runs(device: Device) -> None:
    answer = device.printed("""
x = torch.tensor([1, 2, 3]).cuda()
print(x.tolist())
y = x + 1
print(y.tolist(), x.tolist(), y.sum().item())
print(torch.ones(3).pin_memory().tolist())
""")
    assert answer.splitlines() == ["[1, 2, 3]", "[0, 0, 0] [0, 0, 0] 0", "[1.0, 1.0, 1.0]"]


def test_a_graph_is_captured_from_its_own_pool(device: Device) -> None:
    answer = device.printed("""
x = torch.empty(64 << 20, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x + 1
graph.replay()
print([tuple(one["segment_pool_id"]) != (0, 0) for one in torch.cuda.memory_snapshot()])
""")
    assert sorted(ast.literal_eval(answer)) == [False, True]


@pytest.mark.extended
def test_training_runs(device: Device) -> None:
    device.printed("""
from torch import nn
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10)).cuda()
encoder = nn.TransformerEncoderLayer(64, 4, batch_first=True).cuda()
optimizer = torch.optim.AdamW([*model.parameters(), *encoder.parameters()])
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    with torch.autocast("cuda"):
        loss = model(torch.randn(4, 3, 32, 32, device="cuda")).sum()
        loss = loss + encoder(torch.randn(2, 8, 64, device="cuda")).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
""")


def test_what_is_not_emulated_says_so(device: Device) -> None:
    ended = device.run("torch.linalg.svd(torch.empty(8, 8, device='cuda'))")
    assert ended.returncode != 0
    assert re.search(r"emulated CUDA: cusolver\w+ is not emulated", ended.stderr)


@pytest.mark.extended
@pytest.mark.parametrize("torch", ["2.1.2", "2.6.0", "2.9.1", "2.14.1"])
def test_torch_of_this_version_runs_out(device_with: Callable[..., Device], torch: str) -> None:
    if not environment(torch).is_made:
        pytest.skip(f"made by: python tests/device/emulate.py --torch {torch} -- true")
    ended = device_with(torch).run("""
print(torch.__version__, torch.version.cuda, flush=True)
torch.cuda.memory._record_memory_history(max_entries=1000, stacks="python")
layer = torch.nn.Linear(1024, 1024, device="cuda")
layer(torch.empty(8, 1024, device="cuda")).sum().backward()
held = [torch.empty(5 << 30, dtype=torch.uint8, device="cuda") for _ in range(9)]
""")
    assert ended.stdout.startswith(f"{torch}+cu")
    assert "OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 0 has a total capac" in ended.stderr


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["python", "-c", "import sys; sys.exit(7)"], 7),
        (["sh", "-c", "kill -TERM $$"], -15),
        (["no-such-program"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_emulate_ends_as_the_command_does(command: list[str], status: int) -> None:
    ended = subprocess.run([sys.executable, str(EMULATE), "--", *command], capture_output=True)
    assert ended.returncode == status


@pytest.mark.extended
def test_invocations_share_a_card_when_told_to(tmp_path: Path) -> None:
    shared = [sys.executable, str(EMULATE), "--shared", str(tmp_path / "card"), "--memory", "8GiB", "--"]
    hold = f"{RUNTIME}\nheld = malloc(5 << 30); print(1, flush=True); sys.stdin.read()"
    first = subprocess.Popen([*shared, "python", "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    first.stdout.readline()
    take = "import torch; torch.empty(5 << 30, dtype=torch.uint8, device='cuda')"
    second = subprocess.run([*shared, "python", "-c", take], capture_output=True, text=True)
    first.communicate()
    assert f"Process {first.pid} has 5.41 GiB memory in use" in second.stderr
