"""Processes ended from outside, as shells, launchers, job systems and containers report it."""

from __future__ import annotations

import re
import signal as signals

from ...model.events import EventKind, FieldValue, LogEvent
from ...model.units import KIB
from .family import Build, Family, Line, Pattern
from .prose import mentioned
from .statement import event, integer, size

_KILL = 9
_EXIT_BY_SIGNAL = 128


def _killed(reported_by: str, oom_stated: bool = False, **more: FieldValue) -> Build:
    """A kill; groups `pid`, `program`, `signal`, `name`, `exit` are taken where named. Only signals count as kills."""

    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        if mentioned(line.text, match.start(), match.end()):
            return None
        given = match.groupdict()
        number = _signal(given.get("signal"), given.get("name"))
        code = integer(given.get("exit"))
        if code is not None:
            number = -code if code < 0 else code - _EXIT_BY_SIGNAL if code > _EXIT_BY_SIGNAL else None
            if number is None:
                return None
        program = (given.get("program") or "").strip() or None
        fields: dict[str, FieldValue] = {
            "signal": number,
            "exit_code": code,
            "pid": integer(given.get("pid")),
            "program": program,
            "reported_by": reported_by,
            "oom_stated": oom_stated,
            **more,
        }
        return event(EventKind.PROCESS_KILLED, line, **fields)

    return build


def _launcher_ends_others(match: re.Match[str], line: Line) -> LogEvent | None:
    """DeepSpeed's launcher ends the rest when one child ended, and says with what status after that.

    Where that line is not there and no child printed an error, the child may have been killed.
    """
    if mentioned(line.text, match.start(), match.end()) or any("Killing subprocess" in t for t in line.preceding(8)):
        return None
    if any("return code" in text for text in line.following(40)) or any(map(_ERROR.search, line.preceding(60))):
        return None
    return event(EventKind.PROCESS_KILLED, line, reported_by="deepspeed", guess_only=True)


_ERROR = re.compile(r"Traceback|(?:Error|Exception)\b|(?i:\berror:)|core dumped|KeyboardInterrupt")


def _signal(number: str | None, name: str | None) -> int | None:
    if number is not None:
        return int(number)
    if name is None:
        return None
    try:
        return int(signals.Signals[name])
    except KeyError:
        return None


def _docker_state(match: re.Match[str], line: Line) -> LogEvent | None:
    """`"OOMKilled": true` of docker inspect; false is news only for a container that was killed."""
    stated = match["value"] == "true"
    around = "\n".join([*line.preceding(10), line.text, *line.following(10)])
    code = re.search(r'"ExitCode": (\d{1,3})', around)
    if not stated and (code is None or code[1] != "137"):
        return None
    exit_code = int(code[1]) if code else None
    return event(
        EventKind.PROCESS_KILLED,
        line,
        signal=_KILL if exit_code == _EXIT_BY_SIGNAL + _KILL else None,
        exit_code=exit_code,
        reported_by="docker",
        oom_stated=stated,
    )


def _slurm_count(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.MEMORY_LIMIT_HIT, line, system="slurm", count=int(match[1]))


def _limit(system: str, unit: int = KIB) -> Build:
    """Used and allowed in `unit`s, in the groups `used` and `limit`."""

    def build(match: re.Match[str], line: Line) -> LogEvent:
        given = match.groupdict()
        used, limit = integer(given.get("used")), integer(given.get("limit"))
        return event(
            EventKind.MEMORY_LIMIT_HIT,
            line,
            system=system,
            used_bytes=None if used is None else used * unit,
            limit_bytes=None if limit is None else limit * unit,
        )

    return build


def _evicted(match: re.Match[str], line: Line) -> LogEvent:
    used = re.search(r"was using (\d{1,15}[KMGT]?i?)\b", line.text)
    return event(EventKind.MEMORY_LIMIT_HIT, line, system="kubernetes", used_bytes=size(used[1]) if used else None)


_shell = _killed("shell", signal=_KILL)
_HOST = r"(?:[\w.-]{0,60}[0-9]: )?"
"""What pdsh, `srun --label` and launchers of many machines put before a line: a number or a machine's name."""

