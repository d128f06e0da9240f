"""Memory limits of jobs as Slurm, LSF, PBS and Grid Engine report them: in the job's own log, and afterwards."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...model.events import EventKind, LogEvent
from ...model.units import KIB, MIB
from .family import Build, Family, Line, Pattern
from .killed import limit_hit
from .prose import mentioned
from .statement import SIZE, event, size

_ROWS = 200
"""Steps of one job that sacct lists."""
_OUT_OF_MEMORY = "OUT_OF_ME"
"""A job's state as narrow columns cut it: `OUT_OF_ME+`."""


def _slurm_count(match: re.Match[str], line: Line) -> LogEvent:
    step = re.search(r"\b(?:StepId=|[Ss]tep )([\w.+]{1,60}[\w+])", line.text)
    return event(EventKind.MEMORY_LIMIT_HIT, line, system="slurm", count=int(match[1]), step=step[1] if step else None)


def _srun(match: re.Match[str], line: Line) -> LogEvent:
    return event(
        EventKind.PROCESS_KILLED,
        line,
        reported_by="slurm",
        oom_stated=True,
        node=match["node"],
        tasks=match["tasks"],
    )


def _seff(match: re.Match[str], line: Line) -> LogEvent | None:
    """What `seff` prints of a job that ran out: the most that was sampled, and what was asked for, some lines below."""
    below = "\n".join(line.following(12))
    used = re.search(rf"^(?:# )?Memory Utilized:\s{{1,20}}({SIZE})", below, re.MULTILINE)
    share = re.search(rf"^(?:# )?Memory Efficiency:\s{{1,20}}[\d.]{{1,12}}% of ({SIZE})", below, re.MULTILINE)
    return event(
        EventKind.MEMORY_LIMIT_HIT,
        line,
        system="slurm",
        sampled_bytes=size(used[1]) if used else None,
        limit_bytes=size(share[1]) if share else None,
    )


def _torque(match: re.Match[str], line: Line) -> LogEvent:
    """Torque's letter to the job's owner: what was used stands below, the more telling of memory and address space."""
    below = "\n".join(line.following(16))
    used = [int(kib) * KIB for kib in re.findall(r"^resources_used\.v?mem=(\d{1,15})kb", below, re.MULTILINE)]
    limits = {int(kib) * KIB for kib in re.findall(r"\bmemory\.\d{1,4}=(\d{1,15})kb", below)}
    return event(
        EventKind.MEMORY_LIMIT_HIT,
        line,
        system="pbs",
        used_bytes=max(used, default=None),
        limit_bytes=limits.pop() if len(limits) == 1 else None,
    )


def _grid_engine(match: re.Match[str], line: Line) -> LogEvent:
    """Grid Engine's letter: the most of the address space stands above."""
    above = "\n".join(line.preceding(6))
    most = re.search(rf"^\W{{0,4}}Max vmem\W{{1,20}}({SIZE})", above, re.MULTILINE)
    return event(EventKind.MEMORY_LIMIT_HIT, line, system="grid-engine", used_bytes=size(most[1]) if most else None)


def _sacct(match: re.Match[str], line: Line) -> LogEvent | None:
    """A table of sacct in which a step ran out of memory: the most that was sampled of a task, and what was asked for.

    ReqMem with a `c` at its end is for each CPU, and no limit of the job.
    """
    rows = _rows(line)
    ended = [row for row in rows if row.get("State", "").startswith(_OUT_OF_MEMORY)]
    if not ended:
        return None
    used = [found for row in ended if (found := size(row.get("MaxRSS"))) is not None]
    limits = {found for row in ended if (found := size(row.get("ReqMem", "").removesuffix("n"))) is not None}
    return event(
        EventKind.MEMORY_LIMIT_HIT,
        line,
        system="slurm",
        sampled_bytes=max(used, default=None),
        limit_bytes=limits.pop() if len(limits) == 1 else None,
        step=next((row["JobID"] for row in ended if row.get("JobID", "+")[-1:] != "+"), None),
    )


