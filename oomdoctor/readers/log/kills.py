"""Processes ended from outside, as shells and launchers report it."""

from __future__ import annotations

import re
import signal as signals

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .killed import killed
from .prose import mentioned
from .statement import event

_KILL = 9


def _launcher_ends_others(match: re.Match[str], line: Line) -> LogEvent | None:
    """DeepSpeed's launcher ends the rest when one child ended, and says with what status after that.

    Where that line is not there and no child printed an error, the child may have been killed.
    """
    if mentioned(line.text, match.start(), match.end()) or any("Killing subprocess" in t for t in line.preceding(8)):
        return None
    if any("return code" in text for text in line.following(40)) or any(map(_ERROR.search, line.preceding(60))):
        return None
    return event(EventKind.PROCESS_KILLED, line, reported_by="deepspeed", guess_only=True)


def _guessed_by_ray(match: re.Match[str], line: Line) -> LogEvent | None:
    """Ray lists what may have ended a worker, in a sentence that advises as well."""
    if "potential root causes" not in line.text and mentioned(line.text, match.start(), match.end()):
        return None
    return event(EventKind.PROCESS_KILLED, line, reported_by="ray", oom_stated=False, guess_only=True)


_ERROR = re.compile(r"Traceback|(?:Error|Exception)\b|(?i:\berror:)|core dumped|KeyboardInterrupt")


_shell = killed("shell", signal=_KILL)
_KILLED_ELSEWHERE = ("Getötet", "Processus arrêté", "Terminado (killed)", "Ucciso", "Убито", "強制終了")
"""What shells of other languages print for `Killed`."""
_HOST = r"(?:[\w.-]{0,60}[0-9]: )?"
"""What pdsh, `srun --label` and launchers of many machines put before a line: a number or a machine's name."""


def _shut_down(match: re.Match[str], line: Line) -> LogEvent | None:
    """TGI's launcher on its process. A bus error: a page of a mapped file or of shared memory was not there."""
    if int(match["signal"]) == signals.SIGBUS:
        return event(EventKind.SHM_EXHAUSTED, line, signal=int(signals.SIGBUS), reason_unstated=True)
    found = killed("tgi")(match, line)
    return found if isinstance(found, LogEvent) else None


