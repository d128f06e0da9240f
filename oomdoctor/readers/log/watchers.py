"""What ends processes before, or beside, the kernel's killer: systemd, systemd-oomd, earlyoom, nohang, macOS."""

from __future__ import annotations

import re
from dataclasses import replace

from ...model.events import EventKind, FieldValue, LogEvent
from ...model.units import KIB, MIB
from .family import Build, Family, Line, Pattern
from .killed import killed
from .prose import mentioned
from .statement import event, event_of, integer, size

_NOHANG_REPORT = 60
"""Lines that nohang prints of a victim, its list of candidates included."""


def _unit(match: re.Match[str], line: Line) -> LogEvent:
    """`systemctl status` of a unit that ran out: its name stands above, its limit and peak beside its memory."""
    around = [*line.preceding(6), *line.following(20)]
    name = next((found[1] for text in around if (found := _UNIT_NAME.match(text))), None)
    text = "\n".join(around)
    limit = re.search(r"\bmax: (\d{1,9}(?:\.\d)?[KMGT])\b", text)
    peak = re.search(r"\b[Pp]eak: (\d{1,9}(?:\.\d)?[KMGT])\b", text)
    return event(
        EventKind.PROCESS_KILLED,
        line,
        reported_by="systemd",
        oom_stated=True,
        program=name,
        limit_bytes=size(limit[1]) if limit else None,
        peak_bytes=size(peak[1]) if peak else None,
    )


_UNIT_NAME = re.compile(r"^\s*[●×○↻*] (\S{1,200}\.(?:service|scope|slice))\b")


def _oomd(match: re.Match[str], line: Line) -> LogEvent | None:
    """With the pressure, or the memory and swap in use, that systemd-oomd names as its reason."""
    if mentioned(line.text, match.start(), match.end()):
        return None
    pressure = re.search(r"due to memory pressure for \S{1,400} being (\d{1,3}(?:\.\d{1,4})?)%", line.text)
    used = re.search(r"due to memory used \((\d{1,18})\) / total \((\d{1,18})\)", line.text)
    return event(
        EventKind.PROCESS_KILLED,
        line,
        reported_by="systemd-oomd",
        oom_stated=True,
        program=match["program"],
        pressure=float(pressure[1]) / 100 if pressure else None,
        used_bytes=int(used[1]) if used else None,
        total_bytes=int(used[2]) if used else None,
    )


def _earlyoom(match: re.Match[str], line: Line) -> LogEvent | None:
    """A victim with what it held; the line before says how much of the machine's memory was left."""
    if mentioned(line.text, match.start(), match.end()):
        return None
    rss = re.search(r"\bVmRSS:? (\d{1,12}) MiB", line.text)
    left = next((found for text in line.preceding(3)[::-1] if (found := _EARLYOOM_LEFT.search(text))), None)
    made = event(
        EventKind.PROCESS_KILLED,
        line,
        reported_by="earlyoom",
        oom_stated=True,
        pid=int(match["pid"]),
        program=match["program"],
        rss_bytes=int(rss[1]) * MIB if rss else None,
        available_bytes=int(left[1]) * MIB if left else None,
        total_bytes=int(left[2]) * MIB if left else None,
    )
    return replace(made, pid=int(match["pid"]))


_EARLYOOM_LEFT = re.compile(r"\bmem avail: {1,12}(\d{1,12}) of {1,12}(\d{1,12}) MiB")


def _nohang(match: re.Match[str], line: Line) -> LogEvent:
    """The last line of a report whose victim, and what was left of the machine's memory, stand above."""
    fields: dict[str, FieldValue] = {"reported_by": "nohang", "oom_stated": True}
    for text in line.preceding(_NOHANG_REPORT)[::-1]:
        if _NOHANG_BEGINS.search(text) or "to the victim; total response time" in text:
            break
        if found := re.search(r"\bPID: (\d{1,10}), [Nn]ame: (\S{1,64}?), badness\b", text):
            fields.setdefault("pid", int(found[1]))
            fields.setdefault("program", found[2])
        if found := re.search(r"\bVmRSS: {1,12}(\d{1,12}) (M|K)iB", text):
            fields.setdefault("rss_bytes", int(found[1]) * (MIB if found[2] == "M" else KIB))
        if found := re.search(r"\bMemAvailable \[(\d{1,12}) MiB", text):
            fields.setdefault("available_bytes", int(found[1]) * MIB)
    made = event_of(EventKind.PROCESS_KILLED, line, fields)
    return replace(made, pid=made.size("pid"))


