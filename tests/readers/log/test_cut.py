"""GIVEN a log that ends within a line WHEN it is read THEN a number that may have been cut is not taken for whole."""

from __future__ import annotations

import io

import pytest

from oomdoctor.model.events import EventKind
from oomdoctor.readers.log.engine import read_log

TOO_SMALL = (
    "ValueError: To serve at least one request with the models's max seq len (131072), (15.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (9.81 GiB). Based on the available memory, the estimated "
    "maximum model length is "
)
POOL = (
    "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 5000 tokens.\n"
    "Available tokens: "
)
CHANGED = "AssertionError: Error in memory profiling. Initial free memory 10.5 GiB, current free memory "


def fields(text: str, name: str) -> list[object]:
    events = read_log(io.BytesIO(text.encode()), "a.log").events
    return [event.fields.get(name) for event in events if event.kind is not EventKind.EXCEPTION]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (f"{TOO_SMALL}563", "fitting_tokens", None),
        (f"{TOO_SMALL}563\n", "fitting_tokens", 563),
        (f"{TOO_SMALL}56320", "fitting_tokens", 56320),  # pasted without an end of the line
        (f"{TOO_SMALL}563. Try", "fitting_tokens", 563),
        (f"{TOO_SMALL}563", "needed_tokens", 131072),
        (f"{POOL}31", "available_tokens", None),
        (f"{POOL}31", "needed_tokens", 5000),
        (f"{POOL}31\n", "available_tokens", 31),
        (f"{CHANGED}12.2", "current_free_bytes", None),  # of which unit
        (f"{CHANGED}12.25 GiB", "current_free_bytes", round(12.25 * (1 << 30))),
        ("RuntimeError: NRT allocation failed for size 23", "requested_bytes", None),
        ("RuntimeError: NRT allocation failed for size 23658313344", "requested_bytes", 23658313344),
        ("process exited with exit code 137", "exit_code", 137),
    ],
)
def test_the_number_at_the_end(text: str, name: str, value: int | None) -> None:
    assert fields(text, name) == [value]
