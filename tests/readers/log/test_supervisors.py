# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN what a supervisor says of a worker WHEN it is read THEN the kill, or the end of its time where it says that."""

from __future__ import annotations

import io
from typing import Any

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.readers.log.engine import read_log

KILLED = [
    ("[2026-11-30 10:00:00 +0000] [7] [WARNING] Worker with pid 812 was terminated due to signal 9", {"reported_by": "gunicorn", "pid": 812}),
    ("[2026-11-30 10:00:00 +0000] [7] [ERROR] Worker (pid:812) was sent SIGKILL! Perhaps out of memory?", {"reported_by": "gunicorn", "pid": 812}),
    ("DAMN ! worker 3 (pid: 812) died, killed by signal 9 :( trying respawn ...", {"reported_by": "uwsgi", "pid": 812}),
    ("[30-Nov-2026 10:00:00] WARNING: [pool www] child 812 exited on signal 9 (SIGKILL) after 12.345678 seconds from start", {"reported_by": "php-fpm", "pid": 812}),
    ("[core:notice] [pid 1] AH00052: child pid 812 exit signal Killed (9)", {"reported_by": "apache", "pid": 812}),
    ("10:00:00 Moving job to FailedJobRegistry (Work-horse terminated unexpectedly; waitpid returned 9 (signal 9); )", {"reported_by": "rq"}),
    ("10:00:00 Moving job to 'failed' queue (work-horse terminated unexpectedly; waitpid returned 9)", {"reported_by": "rq"}),
    ("[ERROR] Worker process died unexpectedly (code -9). Shutting down.", {"reported_by": "dramatiq"}),
    ("2026-11-30 10:00:00,222 INFO exited: trainer (terminated by SIGKILL; not expected)", {"reported_by": "supervisord"}),
    ("Child process 812 exited with code -9", {"reported_by": "launcher", "pid": 812}),
    ("subprocess.CalledProcessError: Command '['python3', '-u', 'train.py']' returned non-zero exit status -9.", {"reported_by": "subprocess"}),
    ("make: *** [Makefile:12: train] Killed", {"reported_by": "make"}),
    ("make[2]: *** [fit.mk:3: fit] Error 137", {"reported_by": "make"}),
    ("npm ERR! errno 137", {"reported_by": "npm"}),
    ("The command '/bin/sh -c python prepare.py' returned a non-zero code: 137", {"reported_by": "docker"}),
]  # fmt: skip

TIME_WAS_OVER = [
    "[2026-11-30 10:00:30 +0000] [1] [CRITICAL] WORKER TIMEOUT (pid:812)\n[2026-11-30 10:00:31 +0000] [1] [ERROR] Worker (pid:812) was sent SIGKILL! Perhaps out of memory?",
    "Mon Nov 30 10:00:00 2026 - *** HARAKIRI ON WORKER 3 (pid: 812, try: 1) ***\nDAMN ! worker 3 (pid: 812) died, killed by signal 9 :( trying respawn ...",
    "[2026-11-30 10:00:00,000: ERROR/MainProcess] Hard time limit (300s) exceeded for jobs.fit[1c]\n[2026-11-30 10:00:00,100: ERROR/MainProcess] Process 'ForkPoolWorker-2' pid:812 exited with 'signal 9 (SIGKILL)'",
    "rq.timeouts.JobTimeoutException: Task exceeded maximum timeout value (180 seconds)\n10:00:00 Moving job to FailedJobRegistry (Work-horse terminated unexpectedly; waitpid returned 9 (signal 9); )",
]  # fmt: skip

NOT_THAT = [
    "Worker with pid 812 was terminated due to signal 15",
    "DAMN ! worker 3 (pid: 812) died, killed by signal 11 :( trying respawn ...",
    "make: *** [Makefile:12: train] Error 2",
    "If you see Worker (pid:812) was sent SIGKILL! Perhaps out of memory? give it more",
]


def read(text: str) -> list[Any]:
    return list(read_log(io.BytesIO(f"{text}\n".encode()), "x.log").events)


@pytest.mark.parametrize(("text", "fields"), KILLED, ids=[text[:50] for text, _ in KILLED])
def test_a_worker_was_killed(text, fields):
    found = [event for event in read(text) if event.kind is K.PROCESS_KILLED]
    assert len(found) == 1, read(text)
    assert {"signal": found[0].fields["signal"], **{name: found[0].fields.get(name) for name in fields}} == {
        "signal": 9,
        **fields,
    }


@pytest.mark.parametrize("text", TIME_WAS_OVER)
def test_its_time_was_over(text):
    kinds = [event.kind for event in read(text)]
    assert K.PROCESS_KILLED not in kinds
    assert [event.fields["how"] for event in read(text) if event.kind is K.ENDED] == ["time-limit"]


def test_the_time_of_another_worker():
    first, second = TIME_WAS_OVER[0].split("\n")
    found = read(f"{first}\n{second.replace('812', '990')}")
    assert [event.fields["pid"] for event in found if event.kind is K.PROCESS_KILLED] == [990]


@pytest.mark.parametrize("text", NOT_THAT)
def test_not_a_kill(text):
    assert not [event for event in read(text) if event.kind is K.PROCESS_KILLED]
