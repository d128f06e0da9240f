"""What the caller and the command see is what they would see without the wrapper."""

import os
import signal
import subprocess
import time

import pytest
from harness import PYTHON, clean_environment, is_running, run_both, wait_until, wrapped


@pytest.mark.parametrize("status", [0, 1, 2, 3, 126, 127, 128, 137, 255])
def test_exit_status(tmp_path, status):
    bare, watched = run_both(["sh", "-c", f"exit {status}"], tmp_path / "i")
    assert watched.returncode == bare.returncode == status


@pytest.mark.parametrize("name", ["KILL", "TERM", "INT", "HUP", "SEGV", "ABRT", "USR1", "PIPE", "QUIT", "XCPU"])
def test_death_by_signal(tmp_path, name):
    bare, watched = run_both(["sh", "-c", f"ulimit -c 0; kill -{name} $$"], tmp_path / "i")
    assert watched.returncode == bare.returncode < 0


def test_death_by_signal_in_a_shell_is_128_plus_number(tmp_path):
    line = " ".join(f"'{word}'" for word in wrapped(["sh", "-c", "kill -9 $$"], tmp_path / "i"))
    done = subprocess.run(["bash", "-c", f"{line}; echo $?"], capture_output=True, timeout=120)
    assert done.stdout.strip() == b"137"


def test_no_core_of_the_wrapper(tmp_path):
    script = tmp_path / "dies.sh"
    script.write_text("ulimit -c 0\nkill -SEGV $$\n")
    line = " ".join(f"'{word}'" for word in wrapped(["bash", str(script)], tmp_path / "i"))
    subprocess.run(["bash", "-c", f"ulimit -S -c unlimited; {line}"], cwd=tmp_path, capture_output=True, timeout=120)
    assert not [file for file in tmp_path.iterdir() if file.name.startswith("core")]


@pytest.mark.parametrize(("command", "status"), [("no-such-command-here", 127), ("/etc/passwd", 126), ("/", 126)])
def test_what_cannot_be_started_ends_as_in_a_shell(tmp_path, command, status):
    done = subprocess.run(wrapped([command], tmp_path / "i"), capture_output=True, timeout=120)
    assert done.returncode == status
    assert done.stderr.startswith(b"oomdoctor: ")
    assert done.stderr.count(b"\n") == 1
    assert not (tmp_path / "i").exists()


def test_a_script_without_a_first_line_is_run_by_sh(tmp_path):
    script = tmp_path / "script"
    script.write_text("echo from $1; exit 4\n")
    script.chmod(0o755)
    done = subprocess.run(wrapped([str(script), "here"], tmp_path / "i"), capture_output=True, timeout=120)
    assert (done.returncode, done.stdout) == (4, b"from here\n")


def test_no_command_is_wrong_usage():
    done = subprocess.run([PYTHON, "-m", "oomdoctor.cli.main"], capture_output=True, timeout=120)
    done = subprocess.run([PYTHON, "-c", "from oomdoctor.cli.main import main; main()", "run"], capture_output=True)
    assert done.returncode == 2


def test_words_after_the_command_belong_to_it(tmp_path):
    command = ["sh", "-c", 'echo "$@"', "sh", "--output", "x", "--help", "--", "-v"]
    without_dashes = [word for word in wrapped(command, tmp_path / "i") if word != "--"]
    bare, watched = run_both(command, tmp_path / "j")
    assert watched.stdout == bare.stdout == b"--output x --help -- -v\n"
    done = subprocess.run(without_dashes, capture_output=True, timeout=120)
    assert done.stdout == b"--output x --help -v\n"


def test_streams_are_kept_apart_and_whole(tmp_path):
    script = (
        "import sys\n"
        "for i in range(20000): print(i); print(-i, file=sys.stderr)\n"
        "sys.stdout.buffer.write(bytes(range(256)))"
    )
    bare, watched = run_both([PYTHON, "-c", script], tmp_path / "i")
    assert watched.stdout == bare.stdout
    assert watched.stderr == bare.stderr
    assert (tmp_path / "i/stdout.log").read_bytes() == bare.stdout
    assert (tmp_path / "i/stderr.log").read_bytes() == bare.stderr


