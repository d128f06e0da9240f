"""A run with eight devices, a day of samples and a snapshot of 100,000 events: the largest that is planned for."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
from report.diagnoses import fragmentation

from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.diagnosis import Course, CoursePart, DeviceLook, Diagnosis, Holding, Moment, MomentKind, Series
from oomdoctor.model.failed_request import AddressMap, FailedRequest, MapRow, MapRun, Room, Unused
from oomdoctor.model.source import Source
from oomdoctor.model.stack_tree import StackNode, StackTree
from oomdoctor.model.units import GIB, MIB
from oomdoctor.model.window import CategoryCourse, OwnerCourse, PeakHolding, PhaseSpan, Window

DAY_SECONDS, INTERVAL_SECONDS = 86_400, 0.5
CATEGORIES = ("weights", "gradients", "optimizer state", "activations", "keys and values", "live, kind not known")


@cache
def _times() -> tuple[float, ...]:
    return tuple((1_764_300_000.0 + np.arange(0, DAY_SECONDS, INTERVAL_SECONDS)).tolist())


def _day(where: str, name: str, seed: int) -> Series:
    noise = np.random.default_rng(seed).integers(40 * GIB, 80 * GIB, len(_times()))
    return Series(where, name, _times(), tuple(noise.tolist()), "every 0.50 s by the sampler", 80 * GIB)


def _course(where: str, seed: int) -> Course:
    """What is left of a day after 900 times were chosen, as the pipeline makes it."""
    noise, count, total = np.random.default_rng(seed), 900, 80 * GIB
    times = tuple((1_764_300_000.0 + np.linspace(0, DAY_SECONDS, count)).tolist())
    names = ("other processes", "context and libraries", "weights", "activations", "idle in blocks of the allocator")
    sizes = [noise.integers(GIB, 14 * GIB, count) for _ in names]
    sizes[0][:], sizes[1][:], sizes[2][:] = 2 * GIB, GIB, 12 * GIB
    parts = [CoursePart(name, tuple(values.tolist()), "measured") for name, values in zip(names, sizes, strict=True)]
    free = CoursePart("free on the device", tuple((total - np.sum(sizes, axis=0)).tolist()), "measured by NVML")
    return Course(where, times, total, (*parts, free), "by the sampler and the allocator")


def _window(where: str, noise: random.Random) -> Window:
    times = tuple(1_764_386_000.0 + 0.01 * step for step in range(403))
    return Window(
        where=where,
        events=100_000,
        has_times=True,
        times_seconds=times,
        categories=tuple(
            CategoryCourse(name, tuple(noise.randrange(GIB, 12 * GIB) for _ in times)) for name in CATEGORIES
        ),
        peak_seconds=times[-1],
        peak_bytes=79 * GIB,
        peak_is_before=False,
        peak_may_be_more_bytes=0,
        before_bytes=GIB,
        at_peak=tuple(
            PeakHolding(f"/home/someone/work/model_{n}.py:{n} in forward", "activations", GIB, n) for n in range(11)
        ),
        rise=None,
        owners=tuple(
            OwnerCourse(f"/home/someone/work/model_{n}.py:{n} in forward", "activations", 9, 4, GIB, GIB, GIB, 0.1)
            for n in range(12)
        ),
        phases=tuple(PhaseSpan("forward", times[n], times[n + 1]) for n in range(0, 200, 2)),
        marks=tuple(PhaseSpan("Optimizer.step#AdamW.step", times[n], times[n + 1]) for n in range(200)),
        failure_seconds=times[-1],
        disagreements=0,
        source="snapshots/1-1.pickle",
    )


def _failed(where: str, noise: random.Random) -> FailedRequest:
    kinds = ("idle", "activations", "weights", "keys and values")
    runs = tuple(MapRun(n * 14 * MIB, 14 * MIB, noise.choice(kinds)) for n in range(240))
    rows = tuple(MapRow("large pool, stream 0", True, 3, 1 << 46, 3360 * MIB, runs, (GIB,)) for _ in range(24))
    return FailedRequest(
        where=where,
        requested_bytes=GIB,
        needed_bytes=GIB,
        pool="large pool, stream 0",
        captured=False,
        wanted_bytes=GIB,
        device_free_bytes=MIB,
        room_bytes=MIB,
        live_bytes=70 * GIB,
        reserved_bytes=79 * GIB,
        largest_hole_bytes=MIB,
        unused=(Unused("too-small", GIB, 100, MIB),),
        pinning=(),
        room=Room(GIB, 0, MIB, 1, ()),
        map=AddressMap(3360 * MIB, rows),
        source="snapshots/1-1.pickle",
    )


def _stacks(where: str) -> StackTree:
    """As many boxes as a picture has."""
    leaves = [StackNode((f"/home/someone/work/model_{n}.py:{n} in forward",), "activations", GIB) for n in range(26)]
    halves = tuple(
        StackNode(
            (f"/home/someone/work/train.py:{n} in step",), "activations", 19 * GIB, tuple(leaves[13 * n : 13 * n + 13])
        )
        for n in range(2)
    )
    root = StackNode(("/home/someone/work/train.py:9 in main",), "activations", 38 * GIB, halves)
    return StackTree(where, 40 * GIB, 2 * GIB, (root,), "snapshots/1-1.pickle")


def _look(where: str, index: int) -> DeviceLook:
    listed = tuple(DeviceProcess(4000 + n, n * GIB, "/usr/bin/python3", own=n % 2 == 0) for n in range(8))
    return DeviceLook(
        where, DeviceReading(index, Source("nvidia-smi.txt", 1), "H200", None, 141 * GIB, processes=listed)
    )


def large() -> Diagnosis:
    """The whole of it."""
    noise = random.Random(0)
    devices = [f"cuda:{index}" for index in range(8)]
    names = ("used on the device", "allocated by torch", "reserved by torch")
    return replace(
        fragmentation(),
        series=tuple(_day(where, name, seed) for seed, where in enumerate((*devices, "host")) for name in names),
        courses=tuple(_course(where, seed) for seed, where in enumerate(devices)),
        windows=(_window("cuda:0", noise),),
        failed_requests=(_failed("cuda:0", noise),),
        stack_trees=tuple(map(_stacks, devices)),
        devices=tuple(_look(where, index) for index, where in enumerate(devices)),
        holdings=tuple(
            Holding(
                where,
                f"activations in 'x{n}' local to Block.forward()",
                n * GIB,
                n,
                "counted by the probe",
                "activations",
            )
            for where in devices
            for n in range(20)
        ),
        moments=tuple(
            Moment(
                1_764_300_000.0 + 2000 * n, devices[n % 8], MomentKind.RETRY, "the allocator emptied its cache", "run"
            )
            for n in range(43)
        ),
    )
