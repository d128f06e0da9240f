"""A rule to vary in tests."""

from oomdoctor.facts.registry import REGISTRY
from oomdoctor.knobs.document import parse_document
from oomdoctor.model.facts import FactSet
from oomdoctor.model.source import Source
from oomdoctor.playbook.load import read_rule

RULE = """\
id: FRG001
cause: fragmentation
title: Enough memory is reserved, but in pieces
scope: device
when:
  - oom.reserved_unallocated_bytes >= oom.requested_bytes
supports:
  - allocator.segments > 50
confirms:
  - allocator.largest_free_block_bytes < oom.requested_bytes
excludes:
  - allocator.expandable_segments
explain: "{oom.requested_bytes} asked[[, {allocator.largest_free_block_bytes} in one piece]]."
owner: "{owner.top}"
explains: oom.reserved_unallocated_bytes
remedies:
  - id: grow
    applies: torch.version >= '2.1'
    do: Grow in place
    set: {knob: torch.expandable_segments, value: "True"}
    frees: oom.reserved_unallocated_bytes
    cost: little
    source: https://example.org
not_remedies:
  - {what: empty_cache(), why: "Already done for {oom.requested_bytes}"}
to_confirm:
  - {what: a snapshot, command: oomdoctor run}
zh:
  title: 碎片
  explain: 请求 {oom.requested_bytes}，{owner.top}
  remedies: {grow: {do: 就地扩展}}
cases:
  - {expect: unknown, facts: {oom.requested_bytes: 2 GiB}}
"""


def rule(text=RULE, **changes):
    """The rule with lines exchanged: `rule(id="NBR001", when="[exit.killed]")`."""
    lines = text
    for key, value in changes.items():
        lines = _without(lines, key) + ("" if value is None else f"{key}: {value}\n")
    return read_rule(parse_document(lines, "rule.yaml"))


def facts(**values):
    """Facts with `__` for the dot: `facts(oom__free_bytes=1)`; of `cuda:0` where they are about a device."""
    found = FactSet(REGISTRY)
    for key, value in values.items():
        name = key.replace("__", ".")
        member = "cuda:0" if REGISTRY[name].scope.value == "device" else None
        found.put(name, value, Source("log.txt", 3), member)
    return found


def _without(text, key):
    kept, skipping = [], False
    for line in text.splitlines(keepends=True):
        if not line.startswith(" "):
            skipping = line.startswith(f"{key}:")
        if not skipping:
            kept.append(line)
    return "".join(kept)