def test_streams_that_share_one_place_keep_their_order(tmp_path):
    script = "import os\nfor i in range(3000): os.write(1, b'out %d\\n' % i); os.write(2, b'err %d\\n' % i)"
    bare, watched = run_both([PYTHON, "-c", script], tmp_path / "i", stderr=subprocess.STDOUT)
    assert watched.stdout.removesuffix(watched.stdout[len(bare.stdout) :]) == bare.stdout


def test_input_from_a_pipe_and_from_a_file(tmp_path):
    data = os.urandom(300_000)
    bare, watched = run_both(["cat"], tmp_path / "i", input=data)
    assert watched.stdout == bare.stdout == data
    (tmp_path / "in").write_bytes(b"first\nsecond\n")
    # what the command leaves unread stays for the next reader, as with one open file
    with open(tmp_path / "in", "rb", buffering=0) as stream:
        command = [PYTHON, "-c", "import os; print(os.read(0, 6))"]
        done = subprocess.run(wrapped(command, tmp_path / "j"), stdin=stream, capture_output=True, timeout=120)
        assert done.stdout == b"b'first\\n'\n"
        assert stream.read() == b"second\n"


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_streams_stay_closed(tmp_path, closed):
    script = (
        "import os\n"
        "for n in range(3):\n"
        " try: os.fstat(n); s='open'\n"
        " except OSError: s='closed'\n"
        f" open({str(tmp_path)!r}+'/seen','a').write(s+' ')"
    )
    redirect = " ".join(f"{number}>&-" for number in closed)
    seen = []
    for command in ([PYTHON, "-S", "-c", script], wrapped([PYTHON, "-S", "-c", script], tmp_path / "i")):
        line = " ".join("'" + word.replace("'", "'\\''") + "'" for word in command)
        subprocess.run(["bash", "-c", f"{line} {redirect}"], capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
        seen.append((tmp_path / "seen").read_text())
        (tmp_path / "seen").unlink()
    assert seen[0] == seen[1]


def test_a_producer_sees_that_the_command_closed_its_input(tmp_path):
    line = " ".join(f"'{word}'" for word in wrapped(["sh", "-c", "exec <&-; sleep 2"], tmp_path / "i"))
    script = f"set -o pipefail; {{ yes; echo producer $? >&2; }} | {line}"
    begun = time.monotonic()
    process = subprocess.Popen(["bash", "-c", script], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    assert process.stderr.readline() == b"producer 141\n" or time.monotonic() - begun < 2
    process.communicate(timeout=20)


def test_a_reader_that_goes_away_ends_the_command_as_without(tmp_path):
    for command in (["yes"], wrapped(["yes"], tmp_path / "i")):
        line = " ".join(f"'{word}'" for word in command)
        script = f"{line} | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=120)
        assert done.stdout == b"141\n"


def test_inherited_descriptors_reach_the_command_and_leave_the_wrapper(tmp_path):
    reader, writer = os.pipe()
    command = ["bash", "-c", f"echo hello >&{writer}; exec {writer}>&-; sleep 3"]
    process = subprocess.Popen(wrapped(command, tmp_path / "i"), pass_fds=[writer], stderr=subprocess.DEVNULL)
    os.close(writer)
    begun = time.monotonic()
    with os.fdopen(reader, "rb") as stream:
        assert stream.read() == b"hello\n"  # ends when the command closes it
    assert process.poll() is None, f"read until {time.monotonic() - begun:.1f} s"
    process.kill()
    process.wait()


def test_the_environment_changes_by_what_the_probe_needs(tmp_path):
    command = ["env", "-0"]
    environment = clean_environment(PYTHONPATH="/some/where", SECRET="s3cret", LANG="C")
    bare, watched = run_both(command, tmp_path / "i", env=environment)
    before, after = (dict(item.split(b"=", 1) for item in done.stdout.split(b"\0") if item) for done in (bare, watched))
    site = after.pop(b"OOMDOCTOR_PROBE_SITE")
    assert after.pop(b"OOMDOCTOR_BUNDLE") == str(tmp_path / "i").encode()
    assert after.pop(b"OOMDOCTOR_SOCKET").endswith(b".ask")
    assert after.pop(b"PYTHONPATH") == site + b":" + before.pop(b"PYTHONPATH")
    assert after == before
    unprobed = subprocess.run(wrapped(command, tmp_path / "j", "--no-probe"), env=environment, capture_output=True)
    assert unprobed.stdout == bare.stdout


def dispositions(status: bytes) -> list[tuple[bytes, int]]:
    """Blocked, ignored and caught signals, but for the two that glibc keeps to itself (32, 33)."""
    lines = (line.split() for line in status.splitlines())
    return [(name, int(mask, 16) & ~(0b11 << 31)) for name, mask in lines]


def test_signal_mask_and_dispositions_are_the_callers(tmp_path):
    command = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]
    bare, watched = run_both(command, tmp_path / "i")
    assert dispositions(watched.stdout) == dispositions(bare.stdout)
    ignoring = ["bash", "-c", "trap '' HUP; \"$@\"", "bash"]
    bare = subprocess.run([*ignoring, *command], capture_output=True)
    watched = subprocess.run([*ignoring, *wrapped(command, tmp_path / "k")], capture_output=True)
    assert dispositions(watched.stdout) == dispositions(bare.stdout)


def test_the_process_group_is_the_callers(tmp_path):
    command = [PYTHON, "-c", "import os; print(os.getpgrp(), os.getsid(0))"]
    bare, watched = run_both(command, tmp_path / "i")
    assert watched.stdout == bare.stdout


def test_a_grandchild_that_keeps_the_pipe_delays_nothing_and_lives(tmp_path, ends):
    marker = tmp_path / "late"
    script = f"(sleep 6; echo late; echo lives > {marker}; sleep 60) & echo $!; exit 5"
    with open(tmp_path / "out", "wb") as out:
        process = subprocess.Popen(
            wrapped(["bash", "-c", script], tmp_path / "i"), stdout=out, stderr=subprocess.DEVNULL
        )
        begun = time.monotonic()
        assert process.wait(timeout=20) == 5
    orphan = int((tmp_path / "out").read_text().split()[0])
    ends.append(orphan)
    assert not marker.exists(), f"waited {time.monotonic() - begun:.1f} s for the grandchild"
    wait_until(marker.exists, 20)
    assert is_running(orphan)
    # its output still finds a reader, as it would without the wrapper
    wait_until(lambda: (tmp_path / "out").read_text().split()[1:] == ["late"], 20)


def test_output_through_a_pipe_ends_when_the_last_writer_ends(tmp_path):
    bare, watched = run_both(["sh", "-c", "(sleep 0.7; echo late) & echo early"], tmp_path / "i")
    assert watched.stdout == bare.stdout == b"early\nlate\n"


def test_a_killed_group_takes_the_command_along(tmp_path):
    process = subprocess.Popen(
        wrapped(["sh", "-c", "echo $$; sleep 60"], tmp_path / "i"), stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    command = int(process.stdout.readline())
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(timeout=10) == -signal.SIGKILL
    wait_until(lambda: not is_running(command))


def test_a_python_started_in_a_folder_that_is_gone(tmp_path):
    gone = tmp_path / "gone"
    command = ["sh", "-c", f"mkdir {gone}; cd {gone}; rmdir {gone}; {PYTHON} -c 'print(1)'"]
    bare, watched = run_both(command, tmp_path / "incident", env=clean_environment())
    assert (watched.returncode, watched.stdout, watched.stderr) == (bare.returncode, bare.stdout, bare.stderr)
