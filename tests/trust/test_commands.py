"""GIVEN commands of every kind WHEN they run under watch THEN they print and end as without.

All ordinary ones run in one shell, bare and watched, so that the wrapper starts once: what differs for them is the
environment with the probe in it. What differs with the wrapper itself has runs of its own.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import venv
import zipapp
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import PYTHON, clean_environment, run_both, wrapped

from oomdoctor.run.session import PROBE_SITE

sys.path.append(str(Path(__file__).parents[1] / "probe"))
from watched import TOO_OLD, VERSIONS, find_python

STATEMENT = "import sys; print(sys.argv, sys.flags, sys.prefix, sys.path); sys.exit(3)"

NAMES = {f"P{version.replace('.', '')}": version for version in (*VERSIONS, *TOO_OLD)}

LINES: dict[str, str] = {
    "script": "$PYTHON show.py a 'b c' --d",
    "module": "$PYTHON -m show a --d",
    "-c": f'$PYTHON -c "{STATEMENT}" x',
    "standard input": f'echo "{STATEMENT}" | $PYTHON -',
    "-i": "echo 'print(40 + 2)' | $PYTHON -i -c 'print(1)' 2>/dev/null",
    "-I": "$PYTHON -I -c 'import sys; print(sys.path, sys.flags)'",
    "-S": "$PYTHON -S show.py",
    "-E": "$PYTHON -E show.py",
    "an uncaught error": "$PYTHON -c 'def f(): 1 / 0\nf()'",
    "another venv": "venv/bin/python show.py; venv/bin/python -c 'import sys; print(sys.prefix)'",
    "a prefix as conda makes it": "env CONDA_PREFIX=$PREFIX PATH=$PREFIX/bin:/usr/bin:/bin ./by_env.py",
    "a shell script": "sh ./work.sh one two",
    "a script without a first line": "./plain one",
    "xargs": "seq 6 | xargs -P 3 -n 1 sh -c 'exit 0' && seq 3 | xargs -n1 echo",
    "exec": "exec -a other sh -c 'echo $0; exit 8'",
    "a trap": "trap 'echo trapped' TERM; kill -TERM $$; echo on",
    "background and wait": "sh -c 'sleep 0.1; exit 5' & wait $!; echo $?",
    "timeout": "timeout 0.2 sleep 5; echo $?",
    "nohup": "nohup sh -c 'echo quiet; exit 4' </dev/null; echo $?",
    "env -i": f'env -i $PYTHON -c "{STATEMENT}"; env -i /usr/bin/env; echo $?',
    "limits": "ulimit -n 99; ulimit -n; ulimit -v 4000000; $PYTHON -c 'import resource; print(resource.getrlimit(9))'",
    "subprocess": "$PYTHON pool.py run",
}

MORE_LINES: dict[str, str] = {
    "module of a package": "$PYTHON -m package",
    "-B -u -O": "$PYTHON -B -u -O show.py",
    "a zip": "$PYTHON app.zip z",
    "an error in a thread": "$PYTHON thread.py 2>&1 | tail -1",
    "a warning": "$PYTHON -W always -c 'import warnings; warnings.warn(\"w\")'",
    "end by exit in atexit": "$PYTHON -c 'import atexit, os; atexit.register(os._exit, 9)'; echo $?",
    "an activated venv": ". venv/bin/activate; python -c 'import sys; print(sys.prefix)'",
    "a here-document": "cat <<X | tr a-z A-Z\nhere\nX",
    "a pipeline that fails": "set -o pipefail; false | cat; echo $?",
    "a killed child": '$PYTHON -c \'import subprocess as s; print(s.call(["timeout", "-s9", "1", "cat"]))\'',
    "nice": "nice -n 3 nice",
    "setsid": "setsid -w sh -c 'exit 6'; echo $?",
    "a daemon": "$PYTHON daemon.py; cat daemon.out",
    "an orphan": "(sleep 0.2; echo late > orphan.out) & disown; echo early; sleep 0.6; cat orphan.out",
    **{f"multiprocessing {how}": f"$PYTHON pool.py {how}" for how in ("fork", "spawn", "forkserver")},
    "concurrent.futures": "$PYTHON pool.py futures",
    **{f"Python {version}": f"[ -z ${name} ] || ${name} show.py v" for name, version in NAMES.items()},
}

FILES = {
    "show.py": "import sys\nprint(sys.argv, sys.version_info[:2], 'sitecustomize' in sys.modules)\nsys.exit(3)\n",
    "package/__init__.py": "",
    "package/__main__.py": "print(__package__, __spec__.name)\n",
    "by_env.py": "#!/usr/bin/env python3\nimport sys\nprint(sys.prefix)\n",
    "work.sh": "set -e\ntrap 'echo bye' EXIT\nfor word; do echo $word; done\nfalse\necho never\n",
    "thread.py": "import threading as t\none = t.Thread(target=int, args=[[]], name='n')\none.start()\none.join()\n",
    "plain": "echo plain $1\nexit 6\n",
    "daemon.py": (
        "import os, sys, time\n"
        "if os.fork(): os.wait(); time.sleep(0.3); sys.exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "os.closerange(0, 64)\n"
        "with open('daemon.out', 'w') as out: out.write('%s %s\\n' % (os.getsid(0) != os.getpid(), out.fileno()))\n"
    ),
    "pool.py": (
        "import concurrent.futures, multiprocessing, os, subprocess, sys\n"
        "def work(number):\n"
        "    if number == 3: raise ValueError('three')\n"
        "    return number * 2\n"
        "def main(how):\n"
        "    if how == 'futures':\n"
        "        with concurrent.futures.ProcessPoolExecutor(2) as pool: print(list(pool.map(work, range(3))))\n"
        "    elif how == 'run':\n"
        "        running = [subprocess.Popen([sys.executable, '-c', 'raise SystemExit(%d)' % n]) for n in range(3)]\n"
        "        print([one.wait() for one in running])\n"
        "    else:\n"
        "        context = multiprocessing.get_context(how)\n"
        "        with context.Pool(2) as pool:\n"
        "            print(pool.map(work, range(3)))\n"
        "            try: pool.map(work, [3])\n"
        "            except ValueError as error: print(repr(error))\n"
        "        child = context.Process(target=os._exit, args=(7,))\n"
        "        child.start(); child.join(); print(child.exitcode)\n"
        "if __name__ == '__main__': main(sys.argv[1])\n"
    ),
}


@dataclass
class Said:
    """What one line said."""

    out: str
    """Its status stands last."""
    errors: str


def make_place(folder: Path) -> dict[str, str]:
    """The files that the lines use, and the variables."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    zipapp.create_archive(folder / "package", folder / "app.zip")
    pythons = {name: find_python(version) or "" for name, version in NAMES.items()}
    other = pythons["P310"] or pythons["P312"] or sys.base_prefix + "/bin/python3"
    return clean_environment(PYTHON=PYTHON, PREFIX=str(Path(other).parents[1]), LC_ALL="C.UTF-8", **pythons)


