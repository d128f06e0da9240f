"""GIVEN a message that names a tensor's shape and type WHEN its size is asked for THEN it is their product."""

from __future__ import annotations

import pytest
from given import event

from oomdoctor.facts import derive_facts
from oomdoctor.facts.tensor_size import requested_bytes
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"shape": (48, 200, 31, 31), "dtype": "float"}, 48 * 200 * 31 * 31 * 4),
        ({"shape": (12, 7), "dtype": "half"}, 168),
        ({"shape": (12, 7), "dtype": "complex128"}, 1344),
        ({"shape": (12, 7), "dtype": "float", "requested_bytes": 512}, 512),
        ({"shape": (12, 7), "dtype": "resource"}, None),
        ({"shape": (12, 7)}, None),
        ({"shape": (), "dtype": "float"}, None),
        ({"shape": (0, 7), "dtype": "float"}, None),
        ({}, None),
    ],
)
def test_size_of_a_tensor(fields, size):
    failed = event(EventKind.DEVICE_OOM, device=0, backend="tensorflow", **fields)
    assert requested_bytes(failed) == size
    assert derive_facts(Evidence(events=(failed,))).size("oom.requested_bytes", "cuda:0") == size


def test_numpy_of_old_prints_no_size():
    failed = event(EventKind.HOST_ALLOCATION_FAILED, allocator="numpy", shape=(9000, 7000), dtype="float64")
    assert derive_facts(Evidence(events=(failed,))).size("host.failed_request_bytes") == 504_000_000
