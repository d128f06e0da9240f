"""The kernel's out-of-memory killer, machine-wide and in a memory cgroup: blocks of many lines, one event a victim.

Also what the kernel's driver of AMD devices says at boot about the memory it manages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ...model.events import EventKind, FieldValue, LogEvent
from ...model.units import KIB, MIB
from .family import Family, Line, Pattern
from .statement import event

_BLOCK = 250
"""Lines of one report: registers, memory statistics and the task table of a busy machine."""

_VICTIM = re.compile(r"\bKill(?:ed)? process (?P<pid>\d{1,10})(?:,? \((?P<program>[^)]{1,64})\))?")
_SIZES = {
    "total_vm_bytes": re.compile(r"total-vm:(\d{1,15})kB"),
    "anon_rss_bytes": re.compile(r"anon-rss:(\d{1,15})kB"),
    "shmem_rss_bytes": re.compile(r"shmem-rss:(\d{1,15})kB"),
}
_SCORE = re.compile(r"oom_score_adj[:=](-?\d{1,5})")
_USAGE = re.compile(r"^memory: usage (\d{1,15})kB, limit (\d{1,15})kB", re.MULTILINE)
_WITH_SWAP = re.compile(r"^memory\+swap: usage (\d{1,15})kB, limit (\d{1,15})kB", re.MULTILINE)
_STATISTIC = re.compile(r"^(anon|file|shmem|kernel|sock) (\d{1,19})$", re.MULTILINE)
"""Of version 2; these four, shmem aside, are the usage."""
_STATISTIC_1 = re.compile(
    r"\bcache:(?P<file>\d{1,15})KB rss:(?P<anon>\d{1,15})KB(?:.{0,80}? shmem:(?P<shmem>\d{1,15})KB)?"
)
_KERNEL_1 = re.compile(r"^kmem: usage (\d{1,15})kB", re.MULTILINE)
_CGROUP = re.compile(r"oom_memcg=([^,\s]{1,400})|as a result of limit of (\S{1,400})")
_MEMCG = re.compile(r"Memory cgroup out of memory|CONSTRAINT_MEMCG|mem_cgroup_out_of_memory|as a result of limit of")
_GLOBAL = re.compile(r"(?<!cgroup )[Oo]ut of memory(?: \(oom_kill_allocating_task\))?: Kill|CONSTRAINT_NONE")
_AT_LIMIT = 0.99
_PAGE_ALLOCATOR = re.compile(r"\b__alloc_pages_(?:may_oom|slowpath)\b")
"""In the call trace of a kill: the allocator of pages found none, which it asks the machine for, not a cgroup."""
_MOVABLE = re.compile(r"gfp_mask=0x[0-9a-f]{1,8}\([^)]{0,200}\bGFP_HIGHUSER")
"""A page for a user's memory was asked for; a cgroup is charged with GFP_KERNEL."""


def _is_report(text: str) -> bool:
    return "Killed process" in text or "invoked oom-killer" in text


def _begins_or_ends_report(text: str) -> bool:
    return "invoked oom-killer" in text or "illed process" in text or _VICTIM.search(text) is not None


def _up_to(is_last: Callable[[str], bool], look: Callable[[int], list[str]], most: int = _BLOCK) -> list[str]:
    """The next lines that `look` gives, up to the first that `is_last`, or `most`.

    Few are asked for first: of thousands of reports one after the other, each would ask for those of its neighbours.
    """
    count = 4
    while True:
        lines = look(min(count, most))
        found = next((place for place, text in enumerate(lines) if is_last(text)), None)
        if found is not None:
            return lines[: found + 1]
        if len(lines) < count or count >= most:
            return lines
        count *= 4


def _killed(match: re.Match[str], line: Line) -> LogEvent | None:
    """A victim, with what the block before its line says about the limit."""
    if match[0].startswith("Kill ") and any("Killed process" in text for text in line.following(4)):
        return None  # announced; the line that tells its sizes follows
    victim = _VICTIM.search(line.text)
    if victim is None or not re.search(r"total-vm|[Oo]ut of memory", line.text):
        return None
    before = _up_to(_is_report, lambda count: line.preceding(count)[::-1])
    block = [line.text, *(text for text in before if "Killed process" not in text)]
    text = "\n".join(block)
    cgroup = _CGROUP.search(text)
    score = _SCORE.search(line.text)
    sizes = {name: int(found[1]) * KIB for name, regex in _SIZES.items() if (found := regex.search(line.text))}
    program = victim["program"] or _program_of(victim["pid"], text)
    kill = event(
        EventKind.KERNEL_OOM,
        line,
        constraint="memcg" if _MEMCG.search(text) else "global" if _GLOBAL.search(text) else None,
        pid=int(victim["pid"]),
        program=program,
        oom_score_adj=int(score[1]) if score else None,
        cgroup=(cgroup[1] or cgroup[2]) if cgroup else None,
        **_limit_of(stripped := "\n".join(one.strip() for one in block)),
        **_statistics(stripped),
        **sizes,
    )
    return replace(kill, pid=int(victim["pid"]))


def _program_of(pid: str, text: str) -> str | None:
    found = re.search(rf"task=([^,]{{1,64}}),pid={pid},", text)
    return found[1] if found else None


def _reaped(match: re.Match[str], line: Line) -> LogEvent | None:
    """What is left of a kill where the lines before the reaper's are not there."""
    if any(map(_is_report, _up_to(_is_report, lambda count: line.preceding(count)[::-1]))):
        return None
    made = event(EventKind.KERNEL_OOM, line, pid=int(match[1]), program=match[2])
    return replace(made, pid=int(match[1]))


