"""The machine below the cards: shared memory, limits, memory for the checkpoint, disk for what is moved out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..model.units import GIB, MIB, format_bytes
from .checkpoint import Checkpoint
from .finding import Finding, Level
from .setup import Setup

_DOCKER_SHM_BYTES = 64 * MIB
"""What a container's /dev/shm has unless somebody asks for more."""
_SHM_PER_RANK_BYTES = 64 * MIB
"""NCCL's shared buffers and a few batches of workers; less than this for a rank has failed in the field."""
_FEW_FILES, _FEW_PROCESSES = 1024, 1024
_TIGHT = 0.1
_OFFLOAD = ("offload-folder", "offload-dir", "nvme-path", "offload-path", "kv-offloading-path")


def check_shm(setup: Setup) -> Iterable[Finding]:
    """The size of /dev/shm, of the container that the command starts or of this machine."""
    check = "host.shm"
    if setup.command.container:
        yield _shm_of_container(setup)
        return
    total, free = setup.limits.host.shm_total_bytes, setup.limits.now.shm_free_bytes
    if not total or free is None:
        yield Finding(check, Level.UNSEEN, "The size of /dev/shm", "It cannot be read, or there is none")
        return
    need = max(2, setup.command.ranks or setup.command.cards or 1) * _SHM_PER_RANK_BYTES
    figures = {"total_bytes": total, "free_bytes": free}
    room = f"/dev/shm: {format_bytes(free)} of {format_bytes(total)} free"
    if free >= need:
        yield Finding(check, Level.FINE, room, figures=figures)
        return
    docker = " (a container's usual 64 MiB)" if total == _DOCKER_SHM_BYTES else ""
    why = "Workers of a data loader hand batches over there, NCCL its buffers: full, it ends a process with Bus error"
    do = "Start the container with more, or empty it" if total < need else "Remove what old runs left in it"
    lines = ("docker run --shm-size 16g …",) if total < need else ("ls -l /dev/shm",)
    yield Finding(check, Level.WARN, f"{room}{docker}", why, do, lines, figures)


def _shm_of_container(setup: Setup) -> Finding:
    options, check = setup.command.options, "host.shm"
    if options.get("shm-size") is not None:
        return Finding(check, Level.FINE, f"/dev/shm of the container: {options['shm-size']}")
    if options.get("ipc") == "host":
        return Finding(check, Level.FINE, "The container uses this machine's /dev/shm (--ipc host)")
    why = "Workers of a data loader hand batches over there, NCCL its buffers: full, it ends a process with Bus error"
    return Finding(
        check,
        Level.WARN,
        "The container gets a /dev/shm of 64 MiB, Docker's default",
        why,
        "Ask for more",
        ("--shm-size 16g",),
    )


def check_limits(setup: Setup) -> Iterable[Finding]:
    """What this process may take, which the command inherits."""
    soft, cards = setup.limits.soft, setup.cards.readings
    for name in ("address space", "data"):
        limit = soft.get(name)
        if name in soft and limit is not None:
            flag = {"address space": "-v", "data": "-d"}[name]
            on_card = sum(card.total_bytes or 0 for card in cards)
            more = " The driver reserves addresses for all memory of the cards and the host." if on_card else ""
            why = f"A process that maps more is refused: MemoryError, or CUDA does not start.{more}"
            yield Finding(
                "host.ulimit",
                Level.WARN,
                f"ulimit {flag} allows {format_bytes(limit)} of {name}",
                why,
                "Lift the limit in this shell",
                (f"ulimit {flag} unlimited",),
                {"limit_bytes": limit},
            )
    for name, few, flag, error in (
        (
            "open files",
            _FEW_FILES,
            "-n",
            "Too many open files: a data loader's workers hand over each tensor as a file",
        ),
        ("processes", _FEW_PROCESSES, "-u", "Resource temporarily unavailable: threads count as well"),
    ):
        limit = soft.get(name)
        if name in soft and limit is not None and limit < few:
            yield Finding(
                "host.ulimit",
                Level.WARN,
                f"ulimit {flag} allows {limit:,} {name}",
                error,
                "Raise it in this shell",
                (f"ulimit {flag} 65536",),
                {"limit": limit},
            )
    yield from _locked(setup)
    missing = [name for name in ("address space", "locked memory", "open files", "processes") if name not in soft]
    if missing:
        yield Finding("host.ulimit", Level.UNSEEN, f"Limits on {', '.join(missing)}", "They cannot be read")
    elif all(soft[name] is None for name in ("address space", "data") if name in soft):
        files = soft["open files"]
        told = "no limit" if files is None else f"{files:,}"
        yield Finding("host.ulimit", Level.FINE, f"ulimit: address space and data unlimited, {told} open files")


