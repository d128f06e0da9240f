import os
import subprocess
import sys
import time

import pytest

from oomdoctor.collect import host
from oomdoctor.collect.host import Tree, TreeReader, describe_host, read_host, read_limits

MIB = 1 << 20


@pytest.fixture
def family():
    script = (
        "import os, sys, time\n"
        "held = bytearray(64 << 20)\n"
        "child = os.fork()\n"
        "if child: print('ready', flush=True)\n"
        "time.sleep(30)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    yield process
    os.killpg(process.pid, 9)
    process.wait()


def test_a_tree_counts_shared_pages_once(family):
    time.sleep(0.1)
    reader = TreeReader(family.pid)
    tree = reader.read()
    assert len(tree.pids) == 2
    assert tree.pids[0] == family.pid
    assert tree.virtual_bytes > 64 * MIB
    if not reader.shared_once:
        pytest.skip("reading the shared pages took too long on this machine")
    assert 64 * MIB < tree.resident_bytes < 110 * MIB


def test_a_process_started_since_the_last_look_is_known_by_who_started_it(family):
    time.sleep(0.1)
    reader = TreeReader(family.pid)
    _, child = reader.read().pids
    assert [reader.holds(pid) for pid in (family.pid, child, os.getpid(), 1, 1 << 22)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert not TreeReader(child).holds(family.pid)


def test_where_that_is_not_cheap_they_are_counted_in_each(family, monkeypatch):
    monkeypatch.setattr(host, "PSS_BUDGET_SECONDS", -1)
    reader = TreeReader(family.pid)
    assert reader.read().resident_bytes > 128 * MIB
    assert not reader.shared_once


def test_a_process_that_has_gone_is_an_empty_tree():
    process = subprocess.Popen(["true"])
    process.wait()
    assert TreeReader(process.pid).read() == Tree()


def test_the_machine():
    sample = read_host(Tree((1,), resident_bytes=5))
    assert 0 < sample.available_bytes <= sample.total_bytes
    assert (sample.tree_rss_bytes, sample.processes) == (5, 1)
    assert abs(sample.time_seconds - time.time()) < 5
    assert set(describe_host()) == {"platform", "kernel", "machine", "cpus", "node"}


def test_nothing_readable_is_none_everywhere(tmp_path):
    sample = read_host(Tree(), None, tmp_path)
    assert [name for name, value in vars(sample).items() if value is not None] == ["time_seconds"]
    limits = read_limits(root=tmp_path)
    assert limits.memory_total_bytes is limits.cgroup_limit_bytes is limits.shm_total_bytes is None


def test_limits_of_a_process():
    import resource

    script = "import time; print('ready', flush=True); time.sleep(30)"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    process.stdout.readline()
    resource.prlimit(process.pid, resource.RLIMIT_AS, (2 << 30, 2 << 30))
    limits, tree = read_limits(process.pid), TreeReader(process.pid).read()
    process.kill()
    process.communicate()
    assert limits.address_space_limit_bytes == tree.address_space_limit_bytes == 2 << 30
    assert "data_limit_bytes" in limits.unlimited
    assert "address_space_limit_bytes" not in limits.unlimited
