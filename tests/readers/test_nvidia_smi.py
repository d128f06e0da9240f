from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.model.devices import DeviceReading
from oomdoctor.readers.gpu_tables.forms import find_devices
from oomdoctor.readers.log.engine import read_log

MIB = 1 << 20


def read_devices(text: str, path: str) -> tuple[DeviceReading, ...]:
    return find_devices(text.splitlines(), path)


NEW = """Fri Mar  7 21:49:33 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   35C    P0             64W /  400W |    1234MiB /  81920MiB |     17%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA A100-SXM4-80GB          On  |   00000000:0F:00.0 Off |                    0 |
| N/A   35C    P0             64W /  400W |       4MiB /  81920MiB |      N/A     Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A     62563      C   /usr/bin/python train.py                      966MiB |
|    0   N/A  N/A     62564    C+G   ...n64/firefox                                    N/A |
+-----------------------------------------------------------------------------------------+
"""


def test_the_new_table() -> None:
    first, second = read_devices(NEW, "smi.txt")
    assert (first.index, first.name, first.source.line) == (0, "NVIDIA A100-SXM4-80GB", 9)
    assert (first.used_bytes, first.total_bytes, first.utilization, first.mig_mode) == (
        1234 * MIB,
        81920 * MIB,
        0.17,
        False,
    )
    assert first.time_seconds == 1741384173.0
    assert first.processes is not None
    python, firefox = first.processes
    assert (python.pid, python.used_bytes, python.name, python.kind) == (
        62563,
        966 * MIB,
        "/usr/bin/python train.py",
        "C",
    )
    assert (firefox.used_bytes, firefox.kind) == (None, "C+G")
    assert (second.index, second.utilization, second.mig_mode, second.processes) == (1, None, True, ())


def test_the_table_through_the_log_engine_is_the_same() -> None:
    reading = read_log(io.BytesIO(NEW.encode()), "smi.txt")
    assert reading.device_readings == read_devices(NEW, "smi.txt")
    assert reading.events == ()


def test_two_stills_in_one_file() -> None:
    readings = read_devices(NEW + NEW.replace("1234MiB", "2345MiB"), "smi.txt")
    assert [reading.used_bytes for reading in readings if reading.index == 0] == [1234 * MIB, 2345 * MIB]


def test_an_old_cut_table_with_stills_that_nothing_separates() -> None:
    rows = (
        "|   0  GeForce GTX 1080    Off  | 00000000:01:00.0  On |                  N/A |\n"
        "| 58%   70C    P2    67W / 200W |   {}MiB /  8111MiB |     19%      Default |\n"
    )
    readings = read_devices(rows.format(1906) + rows.format(5202), "p")
    assert [(reading.used_bytes, reading.processes) for reading in readings] == [(1906 * MIB, None), (5202 * MIB, None)]


def test_processes_alone_old_layout_and_cut_row() -> None:
    first, second = read_devices(
        "|  GPU       PID   Type   Process name                             Usage      |\n"
        "|    0     62250      C   /usr/bin/python3.6                          4903MiB |\n"
        "|    0     62251      C   Unknown Error                                725MiB |\n"
        "|    1     62251      C   /usr/bin/python3.6",
        "p",
    )
    assert (first.total_bytes, first.used_bytes) == (None, None)
    assert first.processes is not None
    assert [process.used_bytes for process in first.processes] == [4903 * MIB, 725 * MIB]
    assert second.processes is not None
    assert second.processes[0].used_bytes is None


def test_rows_of_processes_alone_and_other_tables_of_sizes() -> None:
    rows = """|    0   N/A  N/A      4101      C   .../envs/a/bin/python3.9      414MiB |
|    1   N/A  N/A      4101      C   .../envs/a/bin/python3.9    13868MiB |
|    1     4102      C   python                     725MiB |"""
    found = {device.index: [process.pid for process in device.processes] for device in read_devices(rows, "x")}
    assert found == {0: [4101], 1: [4101, 4102]}
    assert not read_devices("| small | 12 MiB | 30 MiB |\n| 0 | 4101 | 12 MiB |", "x")


