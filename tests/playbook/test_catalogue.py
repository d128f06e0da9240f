"""Every remedy that users look for is offered by some rule, in an incident that one of its own cases describes."""

from __future__ import annotations

from functools import cache

import pytest

from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.diagnosis import Remedy
from oomdoctor.model.facts import FactSet, Scope
from oomdoctor.model.source import Source
from oomdoctor.playbook.cases import DEFAULT_MEMBER, case_facts
from oomdoctor.playbook.load import Playbook, default_rules_directory, load_playbook
from oomdoctor.playbook.match import match_rules

PLAYBOOK = load_playbook([default_rules_directory()])
MATCHED = ("confirmed", "likely", "possible")
CIRCUMSTANCES: tuple[dict[str, object], ...] = (
    {},
    {"engine.name": "vllm"},
    {"engine.name": "sglang"},
    {"engine.name": "llama.cpp"},
    {"activity.during_training": True, "activity.uses_trainer": True},
    {"activity.during_training": True, "activity.uses_trainer": False, "owner.holder_saved_bytes": 1 << 30},
)

CATALOGUE = {
    "weight quantisation": ("CAP001:fewer-bits", "KV001:quantised-weights"),
    "KV-cache quantisation": (
        "KV005:fp8-cache",
        "KV002:fp8-cache",
        "KV008:quantised-cache",
        "KV003:smaller-cache-type",
    ),
    "a cap on context": ("KV002:shorter-length", "KV003:choose-a-context"),
    "a cap on concurrency": ("KV005:fewer-at-once",),
    "a cap on input length with a message to the client": ("ACT009:refuse-longer",),
    "paged KV and continuous batching": ("KV008:another-engine", "KV009:another-engine"),
    "prefix caching": ("KV005:share-beginnings",),
    "evicting or offloading KV to the host": ("KV005:blocks-to-the-host", "KV008:bounded-cache"),
    "chunked prefill": ("ACT009:chunked", "KV002:smaller-prefill"),
    "without speculative decoding": ("OVH003:without-drafts",),
    "a fixed batch size or a scheduled restart": ("FRG001:one-shape-and-restarts",),
    "expandable segments": ("FRG001:expandable-segments",),
    "on-demand instead of up-front reservation": ("KV009:grow-as-needed", "NBR007:grow-as-needed"),
    "gradient checkpointing": ("ACT001:checkpoint-activations", "ACT001:checkpoint-activations-trainer"),
    "accumulation": ("ACT001:smaller-batch", "ACT001:smaller-batch-trainer"),
    "sharding and offload": ("ACT001:shard-over-cards", "CAP008:shard"),
    "detaching what is kept": ("RET001:keep-numbers", "RET001:keep-no-graphs"),
    "no_grad": ("RET003:no-grad",),
    "moving results to the host": ("RET004:move-as-you-go", "RET004:move-as-you-go-trainer"),
    "freeing the other process": ("NBR001:end-the-other",),
    "one card first and then several": ("MGP002:one-card-first",),
    "planning by P99 and maximum length": ("ACT010:plan-by-the-longest", "KV005:plan-by-the-longest"),
    "the smallest configuration that runs, one change at a time": ("ACT001:work-upwards", "KV001:work-upwards"),
    "one sequence instead of beams": ("KV008:fewer-sequences",),
}


@cache
def offered(code: str) -> dict[str, Remedy]:
    """The remedies that the rule offers in what its matching cases describe, under any of the circumstances."""
    rule = PLAYBOOK.find(code)
    assert rule is not None, code
    found: dict[str, Remedy] = {}
    for case in rule.cases:
        given = case_facts(case)
        for more in CIRCUMSTANCES if case.expect in MATCHED else ():
            facts = FactSet(REGISTRY)
            for name, value in {**more, "activity.sequences_per_request": 4}.items():
                scope = REGISTRY[name].scope
                facts.put(name, value, Source("case"), None if scope is Scope.INCIDENT else DEFAULT_MEMBER[scope])
            for name in REGISTRY:
                for member in given.members(REGISTRY[name].scope) or (None,):
                    facts.put(name, given.value(name, member), Source("case"), member)
            for finding in match_rules(Playbook((rule,)), facts):
                found |= {remedy.id: remedy for remedy in finding.remedies}
    return found


@pytest.mark.parametrize("item", CATALOGUE)
def test_the_catalogue_is_offered(item: str) -> None:
    for name in CATALOGUE[item]:
        code, _, remedy = name.partition(":")
        assert remedy in offered(code), f"{code} offers {sorted(offered(code))}"


def test_what_quantised_weights_cost() -> None:
    for code, remedy in (("CAP001", "fewer-bits"), ("KV001", "quantised-weights"), ("CAP013", "fewer-bits")):
        cost = offered(code)[remedy].cost
        assert "code" in cost, code
        assert "arithmetic" in cost, code


@pytest.mark.parametrize(("code", "remedy", "words"), [
    ("KV008", "another-engine", ("pages", "batches continuously")),
    ("ACT009", "refuse-longer", ("message", "limit")),
    ("FRG001", "one-shape-and-restarts", ("fixed batch size", "restart")),
    ("KV005", "plan-by-the-longest", ("P99", "maximum", "not by their mean")),
    ("ACT001", "work-upwards", ("one thing at a time", "80 to 90 %")),
])  # fmt: skip
def test_what_a_remedy_names(code: str, remedy: str, words: tuple[str, ...]) -> None:
    assert all(word in offered(code)[remedy].do for word in words)


def test_speculative_decoding_does_not_slow_the_growth_of_the_cache() -> None:
    rule = PLAYBOOK.find("KV008")
    assert rule is not None
    (why,) = [each.why.outline() for each in rule.not_remedies if each.what == "Speculative decoding"]
    assert "the cache grows as before" in why
