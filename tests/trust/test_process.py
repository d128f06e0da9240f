"""GIVEN a process that looks at itself WHEN it runs under watch THEN it sees what it sees without."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from harness import PYTHON, clean_environment, run_both, wrapped

SELF_REPORT = str(Path(__file__).with_name("self_report.py"))
ADDED = ("OOMDOCTOR_BUNDLE", "OOMDOCTOR_PROBE_SITE", "OOMDOCTOR_SOCKET")
OF_THE_PROBE = {"atexit", "binascii"}
"""Modules of the standard library that the probe needs at once."""


def without_the_probe(report: dict) -> dict:
    """A report of a watched process, with what the probe adds taken off and checked."""
    environment = report["environment"]
    assert all(environment.pop(name) for name in ADDED)
    site, *rest = environment.pop("PYTHONPATH").split(os.pathsep)
    if rest:
        environment["PYTHONPATH"] = os.pathsep.join(rest)
    report["path"].remove(site)
    report["modules"] = sorted(set(report["modules"]) - OF_THE_PROBE)
    return report


def reports(pair):
    bare, watched = (json.loads(done.stdout) for done in pair)
    bare["modules"] = sorted(set(bare["modules"]) - OF_THE_PROBE)
    return bare, without_the_probe(watched)


def test_a_process_sees_the_same(tmp_path):
    (tmp_path / "in").write_text("input")
    with open(tmp_path / "in") as stdin:
        pair = run_both([PYTHON, SELF_REPORT, "a b", "--x", ""], tmp_path / "i", stdin=stdin)
    bare, watched = reports(pair)
    assert watched == bare
    assert pair[0].stderr == pair[1].stderr == b""


UNUSUAL = (
    "trap '' HUP INT USR1 CHLD; umask 027; ulimit -n 333; ulimit -s 4096; ulimit -c 0; ulimit -v 90000000; "
    'exec 7</etc/passwd 9>>/dev/null 12<>/dev/null; cd /usr; exec nice -n 5 "$@"'
)


@pytest.mark.parametrize("probe", [True, False], ids=["with the probe", "without"])
def test_unusual_inheritance(tmp_path, probe):
    command = [PYTHON, SELF_REPORT]
    options = () if probe else ("--no-probe",)
    around = ["bash", "-c", UNUSUAL, "bash"]
    pair = [
        subprocess.run([*around, *words], capture_output=True, stdin=subprocess.DEVNULL, check=True)
        for words in (command, wrapped(command, tmp_path / "i", *options))
    ]
    bare, watched = reports(pair) if probe else map(json.loads, (done.stdout for done in pair))
    assert watched == bare
    assert int(bare["status"]["SigIgn"], 16) & 1 << 16, "SIGCHLD is ignored"
    nicer = min(19, os.nice(0) + 5)  # the suite itself may run at another niceness
    assert [bare["umask"], bare["niceness"], bare["limits"]["RLIMIT_NOFILE"][0]] == ["0o27", nicer, 333]


@pytest.mark.parametrize(
    ("command", "status"),
    [(["sh", "-c", "exit 9"], 9), (["no-such-command"], 127), (["/etc/passwd"], 126)],
    ids=["status", "not found", "not executable"],
)
def test_an_ignored_end_of_children_stays_ignored(tmp_path, command, status):
    around = ["bash", "-c", "trap '' CHLD; exec \"$@\"", "bash"]
    done = subprocess.run([*around, *wrapped(command, tmp_path / "i")], capture_output=True)
    assert done.returncode == status
    if status == 9:
        script = tmp_path / "script"
        script.write_text("grep SigIgn /proc/self/status\n")
        script.chmod(0o755)
        pair = [
            subprocess.run([*around, *words], capture_output=True).stdout
            for words in (["sh", str(script)], wrapped([str(script)], tmp_path / "j"))
        ]
        assert pair[0] == pair[1] != b""


def test_words_that_are_not_utf_8(tmp_path):
    words = ["sh", "-c", 'printf "%s|" "$@" "$VALUE" | od -c', "sh", b"\xff\xe4", "ü".encode(), b"a\nb", b""]
    for variables in ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "C.UTF-8"}):
        environment = {**os.environb, b"VALUE": b"\xfe\x80", **{k.encode(): v.encode() for k, v in variables.items()}}
        bare, watched = run_both(words, tmp_path / "i", env=environment)
        assert (watched.stdout, watched.stderr) == (bare.stdout, bare.stderr)


SETTINGS = (
    ("PYTHONWARNINGS", "error"),
    ("PYTHONWARNINGS", "always"),
    ("PYTHONDEVMODE", "1"),
    ("PYTHONINSPECT", "1"),
    ("PYTHONOPTIMIZE", "2"),
    ("PYTHONIOENCODING", "ascii"),
    ("PYTHONTRACEMALLOC", "5"),
    ("PYTHONMALLOC", "debug"),
    ("PYTHONSAFEPATH", "1"),
    ("PYTHONUNBUFFERED", "1"),
    ("PYTHONHASHSEED", "0"),
    ("PYTHONSTARTUP", "/no/such/file"),
    ("LC_ALL", "zh_CN.UTF-8"),
    ("OOMDOCTOR_LANG", "zh"),
    ("HOME", "/no/such/folder"),
    ("TMPDIR", "/no/such/folder"),
    ("PATH", "/usr/bin:/bin"),
)


def check_setting(tmp_path, name, value):
    command = [PYTHON, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"]
    bare, watched = run_both(command, tmp_path / "i", env={**os.environ, name: value}, stdin=subprocess.DEVNULL)
    assert (watched.returncode, watched.stdout, watched.stderr) == (bare.returncode, bare.stdout, bare.stderr)


@pytest.mark.parametrize(("name", "value"), SETTINGS[:2] + SETTINGS[3:4], ids=lambda word: word)
def test_variables_of_python_are_the_commands_affair(tmp_path, name, value):
    check_setting(tmp_path, name, value)


@pytest.mark.extended
@pytest.mark.parametrize(("name", "value"), SETTINGS, ids=lambda word: word)
def test_more_variables_of_python_are_the_commands_affair(tmp_path, name, value):
    check_setting(tmp_path, name, value)


def test_modules_on_the_commands_path_are_not_ours(tmp_path):
    """A project's own `click.py` or `yaml/` on PYTHONPATH is for the command."""
    (tmp_path / "yaml").mkdir()
    for name in ("click.py", "typing.py", "psutil.py", "numpy.py", "rich.py", "yaml/__init__.py", "oomdoctor_own.py"):
        (tmp_path / name).write_text("print('loaded', __name__)\nvalue = 4\n")
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    environment = clean_environment(PYTHONPATH=path)
    command = [PYTHON, "-c", "import oomdoctor_own, click; raise SystemExit(oomdoctor_own.value + click.value)"]
    done = subprocess.run(
        [
            PYTHON,
            "-c",
            "from oomdoctor.cli.main import main; main()",
            "run",
            "--output",
            tmp_path / "i",
            "--",
            *command,
        ],
        env=environment,
        capture_output=True,
    )
    assert done.returncode == 8
    assert done.stdout == b"loaded oomdoctor_own\nloaded click\n"
    assert b"report: " in done.stderr
    assert b"Traceback" not in done.stderr