_NOHANG_BEGINS = re.compile(r"STARTING implement_corrective_action|^>{20,}\s*$")


def _memorystatus(match: re.Match[str], line: Line) -> LogEvent | None:
    """The kernel of macOS ends what uses most when pages run short; what was idle it ends as a matter of course."""
    given = match.groupdict()
    if re.search(r"\(\S{0,20}idle-exit\b", line.text):
        return None
    bounded = re.search(r"\((?:per-process-limit|highwater)\b", line.text)
    held = re.search(r"\] (?:\([^()]{0,120}\) )?(\d{1,15}) ?(KB|MB)\b", line.text)
    pid = integer(given["pid"])
    made = event(
        EventKind.KERNEL_OOM,
        line,
        constraint=None if bounded else "global",
        program=given["program"],
        pid=pid,
        resident_bytes=int(held[1]) * (KIB if held[2] == "KB" else MIB) if held else None,
        platform="macos",
    )
    return made if pid is None else replace(made, pid=pid)


_systemd: Build = killed("systemd", oom_stated=True)

FAMILY = Family(
    "watchers of memory",
    (
        # --- systemd
        Pattern("killed by the OOM killer", r"process of this unit has been killed by the OOM killer", _systemd),
        Pattern(
            "OOM killer killed some processes in this unit",
            r"(?:(?P<program>\S{1,200}): )?The kernel OOM killer killed some processes in this unit",
            _systemd,
        ),
        Pattern("result 'oom-kill'", r"(?P<program>\S{1,200}): Failed with result 'oom-kill'", _systemd),
        Pattern("(Result: oom-kill)", r"^\s*Active: failed \(Result: oom-kill\)", _unit),
        Pattern(
            "code=killed",
            r"[Mm]ain process exited, code=killed, (?:status|signal)=(?P<signal>\d{1,2})/",
            killed("systemd"),
        ),
        # --- killers that watch the machine and act before the kernel does
        Pattern(
            "Killed /",
            r"\bKilled (?P<program>/\S{0,200}\.(?:slice|scope|service)\S{0,200})(?: due to memory |\s*$)",
            _oomd,
        ),
        Pattern(" for killing due to memory ", r"\bMarked (?P<program>/\S{1,400}) for killing due to memory ", _oomd),
        Pattern(
            "oomd attempting to kill ",
            r"\boomd attempting to kill (?P<pid>\d{1,10}) with KILL",
            killed("systemd-oomd", oom_stated=True, signal=9),
        ),
        Pattern(
            "systemd-oomd killed ",
            r"(?P<program>\S{1,200}): systemd-oomd killed \d{1,9} process\(es\) in this unit",
            killed("systemd-oomd", oom_stated=True),
        ),
        Pattern(
            " to process ",
            r"sending SIG(?:TERM|KILL) to process (?P<pid>\d{1,10})(?: uid \d{1,10})?"
            r" \"(?P<program>[^\"]{1,64})\": (?:badness|oom_score) ",
            _earlyoom,
            led_by="sending SIG(?:TERM|KILL)",
        ),
        Pattern(
            "illing process ",
            r"\bkilling process (?P<pid>\d{1,10}) \"(?P<program>[^\"]{1,64})\" with signal \d{1,2}: badness ",
            _earlyoom,
        ),
        Pattern(
            "illing process ",
            r"\bKilling process '(?P<program>[^']{1,64})' with signal \d{1,2}, pid: (?P<pid>\d{1,10}), badness: ",
            _earlyoom,
        ),
        Pattern(
            " to the victim; total response time",
            r"\bSend SIG(?:TERM|KILL) to the victim; total response time",
            _nohang,
        ),
        # --- macOS
        Pattern(
            "memorystatus: killing_",
            r"\bmemorystatus: killing_(?!idle)\w{1,40} pid (?P<pid>\d{1,10}) \[(?P<program>[^\]]{1,64})\]",
            _memorystatus,
        ),
        Pattern(
            "killing largest compressed process",
            r"\bmemorystatus: killing largest compressed process (?P<program>\S{1,64}) \[(?P<pid>\d{1,10})\]",
            _memorystatus,
        ),
    ),
)
