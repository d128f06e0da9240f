"""A stand-in for the pynvml module: the functions that oomdoctor calls, over devices written down by a test."""

from types import ModuleType, SimpleNamespace


class NVMLError(Exception):
    pass


def make(devices, missing=(), init_error=None):
    """A module; `devices`: dictionaries of what each shows; `missing`: functions that answer 'not supported'."""
    module = ModuleType("pynvml")
    module.NVMLError = NVMLError
    module.nvmlMemory_v2 = 0x02000028

    def init():
        if init_error:
            raise NVMLError(init_error)

    def memory(handle, version=None):
        if version is not None and "reserved" not in handle:
            raise NVMLError("Function Not Found")
        return SimpleNamespace(
            **{name: handle[name] for name in ("total", "used", "free", "reserved") if name in handle}
        )

    def table(kind):
        def processes(handle):
            if kind not in handle:
                raise NVMLError("Not Supported")
            return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in handle[kind]]

        return processes

    functions = {
        "nvmlInit": init,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"550.54.15",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 12040,
        "nvmlDeviceGetCount": lambda: len(devices),
        "nvmlDeviceGetHandleByIndex": lambda index: devices[index],
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetName": lambda handle: handle["name"],
        "nvmlDeviceGetUUID": lambda handle: handle["uuid"],
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=handle["gpu"]),
        "nvmlDeviceGetMigMode": lambda handle: [handle["mig"], handle["mig"]],
        "nvmlDeviceGetComputeRunningProcesses": table("compute"),
        "nvmlDeviceGetGraphicsRunningProcesses": table("graphics"),
        "nvmlSystemGetProcessName": lambda pid: f"program-{pid}",
    }
    for name, function in functions.items():
        setattr(module, name, _refuse if name in missing else function)
    return module


def _refuse(*_arguments, **_options):
    raise NVMLError("Not Supported")