def _locked(setup: Setup) -> Iterable[Finding]:
    limit = setup.limits.soft.get("locked memory")
    if limit is None:
        return
    options = setup.command.options
    remote = (setup.root / "sys/class/infiniband").is_dir() and (setup.command.cards or 1) > 1
    wanted = "mlock" in options or remote
    if not wanted:
        return
    what = "--mlock keeps the model from being paged out" if "mlock" in options else "InfiniBand pins its buffers"
    yield Finding(
        "host.ulimit",
        Level.WARN,
        f"ulimit -l allows {format_bytes(limit)} of locked memory",
        f"{what}; more is refused",
        "Lift the limit in this shell, or start the container with it",
        ("ulimit -l unlimited", "docker run --ulimit memlock=-1 …"),
        {"limit_bytes": limit},
    )


def check_memory(setup: Setup, checkpoint: Checkpoint | None) -> Iterable[Finding]:
    """Free host memory, by whichever limit comes first, against the files of the model."""
    limits, check = setup.limits, "host.memory"
    free = limits.free_bytes
    if free is None:
        yield Finding(check, Level.UNSEEN, "How much host memory is free", "/proc/meminfo cannot be read")
        return
    group, available = limits.cgroup_free_bytes, limits.now.available_bytes
    by_group = group is not None and available is not None and group < available
    limit = limits.host.cgroup_limit_bytes
    where = (
        f"below the limit of this control group ({format_bytes(limit)})" if by_group and limit else "on this machine"
    )
    room = f"Host memory: {format_bytes(free)} free {where}"
    figures: dict[str, int | float | str | None] = {"free_bytes": free, "cgroup_limit_bytes": limit}
    whole = limit if by_group and limit else limits.now.total_bytes
    if checkpoint is None:
        low = whole is not None and free < _TIGHT * whole
        yield Finding(
            check,
            Level.WARN if low else Level.FINE,
            room,
            "Less than a tenth is left before anything was started" if low else "",
            figures=figures,
        )
    else:
        yield _against(setup, checkpoint, free, room, figures)
    if limits.host.cgroup_path is None:
        yield Finding(
            "host.cgroup", Level.UNSEEN, "A memory limit of the control group", "Its files are not visible here"
        )
    yield from _overcommit(setup, checkpoint)
    swap = limits.host.swap_total_bytes
    if swap is not None:
        unused = limits.now.swap_free_bytes
        left = f"{format_bytes(unused)} of {format_bytes(swap)} free" if unused is not None else format_bytes(swap)
        yield Finding("host.swap", Level.FINE, f"Swap: {left}" if swap else "Swap: none; what does not fit is killed")