def _rows(line: Line) -> list[dict[str, str]]:
    """The table below a header: columns as its rule of dashes cuts them, or between bars."""
    following = line.following(_ROWS)
    if "|" in line.text:
        names = line.text.strip().split("|")
        return [dict(zip(names, text.strip().split("|"), strict=False)) for text in following if "|" in text]
    if not following or not re.fullmatch(r"\s*-{2,}(?: -{2,}){1,40}\s*", following[0]):
        return []
    spans = [found.span() for found in re.finditer(r"-{2,}", following[0])]
    names = _cells(line.text, spans)
    body = [text for text in following[1:] if text.strip()]
    return [dict(zip(names, _cells(text, spans), strict=True)) for text in body]


def _cells(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    return [text[first:last].strip() for first, last in spans]


def _lambda(match: re.Match[str], line: Line) -> LogEvent | None:
    """Its report of each call; one that used all of it was ended there."""
    used, limit = int(match["used"]) * MIB, int(match["limit"]) * MIB
    if used < limit:
        return None
    return event(EventKind.MEMORY_LIMIT_HIT, line, system="lambda", used_bytes=used, limit_bytes=limit)


def _sized(system: str) -> Build:
    """Used and allowed with their units, in the groups `used` and `limit` where named."""

    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        if mentioned(line.text, match.start(), match.end()):
            return None
        used, limit = (size(match.groupdict().get(name)) for name in ("used", "limit"))
        return event(EventKind.MEMORY_LIMIT_HIT, line, system=system, used_bytes=used, limit_bytes=limit)

    return build


FAMILY = Family(
    "job systems",
    (
        Pattern(
            "oom",
            r"Detected (\d{1,9}) oom[-_]kill event",
            _slurm_count,
            led_by=r"Detected [0-9]{1,9} ",
        ),
        Pattern(
            ": Out Of Memory",
            r"srun: error: (?P<node>\S{1,200}): tasks? (?P<tasks>[\d,-]{1,200}): Out Of Memory",
            _srun,
        ),
        Pattern(
            "exceeded memory limit",
            r"(?:Job|Step) \S{1,60} exceeded memory limit(?: \((?P<used>\d{1,15}) > (?P<limit>\d{1,15})\))?",
            limit_hit("slurm"),
        ),
        Pattern("Exceeded job memory limit", r"Exceeded job memory limit", limit_hit("slurm")),
        Pattern("OUT_OF_MEMORY", r"^(?:# )?State:\s{1,20}OUT_OF_MEMORY\b", _seff, led_by="State: {1,20}"),
        Pattern("ReqMem", r"^\s*(?:\w{1,30}[ |]{1,40}){0,40}ReqMem\b", _sacct),
        Pattern("TERM_MEMLIMIT", r"TERM_MEMLIMIT", limit_hit("lsf")),
        Pattern(
            "PBS: job killed",
            r"PBS: job killed: p?v?mem (?:job total )?(?P<used>\d{1,15}) ?kb exceeded limit (?P<limit>\d{1,15}) ?kb",
            limit_hit("pbs"),
        ),
        Pattern(
            "PBS: job killed",
            r"PBS: job killed: p?v?mem (?:job total )?(?P<used>\d{1,19})b? exceeded limit (?P<limit>\d{1,19})b?\s*$",
            limit_hit("pbs", unit=1),
        ),
        Pattern(
            "Max Memory Used: ",
            r"\bMemory Size: (?P<limit>\d{1,6}) MB\s{1,4}Max Memory Used: (?P<used>\d{1,6}) MB",
            _lambda,
        ),
        Pattern("Memory quota vastly exceeded", r"\bError R15 \(Memory quota vastly exceeded\)", _sized("heroku")),
        Pattern(
            "Memory limit of ",
            rf"\bMemory limit of (?P<limit>{SIZE}) exceeded with (?P<used>{SIZE}) used",
            _sized("cloud-run"),
        ),
        Pattern(
            "emory limit of ",
            r"\bJob has gone over (?:cgroup )?memory limit of (?P<limit>\d{1,12}) megabytes",
            limit_hit("condor", unit=MIB),
        ),
        Pattern(
            "memory usage exceeded request_memory",
            r"^\s*Error from \S{1,200}: (?:Job )?memory usage exceeded request_memory",
            _sized("condor"),
        ),
        Pattern("Job exceeded a memory resource limit", r"Job exceeded a memory resource limit \(", _torque),
        Pattern(
            "failed execd enforced ",
            r"failed execd enforced [hs]_(?:vmem|rss|data|as) limit because",
            _grid_engine,
        ),
    ),
)
