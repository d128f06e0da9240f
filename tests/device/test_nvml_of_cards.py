"""GIVEN cards of which a process sees some WHEN CUDA and NVML are asked THEN they speak of the same cards."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from emulation.cards import MIB
from on_device import Device

pytestmark = pytest.mark.device

GIB = 1 << 30
CONTEXT = 420 * MIB
UUIDS = [f"GPU-{''.join(f'{(0xE0 + 7 * i + 31 * card) & 255:02x}' for i in range(4))}" for card in range(3)]
"""How those of the cards begin."""

SEEN = """
import pynvml
pynvml.nvmlInit()
count = ctypes.c_int()
code = cuda.cudaGetDeviceCount(ctypes.byref(count))
cards = []
for index in range(count.value):
    text = ctypes.create_string_buffer(32)
    assert cuda.cudaDeviceGetPCIBusId(text, 32, index) == 0
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(text.value)
    assert pynvml.nvmlDeviceGetPciInfo_v3(handle).busIdLegacy in (text.value, text.value.decode())
    cards.append(pynvml.nvmlDeviceGetIndex(handle))
print((code, cards))
"""


@pytest.mark.parametrize(
    ("visible", "cards"),
    [
        ("2,0", [2, 0]),
        (f"{UUIDS[2]},{UUIDS[0]}", [2, 0]),
        (f"{UUIDS[1]},0", [1, 0]),
        (f"1,{UUIDS[1]}", []),
        ("1,GPU-none,0", [1]),
        ("none", []),
        ("0, 1", [0, 1]),
        ("", []),
    ],
)
def test_a_device_of_the_process_is_the_card_that_it_was_told(
    device_with: Callable[..., Device], visible: str, cards: list[int]
) -> None:
    device = device_with(memory_bytes=(4 * GIB, 8 * GIB, 16 * GIB))
    code, seen = ast.literal_eval(device.printed_without_torch(SEEN, CUDA_VISIBLE_DEVICES=visible))
    assert seen == cards
    assert code == (0 if cards else 100)  # cudaErrorNoDevice


def test_torch_numbers_them_as_cuda_does(device_with: Callable[..., Device]) -> None:
    device = device_with(memory_bytes=(4 * GIB, 8 * GIB, 16 * GIB))
    text = """
seen = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
print([(one.total_memory >> 30, str(one.uuid)[:8]) for one in seen])
"""
    for visible in ("2,1", f"{UUIDS[2]},{UUIDS[1]}"):
        answer = device.printed(text, CUDA_VISIBLE_DEVICES=visible)
        assert ast.literal_eval(answer) == [(16, UUIDS[2][4:]), (8, UUIDS[1][4:])]


TABLES = """
import pynvml
pynvml.nvmlInit()
malloc(1 << 30)
print([
    [
        [(one.pid == os.getpid(), one.usedGpuMemory, one.gpuInstanceId, one.computeInstanceId)
         for one in function(pynvml.nvmlDeviceGetHandleByIndex(card))]
        for card in range(2)
    ]
    for function in (pynvml.nvmlDeviceGetComputeRunningProcesses_v2, pynvml.nvmlDeviceGetComputeRunningProcesses_v3)
])
handle = pynvml.nvmlDeviceGetHandleByIndex(1)
print(pynvml.nvmlDeviceGetMigMode(handle), pynvml.nvmlDeviceGetMaxMigDeviceCount(handle))
for ask in (pynvml.nvmlDeviceGetMigDeviceHandleByIndex,):
    try:
        ask(handle, 0)
    except pynvml.NVMLError as error:
        print(error)
"""


def test_nvml_lists_a_process_on_the_card_and_not_on_the_device(device_with: Callable[..., Device]) -> None:
    """pynvml's structures say what no version has as all bits set: no MIG instance is in use."""
    device = device_with(memory_bytes=(4 * GIB, 8 * GIB))
    tables, mig, refused = device.printed_without_torch(TABLES, CUDA_VISIBLE_DEVICES="1").splitlines()
    held = (True, GIB + CONTEXT, 0xFFFFFFFF, 0xFFFFFFFF)
    assert ast.literal_eval(tables) == [[[], [held]], [[], [held]]]
    assert mig == "[0, 0] 0"
    assert refused == "Not Supported"
