"""Starts an empty process on each card and measures what it takes of it."""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO

from ..collect.nvml_process import NvmlProcess
from ..language import _, told
from ..model.devices import DeviceReading
from .measured import Measured
from .setup import Setup
from .visible import VARIABLE, visible_cards

_SECONDS = 120.0
"""For torch's import from a cold disk, the context and the libraries of one card."""
_WITH_TORCH = """
import json, sys, torch
def tell(**what): print("oomdoctor " + json.dumps(what), flush=True); sys.stdin.readline()
torch.cuda.init()
one = torch.zeros(1, device="cuda")
torch.cuda.synchronize()
tell(torch=torch.__version__, reserved=torch.cuda.memory_reserved())
square = torch.zeros(64, 64, device="cuda")
square @ square
torch.cuda.synchronize()
tell(torch=torch.__version__, reserved=torch.cuda.memory_reserved())
"""
_DRIVER_ALONE = """
import ctypes, json, sys
def tell(**what): print("oomdoctor " + json.dumps(what), flush=True); sys.stdin.readline()
cuda = ctypes.CDLL("libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
for call in (
    lambda: cuda.cuInit(0),
    lambda: cuda.cuDeviceGet(ctypes.byref(device), 0),
    lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
    lambda: cuda.cuCtxSetCurrent(context),
):
    code = call()
    if code:
        sys.exit(f"the CUDA driver answers with error {code}")
tell(torch=None, reserved=0)
tell(torch=None, reserved=0)
"""


@dataclass(frozen=True)
class NotMeasured:
    """Why there is no figure for a card."""

    card: int | None
    why: str


def measure_overhead(
    setup: Setup, say: Callable[[str], None] = lambda _sentence: None
) -> tuple[list[Measured], list[NotMeasured]]:
    """Each visible card in turn. `say` is told what is being done."""
    visible = visible_cards(setup)
    if not visible.cards or not visible.known:
        return [], [NotMeasured(None, setup.cards.why_none or _("the visible cards are not known"))]
    nvml = NvmlProcess()
    if not nvml.open():
        return [], [NotMeasured(None, told(nvml.reason or "") or _("there is no NVML"))]
    found: list[Measured] = []
    missing: list[NotMeasured] = []
    try:
        for card in visible.cards:
            say(_("an empty process on card {index} …").format(index=card.index))
            try:
                found.append(_measure(setup, card, nvml))
            except (_Failed, OSError) as error:
                missing.append(NotMeasured(card.index, str(error)))
    finally:
        nvml.close()
    return found, missing


class _Failed(Exception):
    """The process did not come so far."""


def _measure(setup: Setup, card: DeviceReading, nvml: NvmlProcess) -> Measured:
    with_torch = setup.interpreter.path is not None and "torch" in setup.interpreter.versions
    python = str(setup.interpreter.path) if with_torch else sys.executable
    variables: Mapping[str, str] = {
        **setup.variables,
        VARIABLE: card.uuid or str(card.index),
        "PYTHONWARNINGS": "ignore",
    }
    before = _reading(nvml, card.index)
    with subprocess.Popen(
        [python, "-c", _WITH_TORCH if with_torch else _DRIVER_ALONE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables,
    ) as process:
        try:
            looks = []
            for _look in range(2):
                told = _answer(process)
                looks.append((told, _reading(nvml, card.index)))
                assert process.stdin is not None
                process.stdin.write(b"\n")
                process.stdin.flush()
        except BrokenPipeError as error:
            raise _Failed(_("the process ended early")) from error
        finally:
            with contextlib.suppress(OSError):
                process.kill()
    return _figures(card, nvml, process.pid, before, looks)


def _figures(
    card: DeviceReading,
    nvml: NvmlProcess,
    pid: int,
    before: DeviceReading,
    looks: list[tuple[dict[str, object], DeviceReading]],
) -> Measured:
    """What the process held at each look, by the table of processes where it is in it, else by the whole card."""
    own = [next((one.used_bytes for one in look.processes or () if one.pid == pid), None) for _, look in looks]
    how = "process" if all(own) else "device"
    held = []
    for used, (said, look) in zip(own, looks, strict=True):
        if how == "device":
            if look.used_bytes is None or before.used_bytes is None:
                raise _Failed(_("NVML shows neither the process nor what is used of the card"))
            used = look.used_bytes - before.used_bytes
        reserved = said.get("reserved")
        held.append((used or 0) - (reserved if isinstance(reserved, int) else 0))
    if held[0] <= 0 or held[1] < held[0]:
        raise _Failed(_("what is used of the card changed meanwhile by what others do; try again when it is quiet"))
    last = looks[1][0]
    torch, reserved = last.get("torch"), last.get("reserved")
    return Measured(
        gpu=card.name or _("unknown card"),
        driver=nvml.versions().get("nvidia-driver", "unknown"),
        torch=str(torch) if torch is not None else None,
        total_bytes=(card.total_bytes or 0) - (card.reserved_by_driver_bytes or 0),
        context_bytes=held[0],
        libraries_bytes=held[1] - held[0],
        allocator_bytes=reserved if isinstance(reserved, int) else 0,
        how=how,
        time_seconds=time.time(),
    )


def _reading(nvml: NvmlProcess, index: int) -> DeviceReading:
    found = next((reading for reading in nvml.read() if reading.index == index), None)
    if found is None:
        raise _Failed(_("NVML no longer shows the card"))
    return found


def _answer(process: subprocess.Popen[bytes]) -> dict[str, object]:
    """What the process tells next; what else is printed is skipped. Raises _Failed where it ends or takes too long."""
    assert process.stdout is not None
    assert process.stderr is not None
    deadline = time.monotonic() + _SECONDS
    line = b""
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if not waiting.select(timeout=deadline - time.monotonic()):
                break
            byte = process.stdout.read1(1) if hasattr(process.stdout, "read1") else process.stdout.read(1)
            if not byte:
                raise _Failed(_last_words(process.stderr) or _("the process ended without a word"))
            line += byte
            if byte == b"\n":
                if line.startswith(b"oomdoctor {"):
                    told = json.loads(line[len("oomdoctor ") :])
                    return told if isinstance(told, dict) else {}
                line = b""
    process.kill()
    raise _Failed(_("no answer within {seconds} s").format(seconds=f"{_SECONDS:.0f}"))


def _last_words(stream: IO[bytes]) -> str:
    lines = stream.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else ""