def _against(
    setup: Setup, checkpoint: Checkpoint, free: int, room: str, figures: dict[str, int | float | str | None]
) -> Finding:
    check = "host.checkpoint"
    ranks = setup.command.ranks or 1
    mapped = checkpoint.mapped and "no-mmap" not in setup.command.options
    each = f" in each of {ranks} processes" if ranks > 1 else ""
    figures.update(checkpoint_bytes=checkpoint.bytes, largest_file_bytes=checkpoint.largest_bytes, ranks=ranks)
    size = f"the checkpoint has {format_bytes(checkpoint.bytes)}"
    address = setup.limits.soft.get("address space")
    if mapped and address is not None and address < checkpoint.largest_bytes:
        why = f"A file of {format_bytes(checkpoint.largest_bytes)} is mapped whole, and ulimit -v refuses that"
        return Finding(
            check,
            Level.FAIL,
            f"ulimit -v is {format_bytes(address)}, {size}",
            why,
            "Lift the limit",
            ("ulimit -v unlimited",),
            figures,
        )
    if mapped:
        if checkpoint.bytes <= free:
            return Finding(check, Level.FINE, f"{room}; {size}", figures=figures)
        why = "Its files are mapped, and pages go when room is needed: loading is slow, and fails where they are copied"
        return Finding(
            check, Level.WARN, f"{room}; {size}", why, "Free host memory, or load straight to the card", figures=figures
        )
    need = checkpoint.largest_bytes * ranks
    if need > free + (setup.limits.now.swap_free_bytes or 0):
        why = (
            f"Its largest file ({format_bytes(checkpoint.largest_bytes)}) is read whole{each}: "
            f"{format_bytes(need)} are asked for"
        )
        do = "Convert it to safetensors, load with mmap=True, or let one process read at a time"
        return Finding(check, Level.FAIL, f"{room}; {size}", why, do, figures=figures)
    if checkpoint.bytes * ranks > free:
        why = f"Read whole{each}, it needs {format_bytes(checkpoint.bytes * ranks)}; file by file it may do"
        return Finding(
            check, Level.WARN, f"{room}; {size}", why, "Load file by file, straight to the card", figures=figures
        )
    return Finding(check, Level.FINE, f"{room}; {size}{f', read{each}' if each else ''}", figures=figures)


def _overcommit(setup: Setup, checkpoint: Checkpoint | None) -> Iterable[Finding]:
    limits = setup.limits
    if limits.overcommit != 2:
        return
    total, used = limits.commit_limit_bytes, limits.committed_bytes
    if total is None or used is None:
        yield Finding(
            "host.overcommit", Level.UNSEEN, "What vm.overcommit_memory=2 leaves", "/proc/meminfo does not tell"
        )
        return
    left = max(0, total - used)
    short = checkpoint is not None and not checkpoint.mapped and checkpoint.largest_bytes > left
    yield Finding(
        "host.overcommit",
        Level.FAIL if short else Level.WARN,
        f"vm.overcommit_memory is 2: {format_bytes(left)} of {format_bytes(total)} may still be promised",
        "The kernel refuses what programs reserve and never touch, however much is free (Cannot allocate memory)",
        "Let it promise more",
        ("sudo sysctl vm.overcommit_memory=0",),
        {"left_bytes": left, "limit_bytes": total},
    )


def check_disk(setup: Setup, checkpoint: Checkpoint | None) -> Iterable[Finding]:
    """Room where the command says that what does not fit is to go."""
    for name in _OFFLOAD:
        folder = setup.command.options.get(name)
        if not folder:
            continue
        place = Path(folder)
        while not place.exists() and place != place.parent:
            place = place.parent
        try:
            disk = os.statvfs(place)
        except OSError as error:
            yield Finding("host.disk", Level.UNSEEN, f"Room in {folder}", error.strerror or str(error))
            continue
        free = disk.f_bavail * disk.f_frsize
        short = free < (checkpoint.bytes if checkpoint is not None else GIB)
        why = "What is moved out of memory goes there; without room the run ends with No space left on device"
        yield Finding(
            "host.disk",
            Level.WARN if short else Level.FINE,
            f"{folder} (--{name}): {format_bytes(free)} free",
            why if short else "",
            figures={"free_bytes": free},
        )
