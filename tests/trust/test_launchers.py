"""GIVEN a job of several processes WHEN one runs out of memory THEN one report names it, and the end is the same.

The first tests need nothing but Python. The others start real launchers, where these are installed in the Python that
OOMDOCTOR_LAUNCHERS_PYTHON names, else in the running one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import PYTHON, clean_environment, run_both, wait_until

from oomdoctor.diagnose import diagnose
from oomdoctor.readers.bundle import read_run

JOBS = Path(__file__).parent / "launchers"
LIMITED = f"import os, resource, signal, socket, subprocess, sys, time\nsys.path.insert(0, {str(JOBS)!r})\n"
LAUNCHER = (
    LIMITED
    + """
from limit import leave_little
if "RANK" not in os.environ:
    ours, theirs = socket.socketpair()
    ranks = [
        subprocess.Popen([sys.executable, __file__], stdin=end, env={**os.environ, "RANK": str(rank)})
        for rank, end in enumerate((ours, theirs))
    ]
    ours.close(), theirs.close()
    for rank in ranks:
        rank.wait()
    raise RuntimeError("rank failed")
peer = socket.socket(fileno=0)
peer.sendall(b"ready")
if os.environ["RANK"] == "0":
    while peer.recv(100):
        pass
    raise RuntimeError("[pair.cc:553] Connection closed by peer [127.0.0.1]:20887")
peer.recv(5)
leave_little()
kept = []
while True:
    kept.append(bytearray(16 << 20))
"""
)
SERVER = (
    LIMITED
    + """
from limit import leave_little
def serve(fails):
    if fails:
        leave_little()
        kept = [bytearray(16 << 20) for _ in range(100)]
    signal.pause()
def start(fails):
    pid = os.fork()
    if not pid:
        serve(fails)
    return pid
workers = [start(fails) for fails in (False, True)]
gone, status = os.wait()
print(gone == workers[1], status)
time.sleep(0.3)
workers[1] = start(False)
time.sleep(0.3)
for worker in workers:
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
sys.exit(3)
"""
)
MANY = """
import os, sys
held, go = os.pipe()
def work():
    os.close(go)
    os.read(held, 1)
    raise MemoryError("in worker")
workers = []
for _ in range(64):
    pid = os.fork()
    if not pid:
        work()
    workers.append(pid)
