"""GIVEN a job of several processes WHEN host memory runs out in one THEN it is named, and the rest follow from it."""

from __future__ import annotations

from given import event, facts_of, run

from oomdoctor.diagnose.figures import notes_on_figures
from oomdoctor.facts import derive_facts
from oomdoctor.facts.host_errors import last_host_error, own_host_errors
from oomdoctor.facts.incidents import find_incidents
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import ExceptionRecord, ProcessRecord
from oomdoctor.model.source import Source

ARRAY = "numpy._core._exceptions._ArrayMemoryError"
UNABLE = "Unable to allocate 16.0 MiB for an array with shape (2097152,) and data type float64"


def error(pid: int, time: float, kind: str = "MemoryError", message: str = "", **fields: object) -> ExceptionRecord:
    source = Source(path="incident", record=f"probe/{pid}.records")
    return ExceptionRecord(source, time, pid, kind, message, (), is_memory_error=True, **fields)  # type: ignore[arg-type]


def processes(*links: tuple[int, int, int | None]) -> tuple[ProcessRecord, ...]:
    return tuple(ProcessRecord(pid, parent, ("python",), 1000.0, rank=rank) for pid, parent, rank in links)


def test_an_error_that_a_launcher_raises_again_is_the_workers():
    """A driver (10) unpickles what its worker (12, started by 11) met, and raises it under another name."""
    known = run(
        processes=processes((10, 1, None), (11, 10, None), (12, 11, None)),
        exceptions=(
            error(12, 1050.0, ARRAY, UNABLE, fatal=False, vm_size_bytes=900, address_space_limit_bytes=1000),
            error(10, 1050.1, ARRAY, UNABLE, fatal=False),
            error(10, 1050.2, "ray.exceptions.RayTaskError(MemoryError)", "ray::f() …", from_worker=True),
        ),
    )
    assert [one.pid for one in own_host_errors(known)] == [12]
    (incident,) = find_incidents(Evidence(runs=(known,)))
    assert incident.cause == f"{ARRAY} in process 12"
    assert derive_facts(Evidence(runs=(known,))).value("host.process_limit_bytes") == 1000


def test_equal_errors_of_two_workers_are_two():
    known = run(
        processes=processes((10, 1, None), (11, 10, None), (12, 10, None)),
        exceptions=(error(11, 1050.0, ARRAY, UNABLE), error(12, 1050.1, ARRAY, UNABLE)),
    )
    assert [one.pid for one in own_host_errors(known)] == [11, 12]


def test_a_received_error_whose_origin_nobody_recorded_stays():
    known = run(exceptions=(error(10, 1050.0, from_worker=True),))
    assert last_host_error(known) is known.exceptions[0]


def test_of_ranks_that_end_together_the_first_is_named():
    known = run(
        processes=processes((10, 1, None), (11, 10, 0), (12, 10, 1)),
        exceptions=(error(12, 1050.0, rank=1), error(11, 1053.0, rank=0)),
    )
    (incident,) = find_incidents(Evidence(runs=(known,)))
    assert (incident.cause, incident.when_seconds) == ("MemoryError in rank 1, process 12", 1050.0)
    assert incident.then == "1 more processes ran out after it"
    facts = derive_facts(Evidence(runs=(known,)))
    assert (facts.value("ranks.failed"), facts.value("ranks.first_failed")) == (2, "rank 1")


def test_a_worker_that_failed_long_after_another_failed_for_itself():
    known = run(exceptions=(error(12, 1010.0), error(11, 1090.0)))
    assert [i.cause for i in find_incidents(Evidence(runs=(known,)))] == [
        "MemoryError in process 11",
        "MemoryError in process 12",
    ]


def test_peers_that_lost_their_connection_follow_from_the_rank_that_failed():
    known = run(processes=processes((10, 1, None), (11, 10, 0), (12, 10, 1)), exceptions=(error(12, 1050.0, rank=1),))
    lost = event(EventKind.PEER_LOST, rank=0, library="gloo")
    ended = event(EventKind.PROCESS_KILLED, signal=15, pid=11, reported_by="elastic", oom_stated=False)
    evidence = Evidence(events=(lost, ended), runs=(known,))
    assert [one.cause for one in find_incidents(evidence)] == ["MemoryError in rank 1, process 12"]
    (note,) = notes_on_figures(evidence, derive_facts(evidence), ())
    assert note.startswith("Only rank 1 ran out of memory; others report that a connection was lost.")


def test_the_rank_that_a_launcher_found_killed():
    known = run(processes=processes((10, 1, None), (11, 10, 0), (12, 10, 1)))
    lost = event(EventKind.PEER_LOST, rank=0, library="gloo")
    killed, ended = (
        event(EventKind.PROCESS_KILLED, signal=number, pid=pid, reported_by="elastic", oom_stated=False)
        for number, pid in ((9, 12), (15, 11))
    )
    evidence = Evidence(events=(lost, killed, ended, killed), runs=(known,))
    (incident,) = find_incidents(evidence)
    assert incident.cause == "rank 1, process 12, killed"
    (note,) = notes_on_figures(evidence, derive_facts(evidence), ())
    assert note.startswith("What was killed is rank 1; others report that a connection was lost")


def test_one_that_was_terminated_and_none_killed_is_told():
    ended = event(EventKind.PROCESS_KILLED, signal=15, pid=11, reported_by="elastic", oom_stated=False)
    assert len(find_incidents(Evidence(events=(ended,)))) == 1
    assert facts_of(ended).value("ranks.first_killed") is None
