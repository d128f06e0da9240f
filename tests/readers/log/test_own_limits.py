# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN a refusal of a server's, a language's or a platform's WHEN it is read THEN who refused, what and at which limit."""

from __future__ import annotations

import io
from typing import Any

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.readers.log.engine import read_log

MIB = 1 << 20
FORMS: list[tuple[str, K, dict[str, Any]]] = [
    (
        "[30-Nov-2026 10:00:00 UTC] PHP Fatal error:  Allowed memory size of 134217728 bytes exhausted (tried to allocate 20480 bytes) in /srv/a.php on line 3",
        K.HOST_ALLOCATION_FAILED, {"allocator": "php", "pool": "own-limit", "limit_bytes": 128 * MIB, "requested_bytes": 20480},
    ),
    (
        "PHP Fatal error:  Out of memory (allocated 1310720000) (tried to allocate 67108864 bytes) in /srv/a.php on line 4",
        K.HOST_ALLOCATION_FAILED, {"allocator": "php", "pool": None, "used_bytes": 1310720000, "requested_bytes": 64 * MIB},
    ),
    ("Unhandled exception. System.OutOfMemoryException: Exception of type 'System.OutOfMemoryException' was thrown.", K.HOST_ALLOCATION_FAILED, {"allocator": "dotnet"}),
    ("/srv/import.rb:12:in `read': failed to allocate memory (NoMemoryError)", K.HOST_ALLOCATION_FAILED, {"allocator": "ruby"}),
    ("[FATAL] failed to allocate memory", K.HOST_ALLOCATION_FAILED, {"allocator": "ruby"}),
    ('eheap_alloc: Cannot allocate 1781763260 bytes of memory (of type "heap").', K.HOST_ALLOCATION_FAILED, {"allocator": "erlang", "requested_bytes": 1781763260}),
    ('binary_alloc: Cannot reallocate 1048576 bytes of memory (of type "binary").', K.HOST_ALLOCATION_FAILED, {"allocator": "erlang", "requested_bytes": MIB}),
    ("Fatal error: exception Out_of_memory", K.HOST_ALLOCATION_FAILED, {"allocator": "malloc"}),
    ("[812:812:1130/100000.123456:FATAL:memory.cc(38)] Out of memory. size=268439552", K.HOST_ALLOCATION_FAILED, {"requested_bytes": 268439552}),
    ("# Fatal javascript OOM in Reached heap limit", K.HOST_ALLOCATION_FAILED, {"allocator": "v8", "pool": "heap"}),
    (
        '2026-11-30 10:00:00.123 UTC [812] DETAIL:  Failed on request of size 1073741824 in memory context "ExecutorState".',
        K.HOST_ALLOCATION_FAILED, {"allocator": "postgres", "requested_bytes": 1 << 30},
    ),
    ("2026-11-30T10:00:00.000000Z 0 [ERROR] [MY-012681] [InnoDB] mmap(137363456 bytes) failed; errno 12", K.HOST_ALLOCATION_FAILED, {"allocator": "mysql", "requested_bytes": 137363456}),
    ("ERROR 1041 (HY000): Out of memory; check if mysqld or some other process uses all available memory", K.HOST_ALLOCATION_FAILED, {"allocator": "mysql"}),
    ("zmalloc: Out of memory trying to allocate 268435470 bytes", K.HOST_ALLOCATION_FAILED, {"allocator": "redis", "requested_bytes": 268435470}),
    ("redis.exceptions.OutOfMemoryError: command not allowed when used memory > 'maxmemory'.", K.HOST_ALLOCATION_FAILED, {"allocator": "redis", "pool": "own-limit"}),
    ("Process finished with exit code -1073741801 (0xC0000017)", K.HOST_ALLOCATION_FAILED, {"allocator": "malloc"}),
    ("Process finished with exit code -1073741819 (0xC0000005)", K.ENDED, {"how": "segmentation-fault"}),
    ("(error) OOM command not allowed when used memory > 'maxmemory'.", K.HOST_ALLOCATION_FAILED, {"allocator": "redis", "pool": "own-limit"}),
    (
        "CircuitBreakingException: [parent] Data too large, data for [<http_request>] would be [1027528462/979.9mb], which is larger than the limit of [1020054732/972.7mb]",
        K.HOST_ALLOCATION_FAILED, {"allocator": "elasticsearch", "pool": "own-limit", "used_bytes": 1027528462, "limit_bytes": 1020054732},
    ),
    (
        "Code: 241. DB::Exception: Memory limit (for query) exceeded: would use 12.00 GiB (attempt to allocate chunk of 134217728 bytes), maximum: 8.00 GiB: While executing AggregatingTransform.",
        K.HOST_ALLOCATION_FAILED, {"allocator": "clickhouse", "used_bytes": 12 << 30, "limit_bytes": 8 << 30, "requested_bytes": 128 * MIB},
    ),
    (
        "DB::Exception: (total) memory limit exceeded: would use 3.10 GiB (attempt to allocate chunk of 4194304 bytes), current RSS 31.00 GiB, maximum: 30.00 GiB. (MEMORY_LIMIT_EXCEEDED)",
        K.HOST_ALLOCATION_FAILED, {"allocator": "clickhouse", "limit_bytes": 30 << 30, "requested_bytes": 4 * MIB},
    ),
    ("DB::Exception: Query memory limit exceeded: would use 9.00 GiB (attempt to allocate chunk of 1048576 bytes), maximum: 8.00 GiB.", K.HOST_ALLOCATION_FAILED, {"allocator": "clickhouse", "limit_bytes": 8 << 30}),
    ("Error: vector memory limit of 16.0 Gb reached, see mem.maxVSize()", K.HOST_ALLOCATION_FAILED, {"allocator": "r", "pool": "own-limit", "limit_bytes": 16 << 30}),
    ("Error in read.csv(path) : vector memory exhausted (limit reached?)", K.HOST_ALLOCATION_FAILED, {"allocator": "r", "pool": "own-limit"}),
    ("  Reached total allocation of 8070Mb: see help(memory.size)", K.HOST_ALLOCATION_FAILED, {"allocator": "r", "limit_bytes": 8070 * MIB}),
    ("com.chaquo.python.PyException: MemoryError: ", K.HOST_ALLOCATION_FAILED, {"allocator": "python"}),
    ("concurrent.futures.process.WorkerError: MemoryError", K.HOST_ALLOCATION_FAILED, {"allocator": "python"}),
    ("Error: cannot allocate memory block of size 3.2 Gb", K.HOST_ALLOCATION_FAILED, {"allocator": "malloc", "requested_bytes": round(3.2 * (1 << 30))}),
    ("Requested 90000x90000 (60.3GB) array exceeds maximum array size preference (31.9GB).", K.HOST_ALLOCATION_FAILED, {"allocator": "matlab", "pool": "own-limit"}),
    ("OutOfMemoryError()\nStacktrace:\n  [1] Array", K.HOST_ALLOCATION_FAILED, {"allocator": "malloc"}),
    ("Out of Memory Error: failed to allocate data of size 32.0 MiB (2.0 GiB/2.0 GiB used)", K.HOST_ALLOCATION_FAILED, {"allocator": "duckdb", "requested_bytes": 32 * MIB, "limit_bytes": 2 << 30}),
    ('ERROR:  could not resize shared memory segment "/PostgreSQL.1234" to 67145344 bytes: No space left on device', K.SHM_EXHAUSTED, {"requested_bytes": 67145344}),
    ("bash: fork: Kann nicht genügend Speicher zuordnen", K.HOST_ALLOCATION_FAILED, {"allocator": "fork"}),
    ("./run: échec: Ne peut allouer de la mémoire", K.HOST_ALLOCATION_FAILED, {"allocator": "malloc"}),
    ("OSError: [Errno 12] Ne peut allouer de la mémoire", K.HOST_ALLOCATION_FAILED, {"allocator": "malloc"}),
    ("./train.sh: Zeile 12:  4821 Getötet                python train.py", K.PROCESS_KILLED, {"signal": 9, "pid": 4821, "program": "python train.py"}),
    ("./train.sh : ligne 12 : 4821 Processus arrêté         python train.py", K.PROCESS_KILLED, {"signal": 9, "pid": 4821}),
    ("Getötet", K.PROCESS_KILLED, {"signal": 9}),
    ("[2026-11-30 10:00:00,123: ERROR/MainProcess] Process 'ForkPoolWorker-3' pid:812 exited with 'signal 9 (SIGKILL)'", K.PROCESS_KILLED, {"reported_by": "celery", "pid": 812, "signal": 9}),
    ("[2026-11-30, 10:00:00 UTC] {local_task_job_runner.py:228} INFO - Task exited with return code Negsignal.SIGKILL", K.PROCESS_KILLED, {"reported_by": "airflow", "signal": 9}),
    ("2026-11-30 10:00:00.123 UTC [1] LOG:  server process (PID 812) was terminated by signal 9: Killed", K.PROCESS_KILLED, {"reported_by": "postgres", "pid": 812}),
    ("REPORT RequestId: ab Duration: 3000.00 ms Billed Duration: 3000 ms Memory Size: 128 MB\tMax Memory Used: 128 MB", K.MEMORY_LIMIT_HIT, {"system": "lambda", "limit_bytes": 128 * MIB}),
    ("2026-11-30T10:00:00.000000+00:00 heroku[web.1]: Error R15 (Memory quota vastly exceeded)", K.MEMORY_LIMIT_HIT, {"system": "heroku"}),
    ("Memory limit of 512 MiB exceeded with 530 MiB used.", K.MEMORY_LIMIT_HIT, {"system": "cloud-run", "limit_bytes": 512 * MIB, "used_bytes": 530 * MIB}),
    ("\tJob has gone over memory limit of 2048 megabytes. Peak usage: 2050 megabytes.", K.MEMORY_LIMIT_HIT, {"system": "condor", "limit_bytes": 2 << 30}),
    ("OSError: [Errno 28] No space left on device: '/checkpoints/step-100.pt'", K.ENDED, {"how": "disk-full"}),
    ("ERROR: failed to register layer: write /usr/lib/libcudnn.so: no space left on device", K.ENDED, {"how": "disk-full"}),
]  # fmt: skip