os.close(go)
ends = [os.waitpid(pid, 0)[1] for pid in workers]
sys.exit(5 if ends == [256] * 64 else 6)
"""


def write(folder: Path, text: str) -> list[str]:
    (folder / "job.py").write_text(text)
    return [PYTHON, str(folder / "job.py")]


def nothing_is_left(bundle: Path) -> None:
    """No process that the probe was in runs on."""

    def alive() -> list[int]:
        return [pid for pid in pids if Path(f"/proc/{pid}").exists() and _belongs(pid, bundle)]

    pids = [int(file.stem) for file in (bundle / "probe").iterdir()]
    wait_until(lambda: not alive(), 20)


def _belongs(pid: int, bundle: Path) -> bool:
    try:
        return os.fsencode(bundle) in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def test_ranks_of_a_launcher(tmp_path):
    bare, watched = run_both(write(tmp_path, LAUNCHER), tmp_path / "i")
    assert watched.returncode == bare.returncode == 1
    run = read_run(tmp_path / "i").run
    ranks = {process.rank: process.pid for process in run.processes}
    assert set(ranks) == {None, 0, 1}
    found = diagnose([tmp_path / "i"])
    (incident,) = found.incidents
    assert incident.cause == f"MemoryError in rank 1, process {ranks[1]}"
    assert found.facts.value("ranks.peers_lost_connection") is True
    assert found.findings[0].owner.startswith("list global 'kept'")
    nothing_is_left(tmp_path / "i")


def test_a_server_that_forks_its_workers(tmp_path):
    bare, watched = run_both(write(tmp_path, SERVER), tmp_path / "i")
    assert (watched.returncode, watched.stdout) == (bare.returncode, bare.stdout) == (3, b"True 256\n")
    run = read_run(tmp_path / "i").run
    # by their numbers: two that are forked at once may write their beginnings in either order
    master, _, failed, *_ = sorted(run.processes, key=lambda process: process.pid)
    assert failed.parent_pid == master.pid
    (incident,) = diagnose([tmp_path / "i"]).incidents
    assert incident.cause == f"MemoryError in process {failed.pid}"
    nothing_is_left(tmp_path / "i")


def test_sixty_four_workers_that_write_at_once(tmp_path):
    _, watched = run_both(write(tmp_path, MANY), tmp_path / "i")
    assert watched.returncode == 5
    run = read_run(tmp_path / "i").run
    assert run.complete
    assert len(run.processes) == 65
    assert len({error.pid for error in run.exceptions}) == len(run.exceptions) == 64
    assert len(diagnose([tmp_path / "i"]).incidents) == 1


LAUNCHERS_PYTHON = os.environ.get("OOMDOCTOR_LAUNCHERS_PYTHON", sys.executable)
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "ranks.py")
ACCELERATE = (
    "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1", "--num_machines", "1",
    "--mixed_precision", "no", "--dynamo_backend", "no", "with_accelerate.py",
)  # fmt: skip
REAL = {
    "torchrun": ("torch", TORCHRUN, 1, 3, r"RuntimeError in rank 1, process \d+"),
    "torchrun, a rank killed": ("torch", (*TORCHRUN, "killed"), 1, 3, r"rank 1, process \d+, killed"),
    "accelerate launch": ("accelerate", ACCELERATE, 1, 2, r"RuntimeError in process \d+"),
    "accelerate under torchrun": (
        "accelerate", (*TORCHRUN[:-1], "with_accelerate.py"), 1, 3, r"RuntimeError in rank 1, process \d+",
    ),
    "Lightning": ("lightning", ("with_lightning.py",), 1, 1, r"RuntimeError in process \d+"),
    "transformers": ("transformers", ("with_transformers.py", "OUT"), 1, 1, r"RuntimeError in process \d+"),
    "a task of Ray": ("ray", ("with_ray.py", "task"), 1, 4, r"numpy\S+ArrayMemoryError in process \d+"),
    "an actor of Ray": ("ray", ("with_ray.py", "actor"), 1, 4, r"numpy\S+ArrayMemoryError in process \d+"),
    "nbconvert": (
        "nbconvert", ("-m", "nbconvert", "--to", "notebook", "--execute", "OUT/book.ipynb"), 1, 2,
        r"MemoryError in process \d+",
    ),
    "gunicorn": ("gunicorn", ("with_gunicorn.py",), 3, 5, r"process \d+ killed"),
}  # fmt: skip
"""What must be installed, the job, its status, how many processes at least have records, and the one incident."""
CELLS = (
    "import sys; sys.path.insert(0, FOLDER); from limit import leave_little; leave_little(); kept = []",
    "while True: kept.append(bytearray(16 << 20))",
)


def write_notebook(path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": text.replace("FOLDER", repr(str(JOBS))), "metadata": {}, "outputs": [], "id": i,
         "execution_count": None}
        for i, text in zip(("one", "two"), CELLS, strict=True)
    ]  # fmt: skip
    kernel = {"name": "python3", "display_name": "Python", "language": "python"}
    path.write_text(
        json.dumps({"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})
    )


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("which", REAL)
def test_real_launchers(tmp_path, which):
    module, words, status, processes, cause = REAL[which]
    if subprocess.run([LAUNCHERS_PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{module} is not installed here")
    write_notebook(tmp_path / "book.ipynb")
    command = [LAUNCHERS_PYTHON, *(word.replace("OUT", str(tmp_path)) for word in words)]
    variables = clean_environment(OMP_NUM_THREADS="1")
    bare, watched = run_both(command, tmp_path / "i", timeout=300, cwd=JOBS, env=variables)
    assert watched.returncode == bare.returncode == status, watched.stderr.decode()
    assert len(list((tmp_path / "i/probe").iterdir())) >= processes
    assert read_run(tmp_path / "i").run.complete
    (incident,) = diagnose([tmp_path / "i"]).incidents
    assert re.fullmatch(cause, incident.cause)
    nothing_is_left(tmp_path / "i")