FAMILY = Family(
    "kills",
    (
        # --- shells
        Pattern("Killed", rf"^\s*{_HOST}[*`]{{0,3}}Killed(?:: 9)?[*`]{{0,3}}\s*$", _shell),
        Pattern("killed", r"^killed\s*$", _shell),
        Pattern(
            "KernelRestarter: restarting kernel",
            r"KernelRestarter: restarting kernel \(\d{1,3}/\d{1,3}\)",
            killed("jupyter", guess_only=True),
        ),
        Pattern(
            "ernel crashed while executing code in the",
            r"^\s*The [Kk]ernel crashed while executing code in the (?:the )?current cell or a previous cell",
            killed("jupyter", guess_only=True),
        ),
        Pattern(
            "appears to have died. It will restart automatically",
            r"\b[Kk]ernel (?:for \S{1,200} )?appears to have died\. It will restart automatically",
            killed("jupyter", guess_only=True),
        ),
        Pattern("已杀死", r"^\s*[*`]{0,3}已杀死[*`]{0,3}\s*$", _shell),
        Pattern(
            "已杀死",
            r"(?:：行 ?|\bline )\d{1,7}: {1,3}(?P<pid>\d{1,10}) 已杀死 {1,40}(?P<program>.{0,300})$",
            _shell,
        ),
        *(
            Pattern(
                word,
                rf"^\s*{re.escape(word)}\s*$"
                rf"|: \w{{2,8}} \d{{1,7}} ?: {{1,4}}(?P<pid>\d{{1,10}}) {re.escape(word)} {{1,40}}"
                r"(?P<program>.{0,300})$",
                _shell,
            )
            for word in _KILLED_ELSEWHERE
        ),
        Pattern("Killed", r"\b(?:ETA|loss|acc\w{0,6}): .{1,200}[0-9](?:m?s)?Killed\s*$", _shell, led_by="[0-9s]"),
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
            killed("shell", signal=int(signals.SIGBUS)),
        ),
        # --- launchers
        Pattern(
            "was signaled to shutdown with signal",
            r"\b(?P<program>\w{1,20} process) was signaled to shutdown with signal (?P<signal>\d{1,2})\b",
            _shut_down,
        ),
        Pattern(
            "failed (exitcode",
            r"failed \(exitcode: (?P<exit>-?\d{1,5})\)(?: local_rank: \d{1,6} \(pid: (?P<pid>\d{1,10})\)"
            r"(?: of (?:binary|fn): (?P<program>\S{1,300}))?)?",
            killed("elastic"),
        ),
        Pattern(
            "Signal ",
            r"\bSignal (?P<signal>\d{1,2}) \(SIG[A-Z]{2,8}\)(?: received by PID (?P<pid>\d{1,10}))?",
            killed("elastic"),
        ),
        Pattern(
            "signal ",
            r"\btraceback ?: {0,2}signal (?P<signal>\d{1,2}) \(SIG[A-Z]{2,8}\)(?: received by PID (?P<pid>\d{1,10}))?",
            killed("elastic"),
        ),
        Pattern(
            "with return code",
            r"exits with return code {1,2}= {1,2}(?P<exit>-?\d{1,5})",
            killed("deepspeed"),
        ),
        Pattern("Killing subprocess", r":sigkill_handler\] Killing subprocess \d", _launcher_ends_others),
        Pattern(
            "terminated with signal",
            r"process \d{1,6} terminated with signal (?P<name>SIG[A-Z]{2,8})",
            killed("spawn"),
        ),
        Pattern("died with <Signals.", r"died with <Signals\.(?P<name>SIG[A-Z]{2,8}): \d", killed("subprocess")),
        Pattern(
            "exited on signal",
            r"(?<!\d )(?:PID (?P<pid>\d{1,10}) on node \S{1,200} )?exited on signal (?P<signal>\d{1,2})\b",
            killed("mpirun"),
        ),
        Pattern(
            "is killed by signal: ",
            r"DataLoader worker (?:\(pid (?P<pid>\d{1,10})\) )?is killed by signal: Killed",
            killed("dataloader", signal=_KILL),
        ),
        Pattern(
            "exited unexpectedly",
            r"DataLoader worker \(pid(?:\(s\))? (?P<pid>\d{1,10})(?:, \d{1,10}){0,64}\) exited unexpectedly",
            killed("dataloader"),
        ),
        Pattern(
            "workers died while running it",
            r"KilledWorker: Attempted to run task .{1,300} on \d{1,4} different workers, but all those workers died",
            killed("dask", guess_only=True),
        ),
        Pattern(
            "ran out-of-memory and exited",
            r"The replica \S{1,80}(?: \d{1,6})? ran out-of-memory and exited with a non-zero status of"
            r" (?:137|9 ?\(SIGKILL\))",
            killed("container", oom_stated=True),
        ),
        Pattern("Negsignal.SIGKILL", r"return code Negsignal\.(?P<name>SIGKILL)\b", killed("airflow")),
        Pattern(
            "was terminated by signal 9",
            r"\bprocess \(PID (?P<pid>\d{1,10})\) was terminated by signal (?P<signal>9): ",
            killed("postgres"),
        ),
        Pattern("Exited (137)", r"\bExited \(137\) \d{1,4} \w{1,10} ago\b", killed("docker", signal=_KILL)),
        Pattern(
            "background workers are no longer alive",
            r"RuntimeError: (?:Some|One or more) background workers are no longer alive",
            killed("batchgenerators", guess_only=True),
        ),
        Pattern(
            "killed by SIGKILL by OOM killer",
            r"The process is killed by SIGKILL by OOM killer due to high memory usage",
            _guessed_by_ray,
        ),
        Pattern(
            "node running low on memory",
            r"(?:Task|Actor|[Ww]orker)(?:s|\(s\))? (?:was|were) killed due to the node running low on memory",
            killed("ray", oom_stated=True, of_node=True),
        ),
        Pattern(
            "excessive memory usage",
            r"excessive memory usage causing the Operating System to kill the worker",
            killed("joblib", guess_only=True),
        ),
        Pattern(
            "after using all available RAM",
            r"[Ss]ession crashed after using all available RAM",
            killed("notebook", oom_stated=True),
        ),
    ),
)
