"""GIVEN a process in a PID namespace of its own WHEN it is looked at from outside THEN its own number is known."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import fake_nvml
import pytest

from oomdoctor.bundle.read import read_bundle
from oomdoctor.bundle.write import BundleWriter
from oomdoctor.collect.namespace import in_the_first_namespace, inner_pid
from oomdoctor.run import watch
from oomdoctor.run.baseline import read_baseline


@pytest.fixture
def in_its_own_namespace():
    """The process id, here, of a process that calls itself 1."""
    process = subprocess.Popen(["unshare", "--pid", "--fork", "sleep", "30"], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 10
        while process.poll() is None and time.monotonic() < deadline:
            with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
                children = file.read().split()
            if children:
                break
            time.sleep(0.01)
        else:
            pytest.skip("no PID namespace can be made here")
        yield int(children[0])
        os.kill(int(children[0]), 9)
    finally:
        process.kill()
        process.wait()


def test_its_own_number_is_read(in_its_own_namespace):
    assert inner_pid(in_its_own_namespace) == 1
    assert inner_pid(os.getpid()) is None
    assert inner_pid(2**22 + 7) is None


def test_the_command_s_own_numbers_are_recorded_once(tmp_path, monkeypatch, in_its_own_namespace):
    card = {"name": "H100", "uuid": "GPU-1", "total": 80, "used": 9, "free": 71, "gpu": 0, "mig": 0}
    used = [(in_its_own_namespace, 5), (1, 3)]
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make([{**card, "compute": used, "graphics": []}]))
    watching = watch.Watch(writer := BundleWriter(tmp_path / "i"), 60.0, read_baseline())
    watching.start(in_its_own_namespace)
    watching._look_at_end()
    watching._look_at_end()
    watching.finish(crashed=False)
    writer.close()
    told = [record.data for record in read_bundle(tmp_path / "i").supervisor.of_kind("namespace")]
    assert [(data["pid"], data["inner_pid"]) for data in told] == [(in_its_own_namespace, 1)]


@pytest.mark.parametrize(("number", "first"), [("pid:[4026531836]", True), ("pid:[4026532221]", False)])
@pytest.mark.parametrize("pid", [2**22 + 7, 1])
def test_numbers_that_cannot_be_translated_are_said_to_be(tmp_path, monkeypatch, number, first, pid):
    """Inside a container the driver tells the machine's numbers: whose they are is not known."""
    monkeypatch.setattr(os, "readlink", lambda path: number)
    assert in_the_first_namespace() is first
    card = {"name": "H100", "uuid": "GPU-1", "total": 80, "used": 9, "free": 71, "gpu": 0, "mig": 0}
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make([{**card, "compute": [(pid, 5)], "graphics": []}]))
    watching = watch.Watch(writer := BundleWriter(tmp_path / "i"), 60.0, read_baseline())
    watching.start(os.getpid())
    watching._look_at_end()
    watching.finish(crashed=False)
    writer.close()
    said = [what for what, _, _ in watching.unseen]
    assert ("whose the processes on the devices are" in said) is (pid != 1 and not first)
