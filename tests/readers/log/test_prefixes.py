from __future__ import annotations

import pytest

from oomdoctor.readers.log.prefixes import strip, strip_log_header
from oomdoctor.readers.times import unix_time

NOON = 1741384173.0  # 2025-03-07 21:49:33 UTC


@pytest.mark.parametrize(
    ("line", "text", "rank", "pid", "time"),
    [
        ('[rank7]:   File "a.py"', '  File "a.py"', 7, None, None),
        ("[3]:text", "text", 3, None, None),
        ("[default2]:text", "text", 2, None, None),
        ("(EngineCore_DP0 pid=11) text", "text", None, 11, None),
        ("(VllmWorker rank=1 pid=12) text", "text", 1, 12, None),
        ("(VllmWorker rank=7) text", "text", 7, None, None),
        ("(Worker_TP3 pid=13) text", "text", 3, 13, None),
        ("(RayWorkerVllm pid=14) text", "text", None, 14, None),
        ("(WorkerDict pid=15, ip=10.0.0.2) text", "text", None, 15, None),
        ("(pid=16) text", "text", None, 16, None),
        ("(raylet) text", "text", None, None, None),
        ("(raylet, ip=10.0.0.1) text", "text", None, None, None),
        ("[2025-03-07 21:49:33 TP13] text", "text", 13, None, NOON),
        ("[2025-03-07 21:49:33 DP0 TP2 EP2] text", "text", 2, None, NOON),
        ("[2025-03-07 21:49:33] text", "text", None, None, NOON),
        ("[TP4] text", "text", 4, None, None),
        ("vllm-1  | text", "text", None, None, None),
        ("Mar  7 21:49:33 node1 kernel: [ 4.973019] text", "text", None, None, None),
        ("Mar  7 21:49:33 node1 python[77]: text", "text", None, 77, None),
        ("2025-03-07T21:49:33+0000 node1 python3[78]: text", "text", None, 78, NOON),
        ("2025-03-07T21:49:33.000000000Z stderr F text", "text", None, None, NOON),
        ("2025-03-07T23:49:33+02:00 text", "text", None, None, NOON),
        ("[Fri Mar  7 21:49:33 2025] text", "text", None, None, None),
        ("E       text", "text", None, None, None),
        ("│ text      │", "text", None, None, None),
        ("> > text", "text", None, None, None),
        ("(Worker pid=5) text [repeated 7x across cluster]", "text", None, 5, None),
        ("web  | [rank1]: (Actor pid=9) text", "text", 1, 9, None),
        ('{"log":"say \\"hi\\"\\n","stream":"stderr","time":"2025-03-07T21:49:33Z"}', 'say "hi"', None, None, NOON),
        (
            "INFO 2025-03-07T21:49:33.000123Z [resource.labels.containerName: llm] (EngineCore pid=4) text",
            "text",
            None,
            4,
            unix_time("2025-03-07T21:49:33.000123Z"),
        ),
        ("ERROR 2025-03-07T21:49:33Z [resource.labels.podName: a-1] [labels.app: b] text", "text", None, None, NOON),
        ("DEFAULT 2025-03-07T21:49:33Z text", "text", None, None, NOON),
        ("INFO 2025-03-07 21:49:33,120 text", "INFO 2025-03-07 21:49:33,120 text", None, None, None),
        ("(all ranks raise the same)", "(all ranks raise the same)", None, None, None),
        ("|   0  NVIDIA A100 |", "|   0  NVIDIA A100 |", None, None, None),
        ("[1, 2, 3]", "[1, 2, 3]", None, None, None),
        ("ERROR: text", "ERROR: text", None, None, None),
    ],
)
def test_strip(line: str, text: str, rank: int | None, pid: int | None, time: float | None) -> None:
    found = strip(line)
    assert (found.text, found.rank, found.pid, found.time_seconds) == (text, rank, pid, time)


def test_streams_tell_writers_apart() -> None:
    assert strip("[rank0]: a").stream != strip("[rank1]: a").stream
    assert strip("a").stream == strip("[2025-03-07 21:49:33 TP1] a").stream == ""


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('ERROR 10-02 04:47:39 [core.py:708]   File "x.py"', '  File "x.py"'),
        ("INFO 10-02 04:47:39 llm_engine.py:161] text", "text"),
        ("WARNING [v1/engine/core.py:855] text", "text"),
        ("ERROR: text", "ERROR: text"),
        ("ERROR     output_i = f(x)", "    output_i = f(x)"),
    ],
)
def test_strip_log_header(line: str, text: str) -> None:
    assert strip_log_header(line) == text


def test_a_time_that_is_none_is_unknown() -> None:
    assert unix_time("2025-13-40T99:00:00Z") is None
    assert unix_time("soon") is None
    assert unix_time("2025-03-07 21:49:33,500") == NOON + 0.5
