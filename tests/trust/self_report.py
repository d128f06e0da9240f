"""Prints, as JSON, all that a process can see of itself. Run bare and under watch, what it prints must be the same."""

import contextlib
import fcntl
import json
import locale
import os
import resource
import stat
import sys

# Numbers of this one process or this one moment, and what two processes never share.
_OF_THE_MOMENT = (
    *(
        "Name",
        "State",
        "Tgid",
        "Ngid",
        "Pid",
        "PPid",
        "TracerPid",
        "FDSize",
        "NSpid",
        "NStgid",
        "Threads",
        "SigPnd",
        "SigQ",
    ),
    *("ShdPnd", "nonvoluntary_ctxt_switches", "voluntary_ctxt_switches"),
)


def status():
    """The lines of /proc/self/status about the process and not about its memory."""
    with open("/proc/self/status") as stream:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in stream if ":\t" in line)
    for name in ("SigBlk", "SigIgn", "SigCgt"):  # glibc keeps 32 and 33 to itself
        lines[name] = f"{int(lines[name], 16) & ~(0b11 << 31):x}"
    return {
        name: value
        for name, value in lines.items()
        if name not in _OF_THE_MOMENT and not name.startswith(("Vm", "Rss", "Huge", "x86"))
    }


def descriptors():
    """Each open descriptor above 2, and what kind the standard ones are."""
    found = {}
    for number in sorted(int(name) for name in os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the one that lists them
            about = os.fstat(number)
            flags = fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK)
            found[number] = [
                stat.S_IFMT(about.st_mode),
                flags if number > 2 else flags & (os.O_ACCMODE | os.O_NONBLOCK),
                os.readlink(f"/proc/self/fd/{number}") if number > 2 or not number else "",
            ]
    return found


def number_in(path):
    try:
        with open(path) as stream:
            return stream.read().strip()
    except OSError:
        return None


def terminal_size():
    try:
        return list(os.get_terminal_size(1))
    except OSError:
        return None


report = {
    "arguments": [sys.argv[1:], sys.flags.isolated, sys.orig_argv[-1] if hasattr(sys, "orig_argv") else None],
    "isatty": [os.isatty(number) for number in range(3)],
    "terminal size": terminal_size(),
    "encoding": [locale.getpreferredencoding(False), sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering],
    "descriptors": descriptors(),
    "folder": [os.getcwd(), os.path.realpath("/proc/self/root")],
    "umask": oct(os.umask(0)),
    "limits": {
        name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")
    },
    "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    "scheduling": [os.sched_getscheduler(0), sorted(os.sched_getaffinity(0)), number_in("/proc/self/oom_score_adj")],
    "core filter": number_in("/proc/self/coredump_filter"),
    "timer slack": number_in("/proc/self/timerslack_ns"),
    "groups": [os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups(), os.getpgrp(), os.getsid(0)],
    "control groups": number_in("/proc/self/cgroup"),
    "namespaces": {name: os.readlink("/proc/self/ns/" + name) for name in sorted(os.listdir("/proc/self/ns"))},
    "environment": dict(os.environ),
    "status": status(),
    "path": sys.path,
    "modules": sorted(name for name in sys.modules if not name.startswith("_oomdoctor_probe")),
    "children": number_in(f"/proc/self/task/{os.getpid()}/children"),
}
print(json.dumps(report, sort_keys=True))