def test_mig_instances_do_not_pass_for_the_device() -> None:
    text = NEW.replace(
        "+\n\n",
        "+\n| MIG devices:                                                                            |\n"
        "|  1    1   0   0  |              37MiB / 40192MiB    | 42      0 |  3   0    2    0    0 |\n"
        "|                  |               0MiB / 65535MiB    |           |                       |\n\n",
    )
    _, second = read_devices(text, "p")
    assert (second.used_bytes, second.total_bytes, second.mig_mode) == (4 * MIB, 81920 * MIB, True)


def test_csv() -> None:
    text = (
        "index, uuid, name, memory.total [MiB], memory.used [MiB], memory.free [MiB], utilization.gpu [%]\n"
        "0, GPU-a, NVIDIA L4, 23034 MiB, 100 MiB, 22900 MiB, 7 %\n"
        "1, GPU-b, NVIDIA L4, 23034, 200, [N/A], [N/A]\n"
    )
    first, second = read_devices(text, "p")
    assert (first.index, first.uuid, first.name, first.used_bytes, first.utilization) == (
        0,
        "GPU-a",
        "NVIDIA L4",
        100 * MIB,
        0.07,
    )
    assert (second.used_bytes, second.free_bytes, second.utilization, second.source.line) == (200 * MIB, None, None, 3)
    assert read_log(io.BytesIO(text.encode()), "p").device_readings == (first, second)


def test_csv_without_index_and_processes() -> None:
    (device,) = read_devices(
        "timestamp, gpu_uuid, memory.used [MiB]\n2025/03/07 21:49:33.500, GPU-a, 5 MiB\n"
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-a, 42, python, 4 MiB\n",
        "p",
    )
    assert (device.index, device.time_seconds) == (0, 1741384173.5)
    assert device.processes is not None
    assert (device.processes[0].pid, device.processes[0].used_bytes) == (42, 4 * MIB)
    assert read_devices("name, memory.used [MiB]\nL4, 5 MiB\nL4, 6 MiB\n", "p") == ()  # two cards, or one twice


QUERY = """==============NVSMI LOG==============

Timestamp                                 : Fri Mar  7 21:49:33 2025
Driver Version                            : 550.54.15
Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : NVIDIA L4
    GPU UUID                              : GPU-a
    Minor Number                          : 3
    MIG Mode
        Current                           : N/A
    FB Memory Usage
        Total                             : 23034 MiB
        Reserved                          : 434 MiB
        Used                              : 100 MiB
        Free                              : 22500 MiB
    BAR1 Memory Usage
        Total                             : 32768 MiB
        Used                              : 1 MiB
    Utilization
        Gpu                               : 12 %
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 42
            Type                          : C
            Name                          : python
            Used GPU Memory               : 90 MiB
"""


def test_query() -> None:
    (device,) = read_devices(QUERY, "p")
    assert (device.index, device.name, device.uuid, device.mig_mode, device.utilization) == (
        0,
        "NVIDIA L4",
        "GPU-a",
        None,
        0.12,
    )
    assert (device.total_bytes, device.reserved_by_driver_bytes, device.used_bytes, device.free_bytes) == (
        23034 * MIB,
        434 * MIB,
        100 * MIB,
        22500 * MIB,
    )
    assert device.processes is not None
    assert (device.processes[0].pid, device.processes[0].name, device.processes[0].used_bytes) == (
        42,
        "python",
        90 * MIB,
    )
    assert read_log(io.BytesIO(QUERY.encode()), "p").device_readings == (device,)
    (selected,) = read_devices(
        QUERY.replace("GPUs                             : 1", "GPUs                             : 8"), "p"
    )
    assert selected.index == 3


@given(
    st.lists(
        st.sampled_from([*NEW.splitlines(), *QUERY.splitlines(), "memory.used, pid, uuid", "1, 2, 3", "", "|", "| 0"]),
        max_size=40,
    )
)
@settings(max_examples=100)
def test_no_mixture_of_lines_raises(lines: list[str]) -> None:
    read_devices("\n".join(lines), "p")
    read_log(io.BytesIO("\n".join(lines).encode()), "p")
