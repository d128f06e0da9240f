"""Workers ended from outside, as the program says that started them: pools of web and task servers, runners, make.

Who supervises workers ends them himself as well, at a limit of time, and with the same signal. Where the log says so
just before, the limit of time is what is told.
"""

from __future__ import annotations

import re
import signal as signals

from ...model.events import EventKind, LogEvent
from .family import Build, Family, Line, Pattern
from .killed import killed
from .statement import event, integer

_BEFORE, _AFTER = 30, 4
_TIMED_OUT = re.compile(
    r"\bWORKER TIMEOUT\b|\*\*\* HARAKIRI ON |\bHard time limit \(|\bTimeLimitExceeded\(|\bJobTimeoutException\b"
    r"|\bexceeded maximum timeout value|\bKilled horse pid\b|\bkilling '[^']{1,80}' \(\d{1,10}\) with SIGKILL"
    r"|\bexecution timed out \("
)
_PID = re.compile(r"\(?\bpid:? ?(\d{1,10})\b")


def _lost(reported_by: str, most_lines_after: int = 0) -> Build:
    """A worker that was killed; the end of its time, where the supervisor says that it was that."""
    told = killed(reported_by)

    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        made = told(match, line)
        if not isinstance(made, LogEvent):
            return None
        pid = integer(match.groupdict().get("pid"))
        around = [*line.preceding(_BEFORE), *line.following(most_lines_after)]
        if any(_ended_its_time(text, pid) for text in around):
            return event(EventKind.ENDED, line, how="time-limit", reported_by=reported_by)
        return made

    return build


def _ended_its_time(text: str, pid: int | None) -> bool:
    """Whether a line says that the time of a worker was over: of this one, where both have a number."""
    found = _TIMED_OUT.search(text)
    if found is None:
        return False
    named = _PID.search(text, found.start())
    return named is None or pid is None or int(named[1]) == pid


FAMILY = Family(
    "supervisors of workers",
    (
        # --- web servers
        Pattern(
            "was sent SIGKILL! Perhaps",
            r"Worker \(pid:(?P<pid>\d{1,10})\) was sent (?P<name>SIGKILL)!",
            _lost("gunicorn"),
        ),
        Pattern(
            "was terminated due to signal",
            r"Worker with pid (?P<pid>\d{1,10}) was terminated due to signal (?P<signal>9)\b",
            _lost("gunicorn"),
        ),
        Pattern(
            "died, killed by signal",
            r"DAMN ! \w{1,20} \d{1,6} \(pid: (?P<pid>\d{1,10})\) died, killed by signal (?P<signal>9)\b",
            _lost("uwsgi"),
        ),
        Pattern(
            "exited on signal 9",
            r"\[pool [^\]]{1,80}\] child (?P<pid>\d{1,10}) exited on signal (?P<signal>9)\b",
            _lost("php-fpm"),
        ),
        Pattern(
            "exit signal Killed",
            r"child pid (?P<pid>\d{1,10}) exit signal Killed \((?P<signal>9)\)",
            _lost("apache"),
        ),
        # --- queues of tasks
        Pattern(
            "exited with 'signal 9",
            r"Process '[^']{1,80}' pid:(?P<pid>\d{1,10}) exited with 'signal (?P<signal>9) \(SIGKILL\)'",
            _lost("celery", _AFTER),
        ),
        Pattern(
            "exited prematurely: signal 9",
            r"Worker exited prematurely: signal (?P<signal>9) \(SIGKILL\)",
            _lost("celery", _AFTER),
        ),
        Pattern(
            "waitpid returned 9",
            r"\b[Ww]ork-horse (?:process )?(?:was )?terminated unexpectedly[;,]? ?\(?waitpid returned (?P<signal>9)\b",
            _lost("rq", _AFTER),
        ),
        Pattern(
            "died unexpectedly (code -9)",
            r"\b[Ww]orker process (?:\S{1,20} )?died unexpectedly \(code (?P<exit>-9)\)",
            _lost("dramatiq"),
        ),
        # --- supervisors, runners and builds
        Pattern(
            "(terminated by SIGKILL; not expected)",
            r"(?:\bexited: |^)(?P<program>[^()]{1,100}) \(terminated by (?P<name>SIGKILL); not expected\)",
            _lost("supervisord"),
        ),
        Pattern(
            "exited with code -9",
            r"\b[Cc]hild (?:process )?(?:(?P<pid>\d{1,10}) )?exited with code (?P<exit>-9)\b",
            _lost("launcher"),
        ),
        Pattern(
            "returned non-zero exit status -9",
            r"CalledProcessError: Command .{1,2000} returned non-zero exit status (?P<exit>-9)\.",
            _lost("subprocess"),
        ),
        Pattern(
            "] Killed",
            r"^g?make(?:\[\d{1,3}\])?: \*\*\* \[[^\]]{1,300}\] Killed(?:: 9)?\s*$",
            killed("make", signal=int(signals.SIGKILL)),
        ),
        Pattern(
            "] Error 137",
            r"^g?make(?:\[\d{1,3}\])?: \*\*\* \[[^\]]{1,300}\] Error (?P<exit>137)\s*$",
            killed("make"),
        ),
        Pattern("errno 137", r"^npm (?:ERR!|error) errno (?P<exit>137)\s*$", killed("npm")),
        Pattern("returned a non-zero code: 137", r"returned a non-zero code: (?P<exit>137)\b", killed("docker")),
    ),
)