def run_lines(lines: Mapping[str, str], folder: Path) -> tuple[dict[str, Said], dict[str, Said]]:
    """Run all lines in one shell, bare and watched side by side, and cut what they said apart."""
    running = []
    folders = [folder / name / "work" for name in ("bare", "watched")]
    for place, words in zip(folders, ([], wrapped([], folder / "i")), strict=True):
        variables = make_place(place)
        (place / "all.sh").write_text(
            "\n".join(
                f"echo '<{number}>'; echo '<{number}>' >&2; bash -c {shlex.quote(line)}; echo =$?"
                for number, line in enumerate(lines.values())
            )
        )
        command = [*words, "bash", "all.sh"]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        running.append(subprocess.Popen(command, cwd=place, env=variables, text=True, **streams))
    said = []
    for process in running:
        parts = [re.split(r"^<\d+>\n", text, flags=re.M)[1:] for text in process.communicate(timeout=200)]
        assert [len(part) for part in parts] == [len(lines)] * 2
        said.append({name: Said(out, errors) for name, out, errors in zip(lines, *parts, strict=True)})
    bare, watched = said
    for one in watched.values():
        one.out = re.sub(f"'{re.escape(str(PROBE_SITE))}', ", "", one.out).replace(*map(str, folders[::-1]))
        kept = (line for line in one.errors.splitlines(keepends=True) if not line.startswith("oomdoctor: "))
        one.errors = "".join(kept).replace(*map(str, folders[::-1]))
    return bare, watched


