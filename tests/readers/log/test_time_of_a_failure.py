"""A failure has the time of the nearest line above that has one, however many failures share it."""

from __future__ import annotations

import io

from oomdoctor.model.events import EventKind
from oomdoctor.readers.log.engine import read_log

OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB"


def times(lines: list[str]) -> list[float | None]:
    reading = read_log(io.BytesIO("\n".join(lines).encode()), "job.log")
    return [event.after_seconds for event in reading.events if event.kind is EventKind.DEVICE_OOM]


def test_failures_after_one_time_share_it_until_the_next() -> None:
    lines = ["step 0"]
    for hour in (10, 11):
        lines += [f"2026-11-30 {hour}:00:00 started"]
        for number in range(1, 4):
            lines += ["between"] * 30 + [OOM.format(number + 3 * hour)]
    found = times([OOM.format(1), *lines])
    assert found[0] is None
    assert [time is not None and time % 86400 // 3600 for time in found[1:]] == [10, 10, 10, 11, 11, 11]


def test_a_time_on_the_line_itself_is_its_own() -> None:
    early, late = times([f"2026-11-30 10:00:00 {OOM.format(2)}", f"2026-11-30 10:00:05 {OOM.format(3)}"])
    assert early is not None
    assert late is not None
    assert late - early == 5
