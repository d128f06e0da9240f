"""Sizes with a bare dot, as NumPy prints three digits, everywhere a size is read."""

from __future__ import annotations

import io

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.units import GIB, MIB, parse_size
from oomdoctor.readers.log.engine import read_log


@pytest.mark.parametrize(
    ("text", "size"), [("298. GiB", 298 * GIB), ("800. MiB", 800 * MIB), ("5.", 5), ("1.50 GiB", 3 * GIB // 2)]
)
def test_parse_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", [".", ". GiB", "1.2.3 GiB", "GiB"])
def test_a_dot_alone_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "kind", "field", "size"),
    [
        ("CUDA out of memory. Tried to allocate 100. MiB.", K.DEVICE_OOM, "requested_bytes", 100 * MIB),
        ("Out of memory allocating 298. GiB (allocated so far: 2 GiB).", K.DEVICE_OOM, "requested_bytes", 298 * GIB),
        (
            "Allocator (GPU_0_bfc) ran out of memory trying to allocate 298.GiB",
            K.DEVICE_OOM,
            "requested_bytes",
            298 * GIB,
        ),
        (
            "Memory on the node (IP: 1) was 100.GB / 200.GB (0.5), which exceeds",
            K.MEMORY_LIMIT_HIT,
            "total_bytes",
            200 * GIB,
        ),
        ("Unable to allocate 2048. EiB for an array", K.IMPOSSIBLE_SIZE, "request_impossible", True),
    ],
)
def test_every_reader_of_sizes_takes_it(text: str, kind: K, field: str, size: int | bool) -> None:
    events = read_log(io.BytesIO(f"{text}\n".encode()), "a.log").events
    assert size in [event.fields.get(field) for event in events if event.kind is kind]


def test_ray_divides_by_1024_cubed() -> None:
    """Seen: 1006.84GB on a machine whose owner counts 1,081 GB; 30.00GB where the container's limit was 30 GiB."""
    text = (
        "ray.exceptions.OutOfMemoryError: 1 worker(s) were killed due to the node running low on memory.\n"
        "Memory on the node (IP: 10.83.10.20) was 957.55GB / 1006.84GB (0.951040),\n"
        "which exceeds the memory usage threshold of 0.950000\n"
    )
    events = {event.kind: event for event in read_log(io.BytesIO(text.encode()), "a.log").events}
    total = events[K.MEMORY_LIMIT_HIT].fields["total_bytes"]
    assert total == round(1006.84 * GIB)
    assert round(total / 10**9) == 1081
    assert events[K.PROCESS_KILLED].fields["reported_by"] == "ray"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,5 GiB", 3 << 29), ("1900,00 MiB", 1900 << 20), ("1,500 MiB", 1500 << 20), ("20,971,520", 20_971_520)],
)
def test_a_comma_before_other_than_three_digits_is_a_decimal_one(text, value):
    assert parse_size(text) == value
