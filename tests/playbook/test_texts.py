"""GIVEN the facts of each case of each rule WHEN the rule's texts are filled in THEN they read as sentences."""

from __future__ import annotations

import re

import pytest

from oomdoctor.playbook.cases import case_facts
from oomdoctor.playbook.load import default_rules_directory, load_playbook
from oomdoctor.playbook.match import match_rules

PLAYBOOK = load_playbook([default_rules_directory()])
MATCHED = {"confirmed", "likely", "possible"}
_TORN = re.compile(r"\bunknown\b|  | [,;]| \.(?!\w)|(?<!\w)\(\)|\btook\.")


@pytest.mark.parametrize("rule", PLAYBOOK.rules, ids=lambda rule: rule.id)
def test_no_text_says_unknown_or_has_a_hole(rule) -> None:
    for case in rule.cases:
        if case.expect not in MATCHED:
            continue
        for finding in match_rules(PLAYBOOK, case_facts(case)):
            texts = [finding.explain, finding.owner or "", *(remedy.do for remedy in finding.remedies)]
            torn = [text for text in texts if _TORN.search(text)]
            assert not torn, (finding.rule, case.name, torn)
