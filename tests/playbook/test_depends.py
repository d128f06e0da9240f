"""GIVEN a change whose bytes are not known WHEN it is told THEN so is what they depend on, never a number made up."""

from __future__ import annotations

import pytest

from oomdoctor.knobs.load import load_knobs
from oomdoctor.model.diagnosis import Effect
from oomdoctor.playbook.depends import _BY_KIND, _BY_KNOB, depends_on
from oomdoctor.playbook.load import default_rules_directory, load_playbook

REMEDIES = [(rule, remedy) for rule in load_playbook([default_rules_directory()]).rules for remedy in rule.remedies]


@pytest.mark.parametrize(("rule", "remedy"), REMEDIES, ids=lambda value: value.id)
def test_where_no_fact_is_known_each_change_says_what_its_bytes_depend_on(rule, remedy) -> None:
    from oomdoctor.facts.registry import REGISTRY

    found = depends_on(remedy, lambda name: None, REGISTRY)
    assert bool(found) is (remedy.effect not in (Effect.COUNTS, Effect.FINDS_OUT)), (rule.id, remedy.id)


def test_each_entry_is_of_a_knob_and_a_change_that_exist() -> None:
    assert set(_BY_KNOB) <= set(load_knobs())
    assert set(_BY_KIND) <= {remedy.id for _rule, remedy in REMEDIES}