def _invoked(match: re.Match[str], line: Line) -> LogEvent | None:
    """The beginning of a block whose end, with the victim, is not there: another begins before one is named."""
    block = _up_to(_begins_or_ends_report, line.following)
    after = "\n".join(block)
    if "Killed process" in after or _VICTIM.search(after):
        return None
    if block and "invoked oom-killer" in block[-1]:
        after = "\n".join(block[:-1])
    constraint = "memcg" if _MEMCG.search(after) else "global" if _is_global(f"{line.text}\n{after}") else None
    return event(EventKind.KERNEL_OOM, line, constraint=constraint, **_limit_of(after))


def _limit_of(block: str) -> dict[str, FieldValue]:
    """The limit of the cgroup that a report is about. Where memory stayed below its own, the one with swap was hit."""
    usage, both = _USAGE.search(block), _WITH_SWAP.search(block)
    if both and int(both[1]) >= _AT_LIMIT * int(both[2]) and not (usage and int(usage[1]) >= _AT_LIMIT * int(usage[2])):
        return {"usage_bytes": int(both[1]) * KIB, "limit_bytes": int(both[2]) * KIB, "swap_counts": True}
    return {"usage_bytes": int(usage[1]) * KIB, "limit_bytes": int(usage[2]) * KIB} if usage else {}


def _statistics(block: str) -> dict[str, FieldValue]:
    """What the cgroup is charged with, by kind, where the block holds it."""
    found = {name: int(number) for name, number in _STATISTIC.findall(block)}
    older, kernel = _STATISTIC_1.search(block), _KERNEL_1.search(block)
    if older and not found:
        found = {name: int(number) * KIB for name, number in older.groupdict().items() if number is not None}
        if kernel:
            found["kernel"] = int(kernel[1]) * KIB
    if "anon" not in found:
        return {}
    told: dict[str, FieldValue] = {"anonymous_bytes": found["anon"]}
    for field, name in (("file_bytes", "file"), ("shared_bytes", "shmem")):
        if name in found:
            told[field] = found[name]
    if "kernel" in found:
        told["kernel_bytes"] = found["kernel"] + found.get("sock", 0)
    return told


def _chosen(match: re.Match[str], line: Line) -> LogEvent | None:
    """The line that names the victim and whose memory ran out, alone: beginning and end of its block are not there."""
    before = _up_to(_begins_or_ends_report, lambda count: line.preceding(count)[::-1])
    if any("invoked oom-killer" in text or "illed process" in text for text in [*before, *line.following(4)]):
        return None
    given = match.groupdict()
    kill = event(
        EventKind.KERNEL_OOM,
        line,
        constraint="memcg" if match["constraint"] == "MEMCG" else "global" if match["constraint"] == "NONE" else None,
        pid=int(given["pid"]) if given["pid"] else None,
        program=given["program"],
        cgroup=given["cgroup"],
    )
    return replace(kill, pid=int(given["pid"])) if given["pid"] else kill


def _is_global(block: str) -> bool:
    return "CONSTRAINT_NONE" in block or _PAGE_ALLOCATOR.search(block) is not None or _MOVABLE.search(block) is not None


def _usage_alone(match: re.Match[str], line: Line) -> LogEvent | None:
    """A cgroup's usage at its limit, of a block whose beginning and end are not there."""
    usage, limit = int(match[1]) * KIB, int(match[2]) * KIB
    if usage < _AT_LIMIT * limit:
        return None
    before = _up_to(_begins_or_ends_report, lambda count: line.preceding(count)[::-1], most=60)
    if any(map(_begins_or_ends_report, [*before, *_up_to(_begins_or_ends_report, line.following)])):
        return None
    return event(EventKind.KERNEL_OOM, line, constraint="memcg", usage_bytes=usage, limit_bytes=limit)


def _wsl(match: re.Match[str], line: Line) -> LogEvent:
    """The kernel of WSL 2 names itself."""
    return event(EventKind.HOST_STATE, line, platform="wsl")


def _amdgpu(match: re.Match[str], line: Line) -> LogEvent:
    """VRAM is the device's own, or what the firmware carved out of the host's; GTT is host memory that it may use."""
    name = "device_total_bytes" if match["which"] == "VRAM" else "device_shared_bytes"
    return event(EventKind.HOST_STATE, line, **{name: int(match["mib"]) * MIB})


FAMILY = Family(
    "kernel out-of-memory killer",
    (
        Pattern("Killed process", r"\bKilled process \d", _killed),
        Pattern("Kill process", r"\bKill process \d", _killed),
        Pattern("invoked oom-killer", r"invoked oom-killer", _invoked),
        Pattern(
            "oom_reaper: reaped process ",
            r"oom_reaper: reaped process (\d{1,10}) \(([^)]{1,64})\)",
            _reaped,
        ),
        Pattern(
            "oom-kill:constraint=",
            r"oom-kill:constraint=CONSTRAINT_(?P<constraint>[A-Z_]{1,20})(?:.{0,1000}?oom_memcg=(?P<cgroup>[^,\s]{1,400}))?"
            r"(?:.{0,1000}?,task=(?P<program>[^,]{1,64}),pid=(?P<pid>\d{1,10}))?",
            _chosen,
        ),
        Pattern(
            "memory: usage ",
            r"(?<!\w)memory: usage (\d{1,15})kB, limit (\d{1,15})kB, failcnt [1-9]",
            _usage_alone,
        ),
        Pattern("microsoft-standard", r"\bLinux\b.{0,200}-microsoft-standard\b", _wsl),
        Pattern(
            " memory ready",
            r"\bamdgpu\b.{0,40}: (?P<mib>\d{1,9})M of (?P<which>VRAM|GTT) memory ready",
            _amdgpu,
        ),
    ),
)
