"""GIVEN how a run ended WHEN it is judged THEN only what the diagnosis calls so is out of memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oomdoctor.model.diagnosis import Verdict
from oomdoctor.model.run import DeviceOomRecord, ExceptionRecord, RunRecord
from oomdoctor.model.source import Source
from oomdoctor.sweep.measure import Recipe, judge
from oomdoctor.sweep.outcomes import Kind
from oomdoctor.sweep.process import Ended

RUN = RunRecord("run", ("serve",), None, 0.0, 1.0, 1, None)
ERROR = ExceptionRecord(Source(path="probe"), 1.0, 7, "KeyError", "'ctx'\nmore", ())


def judged(ended: Ended, verdict: Verdict | None = None, run: RunRecord = RUN, **recipe: Any) -> tuple[Kind, str, bool]:
    diagnosis = None if verdict is None else SimpleNamespace(verdict=verdict, summary="Memory ran out.")
    return judge(ended, run, Recipe(("serve",), **recipe), lambda: diagnosis)  # type: ignore[arg-type, return-value]


def test_what_ends_well_and_shows_no_sign_is_not_even_diagnosed() -> None:
    def never() -> None:
        raise AssertionError

    assert judge(Ended(status=0), RUN, Recipe(("serve",)), never) == (Kind.RAN, "", False)


def test_out_of_memory_is_out_of_memory_also_where_the_program_caught_it() -> None:
    assert judged(Ended(status=1), Verdict.OUT_OF_MEMORY) == (Kind.OUT_OF_MEMORY, "Memory ran out.", False)
    kind, detail, _ = judged(Ended(status=0, out_of_memory_seen=True), Verdict.OUT_OF_MEMORY)
    assert (kind, detail) == (
        Kind.OUT_OF_MEMORY, "Memory ran out. It ended well all the same.",
    )  # fmt: skip
    assert judged(Ended(timed_out=True, status=0), Verdict.OUT_OF_MEMORY)[0] is Kind.OUT_OF_MEMORY


def test_a_request_that_the_allocator_refused_is_out_of_memory_whatever_the_program_made_of_it() -> None:
    refused = DeviceOomRecord(Source(path="probe"), 1.0, 7, 0, 1 << 30, 2 << 30, 0, None)
    run = RunRecord("run", ("serve",), None, 0.0, 1.0, 0, None, device_ooms=(refused,))
    seen = Ended(status=0, out_of_memory_seen=True)
    assert judged(seen, Verdict.DEGRADED, run)[0] is Kind.OUT_OF_MEMORY


def test_words_that_sound_like_it_are_no_failure_of_what_ended_well() -> None:
    seen = Ended(status=0, out_of_memory_seen=True)
    assert judged(seen, Verdict.NO_FAILURE) == (Kind.RAN, "", False)
    assert judged(seen, Verdict.DEGRADED) == (Kind.RAN, "", True)


@pytest.mark.parametrize("verdict", [Verdict.UNDETERMINED, Verdict.NOT_OUT_OF_MEMORY, Verdict.NO_FAILURE])
@pytest.mark.parametrize(
    ("ended", "run", "says"),
    [
        (Ended(status=3), RUN, "It ended with exit status 3; nothing says that memory was the reason."),
        (Ended(signal=9), RUN, "It was killed by SIGKILL; nothing says that memory was the reason."),
        (Ended(status=1), RunRecord("run", (), None, 0.0, 1.0, 1, None, exceptions=(ERROR,)),
         "It ended with KeyError: 'ctx' more"),
        (Ended(), RUN, "How it ended is not known."),
    ],
)  # fmt: skip
def test_another_end_is_told_and_is_no_misfit(ended: Ended, run: RunRecord, says: str, verdict: Verdict) -> None:
    assert judged(ended, verdict, run) == (Kind.FAILED, says, False)


def test_time_and_the_awaited_text() -> None:
    kind, detail, _ = judged(Ended(timed_out=True, signal=2), Verdict.UNDETERMINED, timeout_seconds=90)
    assert (kind, detail) == (Kind.TIMED_OUT, "It had not ended after 90 s, and was ended.")
    assert judged(Ended(reached=True, signal=2), until="ready") == (Kind.RAN, "", False)
    kind, detail, _ = judged(Ended(status=0), Verdict.NO_FAILURE, until="ready")
    assert (kind, detail) == (Kind.FAILED, "It ended before it printed 'ready'.")
