import os
import signal
import sys

import fake_nvml
import pytest

from oomdoctor.collect.nvml import Nvml
from oomdoctor.collect.nvml_process import NvmlProcess, read_devices

GIB = 1 << 30
DEVICE = {
    "name": b"NVIDIA H100",
    "uuid": "GPU-1",
    "total": 80 * GIB,
    "used": 30 * GIB,
    "free": 49 * GIB,
    "reserved": GIB,
    "gpu": 75,
    "mig": 0,
    "compute": [(os.getpid(), 20 * GIB), (1, None)],
    "graphics": [(1, 5)],
}


def test_a_device_with_its_processes(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make([DEVICE]))
    (reading,), reason = read_devices(own=[os.getpid()])
    assert reason is None
    assert (reading.index, reading.name, reading.uuid) == (0, "NVIDIA H100", "GPU-1")
    assert (reading.total_bytes, reading.used_bytes, reading.free_bytes) == (80 * GIB, 30 * GIB, 49 * GIB)
    assert (reading.reserved_by_driver_bytes, reading.utilization, reading.mig_mode) == (GIB, 0.75, False)
    other, own = reading.processes
    assert (other.pid, other.used_bytes, other.kind, other.own) == (1, 5, "C+G", False)
    assert (own.pid, own.used_bytes, own.kind, own.own) == (os.getpid(), 20 * GIB, "C", True)


def test_a_process_of_another_namespace_is_not_called_foreign(monkeypatch):
    monkeypatch.setitem(
        sys.modules, "pynvml", fake_nvml.make([{**DEVICE, "compute": [(2**22 + 7, GIB)], "graphics": []}])
    )
    (reading,), _ = read_devices(own=[os.getpid()])
    assert reading.processes[0].own is None


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetName", "name"),
        ("nvmlDeviceGetUUID", "uuid"),
        ("nvmlDeviceGetMemoryInfo", "total_bytes"),
        ("nvmlDeviceGetUtilizationRates", "utilization"),
        ("nvmlDeviceGetMigMode", "mig_mode"),
    ],
)
def test_what_a_device_refuses_is_none_and_the_rest_is_read(monkeypatch, function, field):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make([DEVICE], missing=[function]))
    (reading,), _ = read_devices()
    assert getattr(reading, field) is None
    others = {"name", "uuid", "total_bytes", "utilization", "mig_mode", "processes"} - {field}
    assert all(getattr(reading, other) is not None for other in others)


def test_an_old_driver_without_the_second_memory_call(monkeypatch):
    device = {name: value for name, value in DEVICE.items() if name != "reserved"}
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make([device]))
    (reading,), _ = read_devices()
    assert (reading.total_bytes, reading.reserved_by_driver_bytes) == (80 * GIB, None)


def test_no_process_table_is_not_an_empty_one(monkeypatch):
    bare = {name: value for name, value in DEVICE.items() if name not in ("compute", "graphics")}
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make([bare, {**bare, "compute": []}]))
    (without, empty), _ = read_devices()
    assert (without.processes, empty.processes) == (None, ())


def test_not_available_is_none(monkeypatch):
    device = {**DEVICE, "compute": [(1, 0xFFFFFFFFFFFFFFFF)], "graphics": []}
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make([device]))
    assert read_devices()[0][0].processes[0].used_bytes is None


def test_the_reason_when_there_is_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make([], init_error="Driver Not Loaded"))
    assert read_devices() == ((), "NVML does not start: Driver Not Loaded")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pynvml cannot be imported" in read_devices()[1]
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make([]))
    assert read_devices() == ((), "NVML names no device")


def test_versions(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make([DEVICE]))
    nvml = Nvml()
    assert nvml.versions() == {}
    assert nvml.open()
    assert nvml.versions() == {"nvidia-driver": "550.54.15", "cuda-driver": "12.4"}
    nvml.close()
    assert nvml.read() == ()


def test_a_process_of_nvml_that_does_not_end_is_killed_at_the_close():
    asked = NvmlProcess()
    os.kill(asked._pid, signal.SIGSTOP)
    asked.close()
    assert not os.path.exists(f"/proc/{asked._pid}")
