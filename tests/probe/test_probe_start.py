"""GIVEN a Python command WHEN the probe rides along THEN it starts everywhere it can, and nobody notices."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from watched import SITE, TOO_OLD, Harness, require_python

SHOW = "import sys; print(sys.argv, sys.path, sorted(set(sys.modules) & {'json', 're', 'threading', 'typing'}))"


def test_a_script_a_module_and_a_command_line_are_all_watched(each: Harness) -> None:
    each.script("print('ran')", "work.py")
    for arguments in (["work.py", "--lr", "1"], ["-m", "work", "--lr", "1"], ["-c", "print('ran')", "--lr", "1"]):
        assert each.run(*arguments).stdout == b"ran\n"
    processes = each.records("process")
    assert len(processes) == 3
    for process in processes:
        assert process["argv"][-2:] == ["--lr", "1"]
        assert each.python.startswith(sys.prefix) or f"/{process['python']}/" in each.python
        assert process["rank"] is None
        assert process["forked"] is False
    assert [end["clean"] for end in each.records("end")] == [True] * 3
    assert all(1 << 20 < end["rss_peak_bytes"] < 1 << 30 for end in each.records("end"))


@pytest.mark.parametrize("flag", ["-I", "-S", "-E"])
def test_isolated_pythons_are_not_watched(harness: Harness, flag: str) -> None:
    assert harness.run(flag, "-c", "print('ran')").stdout == b"ran\n"
    assert harness.records() == []


@pytest.mark.parametrize("version", TOO_OLD)
def test_too_old_pythons_are_left_alone(harness: Harness, version: str) -> None:
    harness.python = require_python(version)
    command = "import sys; print('sitecustomize' in sys.modules)"
    ended = harness.run("-c", command)
    assert (ended.stdout, ended.stderr) == (b"False\n", b"")
    harness.script("print('mine')", "own/sitecustomize.py")
    assert harness.run("-c", command, more_path="own").stdout == b"mine\nTrue\n"
    assert harness.records() == []


def test_the_process_looks_as_it_would_without(each: Harness) -> None:
    with_probe = each.run("-c", SHOW, "x").stdout.decode()
    assert with_probe.replace(f"'{SITE}', ", "") == each.run("-c", SHOW, "x", probe=False).stdout.decode()


def test_no_sitecustomize_is_seen_where_the_user_has_none(each: Harness) -> None:
    command = "import sys; print('sitecustomize' in sys.modules); import sitecustomize"
    for probe in (True, False):
        ended = each.run("-c", command, probe=probe)
        assert ended.stdout == b"False\n"
        assert b"No module named 'sitecustomize'" in ended.stderr


@pytest.mark.parametrize(
    "text",
    [
        "import sys; sys.path.insert(0, '/mine'); print('mine', __name__, __file__)",
        "raise ValueError('mine is broken')",
        "import no_such_module",
    ],
)
def test_the_users_own_sitecustomize_runs_as_before(each: Harness, text: str) -> None:
    each.script(text, "own/sitecustomize.py")
    command = "import sys; print(sys.path, getattr(sys.modules.get('sitecustomize'), '__file__', None))"
    watched = each.run("-c", command, more_path="own")
    alone = each.run("-c", command, more_path="own", probe=False)
    assert watched.stdout.decode().replace(f"'{SITE}', ", "") == alone.stdout.decode()
    assert (watched.stderr, watched.returncode) == (alone.stderr, alone.returncode)
    assert each.records("process")


def test_a_missing_bundle_harms_nothing(harness: Harness) -> None:
    harness.bundle.rmdir()
    ended = harness.run("-c", "raise ValueError(1)")
    alone = harness.run("-c", "raise ValueError(1)", probe=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == (alone.stdout, alone.stderr, alone.returncode)
    assert not harness.bundle.exists()


def test_a_bundle_that_refuses_every_write_harms_nothing(harness: Harness) -> None:
    # A file where the folder should be: this stops root too, whom a read-only folder does not.
    (harness.bundle / "probe").write_text("")
    ended = harness.run("-c", "raise ValueError(1)")
    alone = harness.run("-c", "raise ValueError(1)", probe=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == (alone.stdout, alone.stderr, alone.returncode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_harms_nothing(harness: Harness) -> None:
    (harness.bundle / "probe").mkdir()
    command = "import os, subprocess, sys; os.execv(sys.executable, [sys.executable, '-c', 'raise ValueError(1)'])"
    link = "import os, sys; os.symlink('/dev/full', 'bundle/probe/%d.records' % os.getpid())\n"
    ended = harness.run("-S", "-c", link + command)
    alone = harness.run("-c", "raise ValueError(1)", probe=False)
    assert (ended.stderr, ended.returncode) == (alone.stderr, alone.returncode)


def test_secrets_on_the_command_line_are_masked(harness: Harness) -> None:
    harness.run(
        *("-c", "pass", "--hf-token", "hf_abcdefghijklmnop", "--api-key=abcdefgh", "--max-tokens", "4096"),
        *("--url", "https://me:hunter22@host/x", "--max-num-batched-tokens=8192", "sk-proj-abcdefghijklmnopqrst"),
    )
    (process,) = harness.records("process")
    assert process["argv"][3:] == [
        *("--hf-token", "<masked>", "--api-key=<masked>", "--max-tokens", "4096", "--url", "https://<masked>@host/x"),
        *("--max-num-batched-tokens=8192", "<masked>"),
    ]


def test_the_rank_is_recorded(harness: Harness) -> None:
    harness.variables = {"RANK": "3", "LOCAL_RANK": "1"}
    harness.run("-c", "pass")
    assert harness.records("process")[0]["rank"] == 3


def test_descriptors_closed_by_the_program_are_not_written_to(harness: Harness) -> None:
    harness.run("-c", "import os; os.closerange(3, 100); f = open('mine', 'w'); raise ValueError")
    assert (harness.folder / "mine").read_bytes() == b""
    assert len(harness.records("exception")) == 1


def test_starting_costs_little(each: Harness) -> None:
    """Processor time, for the machine may be busy; the figure itself is about 5 ms with compiled files."""
    empty = each.folder / "empty"
    empty.mkdir()

    def seconds(probe: bool) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        each.run("-c", "pass", probe=probe, more_path=str(empty))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    seconds(True)
    assert statistics.median(seconds(True) - seconds(False) for _ in range(9)) < 0.030


def test_the_probe_keeps_to_python_3_8() -> None:
    vermin = shutil.which("vermin", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if vermin is None:
        pytest.skip("vermin is not installed here")
    ended = subprocess.run(
        [vermin, "-t=3.8-", "--violations", "--no-tips", str(SITE)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout


def test_the_probe_imports_nothing_of_ours() -> None:
    for path in SITE.rglob("*.py"):
        assert "oomdoctor." not in path.read_text().replace("_oomdoctor_probe.", ""), path
