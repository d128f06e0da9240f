import os

from oomdoctor.collect.kernel_log import MAX_KEPT_BYTES, KernelLog, lines_about_memory, parse_messages

KILL = [
    b"4,100,5000001,-;python invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0\n SUBSYSTEM=x\n",
    b"6,101,5000002,-;Tasks state (memory values in pages):\n",
    b"6,102,5000003,-;[    442]     0   442   123456    7890   1234        0             0 python\n",
    b"3,103,5000004,-;Memory cgroup out of memory: Killed process 442 (python) total-vm:493824kB, anon-rss:98304kB\n",
    b"6,104,6000000,-;eth0: link up\n",
]


def test_a_killers_report_is_kept_whole_and_the_rest_is_not():
    lines = lines_about_memory(parse_messages(KILL))
    assert len(lines) == 4
    assert lines[0] == "[    5.000001] python invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0"
    assert "[    442]" in lines[2]
    assert "Killed process 442" in lines[3]


def test_damaged_messages_are_passed_over():
    assert list(parse_messages([b"", b"nonsense", b"a,b,c;d", b"1,2;x", b"6,1,7,-;fine"])) == ["[    0.000007] fine"]


def test_much_is_bounded_to_the_latest():
    lines = lines_about_memory(f"oom {number} {'x' * 1000}" for number in range(5000))
    assert sum(len(line) + 1 for line in lines) <= MAX_KEPT_BYTES
    assert lines[-1].startswith("oom 4999 ")


def test_a_log_that_cannot_be_read_says_why(tmp_path):
    log = KernelLog(str(tmp_path / "kmsg"))
    assert log.reason.endswith("kmsg: No such file or directory")
    assert log.lines() == []


def test_only_what_came_since_is_read(tmp_path):
    file = tmp_path / "kmsg"
    file.write_bytes(b"6,1,1000000,-;oom of long ago\n")
    log = KernelLog(str(file))
    assert log.reason is None
    with file.open("ab") as stream:
        stream.write(KILL[3])
    assert [line[15:] for line in log.lines()] == [os.fsdecode(KILL[3].partition(b";")[2].rstrip())]
    log.close()
    assert log.lines() == []