NOT_THAT = [
    "REPORT RequestId: ab Duration: 30.00 ms Billed Duration: 30 ms Memory Size: 512 MB\tMax Memory Used: 129 MB",
    "If you see System.OutOfMemoryException: read the page on it",
    "# raise memory_limit when Allowed memory size of 134217728 bytes exhausted (tried to allocate 20480 bytes) comes up",
    "Das Protokoll sagt, der Prozess wurde Getötet genannt",
    "DETAIL: Failed on request of size unknown",
    "except OutOfMemoryError():",
    "If vector memory exhausted (limit reached?) comes up, set R_MAX_VSIZE",
    "LOG:  server process (PID 812) was terminated by signal 15: Terminated",
    "OSError: [Errno 28] No space left on device: '/dev/shm/torch_812_1234_0'",
]


def read(text: str) -> list[Any]:
    return list(read_log(io.BytesIO(f"{text}\n".encode()), "x.log").events)


@pytest.mark.parametrize(("text", "kind", "fields"), FORMS, ids=[text[:50] for text, _, _ in FORMS])
def test_read(text, kind, fields):
    found = [event for event in read(text) if event.kind is kind]
    assert len(found) == 1, read(text)
    assert {name: found[0].fields.get(name) for name in fields} == fields
    failures = {K.DEVICE_OOM, K.HOST_ALLOCATION_FAILED, K.PROCESS_KILLED, K.MEMORY_LIMIT_HIT, K.SHM_EXHAUSTED, K.ENDED}
    assert [event.kind for event in read(text) if event.kind in failures] == [kind]


@pytest.mark.parametrize("text", NOT_THAT)
def test_not_read_as_one(text):
    assert not [event for event in read(text) if event.kind not in (K.EXCEPTION, K.SHM_EXHAUSTED)]