FAMILY = Family(
    "kills",
    (
        # --- shells
        Pattern("Killed", rf"^\s*{_HOST}[*`]{{0,3}}Killed(?:: 9)?[*`]{{0,3}}\s*$", _shell),
        Pattern("killed", r"^killed\s*$", _shell),
        Pattern(
            "KernelRestarter: restarting kernel",
            r"KernelRestarter: restarting kernel \(\d{1,3}/\d{1,3}\)",
            _killed("jupyter", guess_only=True),
        ),
        Pattern("已杀死", r"^\s*[*`]{0,3}已杀死[*`]{0,3}\s*$", _shell),
        Pattern(
            "已杀死",
            r"(?:：行 ?|\bline )\d{1,7}: {1,3}(?P<pid>\d{1,10}) 已杀死 {1,40}(?P<program>.{0,300})$",
            _shell,
        ),
        Pattern("]Killed", r"(?:it/s|s/it|[kMG]?B/s)[^\[\]]{0,80}\] {0,4}Killed\s*$", _shell),
        Pattern(
            "Killed",
            r"\bline \d{1,7}: {1,3}(?P<pid>\d{1,10}) Killed(?:: 9)? {1,40}(?P<program>.{0,300})$",
            _shell,
        ),
        Pattern(
            "illed",
            r"^\[\d{1,4}\][ +-]{1,6}(?P<pid>\d{1,10}) {1,3}[Kk]illed {1,40}(?P<program>.{0,300})$",
            _shell,
            led_by=r"[0-9] {1,3}[Kk]",
        ),
        Pattern("zsh: killed", r"^zsh: killed {1,20}(?P<program>.{0,300})$", _shell),
        Pattern(
            "Bus error",
            r"(?:^|\d:? )Bus error(?: {1,4}\(core dumped\)| {2,40}(?P<program>\S.{0,300})|\s*$)",
            _killed("shell", signal=int(signals.SIGBUS)),
        ),
        # --- launchers
        Pattern(
            "failed (exitcode",
            r"failed \(exitcode: (?P<exit>-?\d{1,5})\)(?: local_rank: \d{1,6} \(pid: (?P<pid>\d{1,10})\)"
            r"(?: of (?:binary|fn): (?P<program>\S{1,300}))?)?",
            _killed("elastic"),
        ),
        Pattern(
            "Signal ",
            r"\bSignal (?P<signal>\d{1,2}) \(SIG[A-Z]{2,8}\)(?: received by PID (?P<pid>\d{1,10}))?",
            _killed("elastic"),
        ),
        Pattern(
            "with return code",
            r"exits with return code {1,2}= {1,2}(?P<exit>-?\d{1,5})",
            _killed("deepspeed"),
        ),
        Pattern("Killing subprocess", r":sigkill_handler\] Killing subprocess \d", _launcher_ends_others),
        Pattern(
            "terminated with signal",
            r"process \d{1,6} terminated with signal (?P<name>SIG[A-Z]{2,8})",
            _killed("spawn"),
        ),
        Pattern("died with <Signals.", r"died with <Signals\.(?P<name>SIG[A-Z]{2,8}): \d", _killed("subprocess")),
        Pattern(
            "was sent SIGKILL! Perhaps",
            r"Worker \(pid:(?P<pid>\d{1,10})\) was sent (?P<name>SIGKILL)!",
            _killed("gunicorn"),
        ),
        Pattern(
            "exited on signal",
            r"(?:PID (?P<pid>\d{1,10}) on node \S{1,200} )?exited on signal (?P<signal>\d{1,2})\b",
            _killed("mpirun"),
        ),
        Pattern(
            "is killed by signal: ",
            r"DataLoader worker (?:\(pid (?P<pid>\d{1,10})\) )?is killed by signal: Killed",
            _killed("dataloader", signal=_KILL),
        ),
        Pattern(
            "exited unexpectedly",
            r"DataLoader worker \(pid(?:\(s\))? (?P<pid>\d{1,10})(?:, \d{1,10}){0,64}\) exited unexpectedly",
            _killed("dataloader"),
        ),
        Pattern(
            "killed by SIGKILL by OOM killer",
            r"The process is killed by SIGKILL by OOM killer due to high memory usage",
            _killed("ray", guess_only=True),
        ),
        Pattern(
            "node running low on memory",
            r"(?:Task|Actor|[Ww]orker)(?:s|\(s\))? (?:was|were) killed due to the node running low on memory",
            _killed("ray", oom_stated=True),
        ),
        Pattern(
            "excessive memory usage",
            r"excessive memory usage causing the Operating System to kill the worker",
            _killed("joblib", guess_only=True),
        ),
        Pattern(
            "after using all available RAM",
            r"[Ss]ession crashed after using all available RAM",
            _killed("notebook", oom_stated=True),
        ),
        # --- systemd
        Pattern(
            "killed by the OOM killer",
            r"process of this unit has been killed by the OOM killer",
            _killed("systemd", oom_stated=True),
        ),
        Pattern(
            "result 'oom-kill'",
            r"(?P<program>\S{1,200}): Failed with result 'oom-kill'",
            _killed("systemd", oom_stated=True),
        ),
        Pattern(
            "code=killed",
            r"[Mm]ain process exited, code=killed, (?:status|signal)=(?P<signal>\d{1,2})/",
            _killed("systemd"),
        ),
        # --- killers that watch the machine and act before the kernel does
        Pattern(
            "Killed /",
            r"\bKilled (?P<program>/\S{0,200}\.(?:slice|scope|service)\S{0,200})(?: due to memory |\s*$)",
            _killed("systemd-oomd", oom_stated=True),
        ),
        Pattern(
            "oomd attempting to kill ",
            r"\boomd attempting to kill (?P<pid>\d{1,10}) with KILL",
            _killed("systemd-oomd", oom_stated=True, signal=_KILL),
        ),
        Pattern(
            "systemd-oomd killed ",
            r"(?P<program>\S{1,200}): systemd-oomd killed \d{1,9} process\(es\) in this unit",
            _killed("systemd-oomd", oom_stated=True),
        ),
        Pattern(
            " to process ",
            r"sending SIG(?:TERM|KILL) to process (?P<pid>\d{1,10})(?: uid \d{1,10})?"
            r" \"(?P<program>[^\"]{1,64})\": badness",
            _killed("earlyoom", oom_stated=True),
            led_by="sending SIG(?:TERM|KILL)",
        ),
        # --- containers
        Pattern("OOMKilled", r'"OOMKilled": ?(?P<value>true|false)', _docker_state),
        Pattern(
            "OOMKilled",
            r'(?<!")\bOOMKilled\b(?!"| (?!(?:with|at|on|after|by|in)\b)[a-z])',
            _killed("kubernetes", oom_stated=True),
        ),
        Pattern(
            "OOMKilled",
            r'(?i)"reason\\?": ?\\?"OOMKilled\b',
            _killed("kubernetes", oom_stated=True),
        ),
        Pattern(
            "137",
            r"(?i)(?:exit(?:ed)?(?: with)?(?: code| status)|exit_?code)\"?[:= ]{1,12}\(?(?P<exit>137)\b",
            _killed("container"),
            led_by=r'(?i:code|status)"?[:= ]{1,12}\(?',
        ),
        Pattern(
            "failed liveness probe, will be restarted",
            r"\bContainer (?P<program>\S{1,200}) failed liveness probe, will be restarted",
            _killed("kubelet", cause="probe"),
        ),
        Pattern(
            "failed startup probe, will be restarted",
            r"\bContainer (?P<program>\S{1,200}) failed startup probe, will be restarted",
            _killed("kubelet", cause="probe"),
        ),
        Pattern("was low on resource: memory", r"node was low on resource: memory", _evicted),
        # --- job systems
        Pattern(
            "oom",
            r"Detected (\d{1,9}) oom[-_]kill event",
            _slurm_count,
            led_by=r"Detected [0-9]{1,9} ",
        ),
        Pattern(
            ": Out Of Memory",
            r"srun: error: \S{1,200}: tasks? [\d,-]{1,200}: Out Of Memory",
            _killed("slurm", oom_stated=True),
        ),
        Pattern(
            "exceeded memory limit",
            r"(?:Job|Step) \S{1,60} exceeded memory limit(?: \((?P<used>\d{1,15}) > (?P<limit>\d{1,15})\))?",
            _limit("slurm"),
        ),
        Pattern("Exceeded job memory limit", r"Exceeded job memory limit", _limit("slurm")),
        Pattern("TERM_MEMLIMIT", r"TERM_MEMLIMIT", _limit("lsf")),
        Pattern(
            "PBS: job killed",
            r"PBS: job killed: v?mem (?P<used>\d{1,15})kb exceeded limit (?P<limit>\d{1,15})kb",
            _limit("pbs"),
        ),
    ),
)
