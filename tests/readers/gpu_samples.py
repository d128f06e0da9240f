"""What people paste about their devices, a piece of each form, as the tools of several years print it."""

from __future__ import annotations

WIDE = """Fri Mar  7 21:49:33 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   35C    P0             64W /  400W |   60234MiB /  81920MiB |     17%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A     62563      C   /usr/bin/python                             51200MiB |
|    0   N/A  N/A     71000      C   ...onda3/envs/other/bin/python               8500MiB |
+-----------------------------------------------------------------------------------------+
"""

NARROW = """Mon Aug  5 10:01:02 2019
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla T4            Off  | 00000000:00:04.0 Off |                    0 |
| N/A   61C    P0    29W /  70W |   7021MiB / 15079MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|  No running processes found                                                 |
+-----------------------------------------------------------------------------+
"""

MIG = """+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.183.01             Driver Version: 535.183.01   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  NVIDIA A30                     Off | 00000000:0B:00.0 Off |                   On |
| N/A   47C    P0              32W / 165W |     50MiB / 24576MiB |     N/A      Default |
|                                         |                      |              Enabled |
+-----------------------------------------+----------------------+----------------------+

+---------------------------------------------------------------------------------------+
| MIG devices:                                                                          |
+------------------+--------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |
|      ID  ID  Dev |                     BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |
|                  |                                |        ECC|                       |
|==================+================================+===========+=======================|
|  0    2   0   0  |              25MiB / 11968MiB  | 28      0 |  2   0    2    0    0 |
|                  |               0MiB / 16383MiB  |           |                       |
+------------------+--------------------------------+-----------+-----------------------+

+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|        ID   ID                                                             Usage      |
|=======================================================================================|
|    0    2    0      40961      C   python                                       11MiB |
+---------------------------------------------------------------------------------------+
"""

UNIFIED = """+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   41C    P8              4W /  N/A  | Not Supported          |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A            4242      C   VLLM::EngineCore                      98304MiB |
+-----------------------------------------------------------------------------------------+
"""

CSV = """timestamp, index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB], utilization.gpu [%]
2025/03/07 21:49:33.500, 0, NVIDIA L4, 23034 MiB, 1000 MiB, 21600 MiB, 7 %
2025/03/07 21:49:33.504, 1, NVIDIA L4, 23034 MiB, 200 MiB, [N/A], [Not Supported]
2025/03/07 21:49:38.500, 0, NVIDIA L4, 23034 MiB, 1500 MiB, 21100 MiB, 93 %
2025/03/07 21:49:38.504, 1, NVIDIA L4, 23034 MiB, 200 MiB, [N/A], [Not Supported]
"""

BARE_CSV = """$ nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv,noheader,nounits -l 1
0, 1000, 23034
1, 200, 23034
0, 1500, 23034
1, 200, 23034
"""

DMON = """# gpu    sm   mem   enc   dec   jpg   ofa    fb  bar1  ccpm
# Idx     %     %     %     %     %     %    MB    MB    MB
    0   100    21     0     0     0     0  14813     4     0
    1     0     0     0     0     0     0    300     4     0
    0    81    17     0     0     0     0  15325     4     0
    1     0     0     0     0     0     0    300     4     0
# gpu    sm   mem   enc   dec   jpg   ofa    fb  bar1  ccpm
# Idx     %     %     %     %     %     %    MB    MB    MB
    0    71    16     0     0     0     0  15837     4     0
    1     -     -     0     0     0     0      -     4     0
"""

TIMED_DMON = """#Date       Time        gpu   pwr  temp    sm   mem   enc   dec  mclk  pclk    fb  bar1
#YYYYMMDD   HH:MM:SS    Idx     W     C     %     %     %     %   MHz   MHz    MB    MB
 20250307   21:49:33      0    31    34    50     0     0     0   715  1189  3611     2
 20250307   21:49:34      0    31    34    60     0     0     0   715  1189  3711     2
"""

POWER_DMON = """# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk
# Idx     W     C     C     %     %     %     %   MHz   MHz
    0    70    48     -     5     1     0     0  7000  1350
"""

PMON = """# gpu        pid  type    fb    sm   mem   enc   dec   command
# Idx          #   C/G    MB     %     %     %     %   name
    0     447153     C  7669     -     -     -     -   python3.9
    0     447160   C+G 11057    40     0     -     -   python3.9
    1          -     -     -     -     -     -     -   -
    0     447153     C  7800     -     -     -     -   python3.9
    0     447160   C+G 11057    40     0     -     -   python3.9
    1          -     -     -     -     -     -     -   -
"""

QUERY = """==============NVSMI LOG==============

Timestamp                                 : Fri Mar  7 21:49:33 2025
Driver Version                            : 550.54.15
CUDA Version                              : 12.4

Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-PCIE-40GB
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 1
        FB Memory Usage
            Total                         : 20096 MiB
            Used                          : 107 MiB
    GPU UUID                              : GPU-a
    Minor Number                          : 3
    FB Memory Usage
        Total                             : 40960 MiB
        Reserved                          : 435 MiB
        Used                              : 100 MiB
        Free                              : 40424 MiB
    BAR1 Memory Usage
        Total                             : 65536 MiB
        Used                              : 1 MiB
    Conf Compute Protected Memory Usage
        Total                             : 0 MiB
        Used                              : 0 MiB
    Utilization
        GPU                               : N/A
    Processes
        GPU instance ID                   : 1
        Compute instance ID               : 0
        Process ID                        : 42
            Type                          : C
            Name                          : python
            Used GPU Memory               : 90 MiB
"""

