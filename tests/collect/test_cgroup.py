import pytest

from oomdoctor.collect.cgroup import find_memory_cgroup, read_pressure, read_system_oom_kills

MIB = 1 << 20
UNLIMITED_V1 = "9223372036854771712\n"


def tree(root, files):
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.fixture
def version_2(tmp_path):
    return tree(
        tmp_path,
        {
            "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
            "proc/self/cgroup": "0::/pod/job\n",
            "sys/fs/cgroup/pod/memory.max": f"{512 * MIB}\n",
            "sys/fs/cgroup/pod/memory.current": f"{400 * MIB}\n",
            "sys/fs/cgroup/pod/memory.events": "low 0\nhigh 0\nmax 17\noom 3\noom_kill 5\n",
            "sys/fs/cgroup/pod/job/memory.max": "max\n",
            "sys/fs/cgroup/pod/job/memory.current": f"{100 * MIB}\n",
            "sys/fs/cgroup/pod/job/memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\n",
        },
    )


def test_version_2_takes_the_smallest_limit_of_the_ancestors(version_2):
    group = find_memory_cgroup(root=version_2)
    assert (group.version, group.path) == (2, "/pod/job")
    limit, setter = group.limit()
    assert (limit, setter.path) == (512 * MIB, "/pod")
    assert group.used() == 400 * MIB
    counters = group.counters()
    assert (counters.oom, counters.oom_kill, counters.failcnt) == (3, 2, 17)


def test_version_2_without_limit(version_2):
    (version_2 / "sys/fs/cgroup/pod/memory.max").write_text("max\n")
    group = find_memory_cgroup(root=version_2)
    assert group.limit() == (None, None)
    assert group.used() == 100 * MIB


@pytest.fixture
def version_1(tmp_path):
    memory = "sys/fs/cgroup/memory"
    return tree(
        tmp_path,
        {
            "proc/self/mountinfo": (
                "29 23 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                "35 23 0:31 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
            ),
            "proc/7/cgroup": "9:name=systemd:/\n4:memory:/job/step\n1:cpu,cpuacct:/\n0::/\n",
            f"{memory}/memory.limit_in_bytes": UNLIMITED_V1,
            f"{memory}/job/memory.limit_in_bytes": f"{64 * MIB}\n",
            f"{memory}/job/memory.usage_in_bytes": f"{60 * MIB}\n",
            f"{memory}/job/memory.failcnt": "9\n",
            f"{memory}/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
            f"{memory}/job/step/memory.limit_in_bytes": UNLIMITED_V1,
            f"{memory}/job/step/memory.failcnt": "0\n",
            f"{memory}/job/step/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        },
    )


def test_version_1_on_a_machine_that_mounts_both(version_1):
    group = find_memory_cgroup(7, root=version_1)
    assert (group.version, group.path) == (1, "/job/step")
    limit, setter = group.limit()
    assert (limit, setter.path) == (64 * MIB, "/job")
    assert group.used() == 60 * MIB
    counters = group.counters()
    assert (counters.oom, counters.oom_kill, counters.failcnt) == (None, 1, 9)


def test_version_1_of_an_old_kernel_without_kill_counter(version_1):
    (version_1 / "sys/fs/cgroup/memory/job/step/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\n")
    assert find_memory_cgroup(7, root=version_1).counters().oom_kill is None


@pytest.mark.parametrize("mounted", ["/docker/abc", "/elsewhere"])
def test_in_a_container_that_sees_only_its_own_part(tmp_path, mounted):
    root = tree(
        tmp_path,
        {
            "proc/self/mountinfo": f"35 23 0:31 {mounted} /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            "proc/self/cgroup": "4:memory:/docker/abc\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{32 * MIB}\n",
        },
    )
    assert find_memory_cgroup(root=root).limit()[0] == 32 * MIB


def test_a_path_that_climbs_is_not_followed(version_2):
    (version_2 / "proc/self/cgroup").write_text("0::/../../../etc\n")
    assert find_memory_cgroup(root=version_2).directory == version_2 / "sys/fs/cgroup"


@pytest.mark.parametrize("lines", ["", "nonsense\n", "4:cpu:/\n"])
def test_without_a_memory_group(tmp_path, lines):
    assert find_memory_cgroup(root=tmp_path) is None
    tree(tmp_path, {"proc/self/cgroup": lines, "proc/self/mountinfo": "x\n"})
    assert find_memory_cgroup(root=tmp_path) is None


def test_pressure(tmp_path):
    assert read_pressure(tmp_path) is None
    text = "some avg10=1.50 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.75 avg60=0.00 avg300=0.00 total=4\n"
    tree(tmp_path, {"proc/pressure/memory": text})
    assert read_pressure(tmp_path) == 0.75
    tree(tmp_path, {"proc/pressure/memory": "full avg10=? avg60=0\n"})
    assert read_pressure(tmp_path) is None


def test_system_kills(tmp_path):
    assert read_system_oom_kills(tmp_path) is None
    tree(tmp_path, {"proc/vmstat": "nr_free_pages 12\noom_kill 3\n"})
    assert read_system_oom_kills(tmp_path) == 3
