"""GIVEN a command with children WHEN it has ended THEN those live on that would have, and none is left of ours."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from harness import PYTHON, is_running, wait_until, wrapped
from test_ends import members


@pytest.mark.parametrize("sent", [None, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left(tmp_path, sent):
    """Not even a zombie: the first process of a container may not look after it."""
    process = subprocess.Popen(
        wrapped(["sh", "-c", f"echo $$; {'exec sleep 300' if sent else 'true'}"], tmp_path / "i"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    command = int(process.stdout.readline())
    if sent is not None:
        os.kill(command, sent)
    assert process.wait(timeout=120) == -(sent or 0)
    assert members(process.pid) == []
    process.stdout.close()


DAEMON = """
import os, sys, time
if os.fork(): os.wait(); sys.exit(6)
os.setsid()
if os.fork(): os._exit(0)
null = os.open(os.devnull, os.O_RDWR)
for number in range(3): os.dup2(null, number)
open(sys.argv[1] + '.part', 'w').write(str(os.getpid())); os.rename(sys.argv[1] + '.part', sys.argv[1])
time.sleep(60)
"""


def test_a_daemon_lives_on(tmp_path, ends):
    marker = tmp_path / "pid"
    begun = time.monotonic()
    done = subprocess.run(wrapped([PYTHON, "-c", DAEMON, str(marker)], tmp_path / "i"), capture_output=True)
    assert done.returncode == 6
    assert time.monotonic() - begun < 20
    wait_until(marker.exists)
    daemon = int(marker.read_text())
    ends.append(daemon)
    assert is_running(daemon)


ORPHANS = "for i in 1 2 3; do (sleep 0.2 &); done; sleep 0.8; ps -eo stat= | grep -c ^Z; exit 7"


def test_the_first_process_of_a_container_reaps_orphans(tmp_path):
    new = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*new, "true"], capture_output=True).returncode:
        pytest.skip("a process namespace cannot be made here")
    done = subprocess.run([*new, *wrapped(["bash", "-c", ORPHANS], tmp_path / "i")], capture_output=True)
    assert (done.returncode, done.stdout) == (7, b"0\n")