OLD_QUERY = """==============NVSMI LOG==============

Timestamp                           : Fri Dec 09 02:27:00 2016
Driver Version                      : 369.30

Attached GPUs                       : 2
GPU 0000:06:00.0
    Product Name                    : GeForce GTX TITAN Z
    Minor Number                    : N/A
    FB Memory Usage
        Total                       : 6144 MiB
        Used                        : 190 MiB
        Free                        : 5954 MiB
    Processes                       : N/A
GPU 0000:07:00.0
    Product Name                    : GeForce GTX TITAN Z
    FB Memory Usage
        Total                       : 6144 MiB
        Used                        : 20 MiB
        Free                        : 6124 MiB
    Processes                       : None
"""

XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
\t<timestamp>Fri Mar  7 21:49:33 2025</timestamp>
\t<driver_version>550.54.15</driver_version>
\t<attached_gpus>2</attached_gpus>
\t<gpu id="00000000:07:00.0">
\t\t<product_name>NVIDIA A100-PCIE-40GB</product_name>
\t\t<mig_mode>
\t\t\t<current_mig>Enabled</current_mig>
\t\t</mig_mode>
\t\t<mig_devices>
\t\t\t<mig_device>
\t\t\t\t<index>0</index>
\t\t\t\t<fb_memory_usage>
\t\t\t\t\t<total>20096 MiB</total>
\t\t\t\t\t<used>107 MiB</used>
\t\t\t\t</fb_memory_usage>
\t\t\t</mig_device>
\t\t</mig_devices>
\t\t<uuid>GPU-a</uuid>
\t\t<minor_number>0</minor_number>
\t\t<fb_memory_usage>
\t\t\t<total>40960 MiB</total>
\t\t\t<reserved>435 MiB</reserved>
\t\t\t<used>249 MiB</used>
\t\t\t<free>40276 MiB</free>
\t\t</fb_memory_usage>
\t\t<bar1_memory_usage>
\t\t\t<total>65536 MiB</total>
\t\t\t<used>1 MiB</used>
\t\t</bar1_memory_usage>
\t\t<utilization>
\t\t\t<gpu_util>100 %</gpu_util>
\t\t</utilization>
\t\t<processes>
\t\t\t<process_info>
\t\t\t\t<gpu_instance_id>N/A</gpu_instance_id>
\t\t\t\t<pid>4201</pid>
\t\t\t\t<type>C</type>
\t\t\t\t<process_name>train.py &lt;a&gt;</process_name>
\t\t\t\t<used_memory>1024 MiB</used_memory>
\t\t\t</process_info>
\t\t</processes>
\t</gpu>
\t<gpu id="00000000:0F:00.0">
\t\t<product_name>NVIDIA A100-PCIE-40GB</product_name>
\t\t<mig_devices>
\t\t\tNone
\t\t</mig_devices>
\t\t<fb_memory_usage>
\t\t\t<total>40960 MiB</total>
\t\t\t<used>N/A</used>
\t\t</fb_memory_usage>
\t\t<processes>
\t\t</processes>
\t</gpu>
</nvidia_smi_log>
"""

GPUSTAT = """ip-172-31-86-108     Fri Mar  7 21:49:33 2025  450.142.00
[0] GeForce GTX Titan X | 77'C,  96 % | 11848 / 12287 MB | alice:python/52046(11821M) bob:python3/7(?M)
[1] Tesla K80        | 31°C,  ?? % |     0 / 11441 MB | (Not Supported)
[2] Tesla K80        | 31°C,   0 % |     7 / 11441 MB |
"""

COLOURED_GPUSTAT = (
    "\x1b[1m\x1b[37mbox                       \x1b(B\x1b[m  Fri Mar  7 21:49:33 2025  "
    "\x1b[1m\x1b[30m545.23.08\x1b(B\x1b[m\n"
    "\x1b[36m[0]\x1b(B\x1b[m \x1b[34mNVIDIA A100-SXM4-80GB\x1b(B\x1b[m |\x1b[1m\x1b[31m 54°C\x1b(B\x1b[m, "
    "\x1b[1m\x1b[32m 99 %\x1b(B\x1b[m | \x1b[36m\x1b[1m\x1b[33m69424\x1b(B\x1b[m / \x1b[33m81920\x1b(B\x1b[m MB | "
    "\x1b[1m\x1b[30mpoong\x1b(B\x1b[m(\x1b[33m69422M\x1b(B\x1b[m)\n"
)

GPUSTAT_JSON = """{
    "hostname": "box",
    "driver_version": "545.23.08",
    "query_time": "2025-03-07T21:49:33.500000",
    "gpus": [
        {
            "index": 0,
            "uuid": "GPU-a",
            "name": "NVIDIA L4",
            "temperature.gpu": 40,
            "fan.speed": null,
            "utilization.gpu": 12,
            "power.draw": 30,
            "enforced.power.limit": 72,
            "memory.used": 1000,
            "memory.total": 23034,
            "processes": [
                {
                    "username": "alice",
                    "command": "python",
                    "full_command": [
                        "python",
                        "--index",
                        "7"
                    ],
                    "gpu_memory_usage": 990,
                    "cpu_percent": 100.0,
                    "cpu_memory_usage": 123456,
                    "pid": 52046
                }
            ]
        },
        {
            "index": 1,
            "uuid": "GPU-b",
            "name": "NVIDIA L4",
            "utilization.gpu": null,
            "memory.used": 3,
            "memory.total": 23034,
            "processes": null
        }
    ]
}
"""

ALL = {name: text for name, text in list(globals().items()) if name.isupper() and isinstance(text, str)}