def check(bare: Said, watched: Said) -> None:
    if re.fullmatch(r"=\d+\n", bare.out) and not bare.errors:
        pytest.skip("this Python is not installed here")
    assert watched == bare


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> tuple[dict[str, Said], dict[str, Said]]:
    return run_lines(LINES, tmp_path_factory.mktemp("said"))


@pytest.fixture(scope="module")
def more_said(tmp_path_factory) -> tuple[dict[str, Said], dict[str, Said]]:
    return run_lines(MORE_LINES, tmp_path_factory.mktemp("said"))


@pytest.mark.parametrize("name", LINES)
def test_inside_one_shell(said, name):
    check(said[0][name], said[1][name])


@pytest.mark.extended
@pytest.mark.parametrize("name", MORE_LINES)
def test_more_inside_one_shell(more_said, name):
    check(more_said[0][name], more_said[1][name])


AROUND = {
    "nohup": ["nohup"],
    "timeout": ["timeout", "20"],
    "env -i": ["env", "-i", f"PYTHONPATH={Path(__file__).parents[2]}"],
    "nice": ["nice", "-n", "4"],
    "setsid": ["setsid", "-w"],
    "stdbuf": ["stdbuf", "-oL"],
    "bash, in the background": ["bash", "-c", '"$@" & wait $!', "bash"],
    "umask and limits": ["bash", "-c", 'umask 077; ulimit -n 200; exec "$@"', "bash"],
}


@pytest.mark.extended
@pytest.mark.parametrize("name", AROUND)
def test_around_the_wrapper(tmp_path, name):
    (tmp_path / "in").write_text("some words\n")
    command = ["sh", "-c", "cat; echo out; echo err >&2; nice; umask; ulimit -n; exit 5"]
    outcomes = []
    for words in (command, wrapped(command, tmp_path / "i")):
        with open(tmp_path / "in") as stdin:
            done = subprocess.run([*AROUND[name], *words], stdin=stdin, capture_output=True, timeout=60)
        errors = [line for line in done.stderr.splitlines() if not line.startswith(b"oomdoctor: ")]
        outcomes.append((done.returncode, done.stdout, errors))
    assert outcomes[0] == outcomes[1]


RANK = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(value)
with open(f"{sys.argv[1]}/{dist.get_rank()}", "w") as out: out.write(f"{value.tolist()} {dist.get_world_size()}")
dist.destroy_process_group()
if sys.argv[2] == "fail" and os.environ["RANK"] == "1": sys.exit(5)
"""


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("how", ["well", "fail"])
def test_torchrun_with_two_ranks(tmp_path, how):
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(RANK)
    launch = [
        PYTHON,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "0",
        "--rdzv-backend",
        "c10d",
    ]
    launch += ["--rdzv-endpoint", "localhost:0", str(tmp_path / "train.py"), str(tmp_path), how]
    bare, watched = run_both(launch, tmp_path / "i", timeout=200, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert watched.returncode == bare.returncode == (0 if how == "well" else 1)
    assert watched.stdout == bare.stdout
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["[3.0, 3.0, 3.0] 2"] * 2
    ranks = {
        record for file in (tmp_path / "i/probe").iterdir() for record in re.findall(r'"rank":(\d)', file.read_text())
    }
    assert ranks == {"0", "1"}
