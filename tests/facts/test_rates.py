"""GIVEN what rose WHEN it did so in less than a second THEN bytes and time are told, and nothing `per second`."""

from __future__ import annotations

import pytest
from given import mib, rising, run

from oomdoctor.facts import derive_facts
from oomdoctor.facts.steadiness import rate
from oomdoctor.model.evidence import Evidence


@pytest.mark.parametrize(
    ("gained", "seconds", "expected"),
    [
        (12 << 30, 0.026, None),
        (12 << 30, 0.999, None),
        (12 << 30, 0.0, None),
        (12 << 30, None, None),
        (3000, 1.0, 3000),
        (3000, 2.0, 1500),
    ],
)
def test_a_rate_needs_a_second(gained, seconds, expected):
    assert rate(gained, seconds) == expected


@pytest.mark.parametrize(("interval", "known"), [(0.01, False), (1.0, True)])
def test_the_host_has_a_rate_over_a_second_at_least(interval, known):
    from dataclasses import replace

    samples = tuple(replace(s, time_seconds=1000 + n * interval) for n, s in enumerate(rising(mib(20), mib(75), 20)))
    facts = derive_facts(Evidence(runs=(run(samples),)))
    assert facts.value("host.growth_bytes") is not None
    assert (facts.value("host.growth_bytes_per_second") is not None) is known
