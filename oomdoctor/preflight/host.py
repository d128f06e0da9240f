"""The machine below the cards: shared memory, limits, memory for the checkpoint, disk for what is moved out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..language import N_, _
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
KINDS = {
    "address space": N_("address space"),
    "locked memory": N_("locked memory"),
    "open files": N_("open files"),
    "processes": N_("processes"),
    "data": N_("data segment"),
}
"""Limits by the names that programs know."""
_OFFLOAD = ("offload-folder", "offload-dir", "nvme-path", "offload-path", "kv-offloading-path")


def check_shm(setup: Setup) -> Iterable[Finding]:
    """The size of /dev/shm, of the container that the command starts or of this machine."""
    check = "host.shm"
    if setup.command.container:
        yield _shm_of_container(setup)
        return
    total, free = setup.limits.host.shm_total_bytes, setup.limits.now.shm_free_bytes
    if not total or free is None:
        yield Finding(check, Level.UNSEEN, _("The size of /dev/shm"), _("It cannot be read, or there is none"))
        return
    need = max(2, setup.command.ranks or setup.command.cards or 1) * _SHM_PER_RANK_BYTES
    figures = {"total_bytes": total, "free_bytes": free}
    room = _("/dev/shm: {free} of {total} free").format(free=format_bytes(free), total=format_bytes(total))
    if free >= need:
        yield Finding(check, Level.FINE, room, figures=figures)
        return
    docker = _(" (a container's usual 64 MiB)") if total == _DOCKER_SHM_BYTES else ""
    why = _(
        "Workers of a data loader hand batches over there, NCCL its buffers: full, it ends a process with Bus error"
    )
    do = _("Start the container with more, or empty it") if total < need else _("Remove what old runs left in it")
    lines = ("docker run --shm-size 16g …",) if total < need else ("ls -l /dev/shm",)
    yield Finding(check, Level.WARN, f"{room}{docker}", why, do, lines, figures)


def _shm_of_container(setup: Setup) -> Finding:
    options, check = setup.command.options, "host.shm"
    if options.get("shm-size") is not None:
        return Finding(check, Level.FINE, _("/dev/shm of the container: {value}").format(value=options["shm-size"]))
    if options.get("ipc") == "host":
        return Finding(check, Level.FINE, _("The container uses this machine's /dev/shm (--ipc host)"))
    why = _(
        "Workers of a data loader hand batches over there, NCCL its buffers: full, it ends a process with Bus error"
    )
    return Finding(
        check,
        Level.WARN,
        _("The container gets a /dev/shm of 64 MiB, Docker's default"),
        why,
        _("Ask for more"),
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
            more = _(" The driver reserves addresses for all memory of the cards and the host.") if on_card else ""
            why = _("A process that maps more is refused: MemoryError, or CUDA does not start.{more}").format(more=more)
            yield Finding(
                "host.ulimit",
                Level.WARN,
                _("ulimit {flag} allows {limit} of {name}").format(
                    flag=flag, limit=format_bytes(limit), name=_(KINDS[name])
                ),
                why,
                _("Lift the limit in this shell"),
                (f"ulimit {flag} unlimited",),
                {"limit_bytes": limit},
            )
    for name, few, flag, error in (
        (
            "open files",
            _FEW_FILES,
            "-n",
            _("Too many open files: a data loader's workers hand over each tensor as a file"),
        ),
        ("processes", _FEW_PROCESSES, "-u", _("Resource temporarily unavailable: threads count as well")),
    ):
        limit = soft.get(name)
        if name in soft and limit is not None and limit < few:
            yield Finding(
                "host.ulimit",
                Level.WARN,
                _("ulimit {flag} allows {limit} {name}").format(flag=flag, limit=f"{limit:,}", name=_(KINDS[name])),
                error,
                _("Raise it in this shell"),
                (f"ulimit {flag} 65536",),
                {"limit": limit},
            )
    yield from _locked(setup)
    missing = [name for name in ("address space", "locked memory", "open files", "processes") if name not in soft]
    if missing:
        yield Finding(
            "host.ulimit",
            Level.UNSEEN,
            _("Limits on {missing}").format(missing=_(", ").join(_(KINDS[name]) for name in missing)),
            _("They cannot be read"),
        )
    elif all(soft[name] is None for name in ("address space", "data") if name in soft):
        files = soft["open files"]
        told = _("no limit") if files is None else f"{files:,}"
        yield Finding(
            "host.ulimit",
            Level.FINE,
            _("ulimit: address space and data unlimited, {told} open files").format(told=told),
        )


def _locked(setup: Setup) -> Iterable[Finding]:
    limit = setup.limits.soft.get("locked memory")
    if limit is None:
        return
    options = setup.command.options
    remote = (setup.root / "sys/class/infiniband").is_dir() and (setup.command.cards or 1) > 1
    wanted = "mlock" in options or remote
    if not wanted:
        return
    what = _("--mlock keeps the model from being paged out") if "mlock" in options else _("InfiniBand pins its buffers")
    yield Finding(
        "host.ulimit",
        Level.WARN,
        _("ulimit -l allows {limit} of locked memory").format(limit=format_bytes(limit)),
        _("{what}; more is refused").format(what=what),
        _("Lift the limit in this shell, or start the container with it"),
        ("ulimit -l unlimited", "docker run --ulimit memlock=-1 …"),
        {"limit_bytes": limit},
    )


def check_memory(setup: Setup, checkpoint: Checkpoint | None) -> Iterable[Finding]:
    """Free host memory, by whichever limit comes first, against the files of the model."""
    limits = setup.limits
    free = limits.free_bytes
    if free is None:
        yield Finding("host.memory", Level.UNSEEN, _("How much host memory is free"), _why_unknown(setup))
    else:
        yield _room(setup, checkpoint, free)
    if limits.host.cgroup_path is None:
        yield Finding(
            "host.cgroup", Level.UNSEEN, _("A memory limit of the control group"), _("Its files are not visible here")
        )
    yield from _overcommit(setup, checkpoint)
    yield _swap(setup)


def _why_unknown(setup: Setup) -> str:
    limits = setup.limits
    if limits.now.available_bytes is not None:
        return _("A control group limits it to {limit}, and its files do not tell what of that is in use").format(
            limit=format_bytes(limits.host.cgroup_limit_bytes or 0)
        )
    readable = limits.now.total_bytes is not None
    return _("/proc/meminfo does not tell") if readable else _("/proc/meminfo cannot be read")


def _swap(setup: Setup) -> Finding:
    check, swap, unused = "host.swap", setup.limits.host.swap_total_bytes, setup.limits.now.swap_free_bytes
    if swap is None:
        return Finding(check, Level.UNSEEN, _("How much swap there is"), _("/proc/meminfo does not tell"))
    if not swap:
        return Finding(check, Level.FINE, _("Swap: none; what does not fit is killed"))
    if unused is None:
        return Finding(check, Level.UNSEEN, _("How much swap is free"), _("/proc/meminfo does not tell"))
    left = _("{free} of {total} free").format(free=format_bytes(unused), total=format_bytes(swap))
    return Finding(check, Level.FINE, _("Swap: {left}").format(left=left))


def _room(setup: Setup, checkpoint: Checkpoint | None, free: int) -> Finding:
    """What is free, and whether that is enough."""
    limits = setup.limits
    group, available = limits.cgroup_free_bytes, limits.now.available_bytes
    by_group = group is not None and available is not None and group < available
    limit = limits.host.cgroup_limit_bytes
    where = (
        _("below the limit of this control group ({limit})").format(limit=format_bytes(limit))
        if by_group and limit
        else _("on this machine")
    )
    room = _("Host memory: {free} free {where}").format(free=format_bytes(free), where=where)
    figures: dict[str, int | float | str | None] = {"free_bytes": free, "cgroup_limit_bytes": limit}
    whole = limit if by_group and limit else limits.now.total_bytes
    if checkpoint is None:
        low = whole is not None and free < _TIGHT * whole
        return Finding(
            "host.memory",
            Level.WARN if low else Level.FINE,
            room,
            _("Less than a tenth is left before anything was started") if low else "",
            figures=figures,
        )
    return _against(setup, checkpoint, free, room, figures)


def _against(
    setup: Setup, checkpoint: Checkpoint, free: int, room: str, figures: dict[str, int | float | str | None]
) -> Finding:
    check = "host.checkpoint"
    ranks = setup.command.ranks or 1
    mapped = checkpoint.mapped and "no-mmap" not in setup.command.options
    each = _(" in each of {ranks} processes").format(ranks=ranks) if ranks > 1 else ""
    figures.update(checkpoint_bytes=checkpoint.bytes, largest_file_bytes=checkpoint.largest_bytes, ranks=ranks)
    size = _("the checkpoint has {size}").format(size=format_bytes(checkpoint.bytes))
    address = setup.limits.soft.get("address space")
    if mapped and address is not None and address < checkpoint.largest_bytes:
        why = _("A file of {largest} is mapped whole, and ulimit -v refuses that").format(
            largest=format_bytes(checkpoint.largest_bytes)
        )
        return Finding(
            check,
            Level.FAIL,
            f"ulimit -v is {format_bytes(address)}, {size}",
            why,
            _("Lift the limit"),
            ("ulimit -v unlimited",),
            figures,
        )
    if mapped:
        if checkpoint.bytes <= free:
            return Finding(check, Level.FINE, _("{room}; {size}").format(room=room, size=size), figures=figures)
        why = _(
            "Its files are mapped, and pages go when room is needed: loading is slow, and fails where they are copied"
        )
        return Finding(
            check,
            Level.WARN,
            _("{room}; {size}").format(room=room, size=size),
            why,
            _("Free host memory, or load straight to the card"),
            figures=figures,
        )
    need = checkpoint.largest_bytes * ranks
    swap = setup.limits.now.swap_free_bytes
    if need > free + (swap or 0):
        said = _("Its largest file ({largest}) is read whole{each}: {need} are asked for")
        if swap is None:
            said = _("Its largest file ({largest}) is read whole{each}: {need} are asked for, and swap is not known")
        why = said.format(largest=format_bytes(checkpoint.largest_bytes), each=each, need=format_bytes(need))
        do = _("Convert it to safetensors, load with mmap=True, or let one process read at a time")
        level = Level.WARN if swap is None else Level.FAIL
        return Finding(check, level, _("{room}; {size}").format(room=room, size=size), why, do, figures=figures)
    if checkpoint.bytes * ranks > free:
        why = _("Read whole{each}, it needs {size}; file by file it may do").format(
            each=each, size=format_bytes(checkpoint.bytes * ranks)
        )
        return Finding(
            check,
            Level.WARN,
            _("{room}; {size}").format(room=room, size=size),
            why,
            _("Load file by file, straight to the card"),
            figures=figures,
        )
    return Finding(
        check,
        Level.FINE,
        (_("{room}; {size}, read{each}") if each else _("{room}; {size}")).format(room=room, size=size, each=each),
        figures=figures,
    )


def _overcommit(setup: Setup, checkpoint: Checkpoint | None) -> Iterable[Finding]:
    limits = setup.limits
    if limits.overcommit != 2:
        return
    total, used = limits.commit_limit_bytes, limits.committed_bytes
    if total is None or used is None:
        yield Finding(
            "host.overcommit", Level.UNSEEN, _("What vm.overcommit_memory=2 leaves"), _("/proc/meminfo does not tell")
        )
        return
    left = max(0, total - used)
    short = checkpoint is not None and not checkpoint.mapped and checkpoint.largest_bytes > left
    yield Finding(
        "host.overcommit",
        Level.FAIL if short else Level.WARN,
        _("vm.overcommit_memory is 2: {left} of {total} may still be promised").format(
            left=format_bytes(left), total=format_bytes(total)
        ),
        _("The kernel refuses what programs reserve and never touch, however much is free (Cannot allocate memory)"),
        _("Let it promise more"),
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
            yield Finding(
                "host.disk", Level.UNSEEN, _("Room in {folder}").format(folder=folder), error.strerror or str(error)
            )
            continue
        free = disk.f_bavail * disk.f_frsize
        short = free < (checkpoint.bytes if checkpoint is not None else GIB)
        why = _("What is moved out of memory goes there; without room the run ends with No space left on device")
        yield Finding(
            "host.disk",
            Level.WARN if short else Level.FINE,
            _("{folder} (--{name}): {free} free").format(folder=folder, name=name, free=format_bytes(free)),
            why if short else "",
            figures={"free_bytes": free},
        )
