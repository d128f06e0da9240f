"""GIVEN a rule WHEN it proposes a change THEN that is a line to copy, unless it is a change of a kind that has none."""

from __future__ import annotations

import pytest

from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.facts import FactSet, Scope
from oomdoctor.model.source import Source
from oomdoctor.model.units import GIB, MIB
from oomdoctor.playbook.load import Playbook, default_rules_directory, load_playbook
from oomdoctor.playbook.match import match_rules

PLAYBOOK = load_playbook([default_rules_directory()])
TAKES_AWAY = "an option is taken away, and there is nothing to write in its place"
OWN_WORDS = "batch, length or setting of the program: how it is called there is not known"
LOOKS = "one thing after another is tried or read, and what is changed comes out of it"
BUYS = "another model, build, card or engine: which one is the reader's to choose"
ORDER = "an order of work, or a plan: it stands in no single place"
WITHOUT = {
    "CAP004-let-it-fit": TAKES_AWAY,
    "KV007-manager-on": TAKES_AWAY,
    "OVH003-without-drafts": TAKES_AWAY,
    "CAP017-loosen-the-guard": TAKES_AWAY,
    "ACT014-gather-less": TAKES_AWAY,
    "ACT013-smaller-step": OWN_WORDS,
    "FRG004-steady-shapes": OWN_WORDS,
    "FRG004-smaller-step": OWN_WORDS,
    "KV012-bound-the-conversation": OWN_WORDS,
    "KV012-bound-the-kept-prompts": OWN_WORDS,
    "MGP009-loss-inside": OWN_WORDS,
    "ACT009-refuse-longer": OWN_WORDS,
    "KV009-half-the-length": OWN_WORDS,
    "CAP008-smaller-buffers": OWN_WORDS,
    "NOT005-leave-room": OWN_WORDS,
    "OVH004-fewer-shapes": OWN_WORDS,
    "OVH004-no-pool-of-its-own": OWN_WORDS,
    "OVH004-no-own-pool": OWN_WORDS,
    "HST004-smaller-results": OWN_WORDS,
    "HST018-keep-less": OWN_WORDS,
    "NOT006-read-the-inner-error": LOOKS,
    "RET008-find-the-library": LOOKS,
    "ACT001-work-upwards": LOOKS,
    "CAP001-work-upwards": LOOKS,
    "KV001-work-upwards": LOOKS,
    "OVH001-work-upwards": LOOKS,
    "CAP014-larger-device": BUYS,
    "CAP015-smaller-model": BUYS,
    "CAP016-fewer-bits": BUYS,
    "CAP017-fewer-bits": BUYS,
    "CAP018-smaller-model": BUYS,
    "HST013-smaller-host-part": BUYS,
    "KV005-larger-pool": BUYS,
    "KV008-another-engine": BUYS,
    "KV009-another-engine": BUYS,
    "KV010-another-engine": BUYS,
    "ACT010-plan-by-the-longest": ORDER,
    "KV005-plan-by-the-longest": ORDER,
    "CAP010-shard-by-shard": ORDER,
    "CAP016-close-programs": ORDER,
    "FRG001-one-shape-and-restarts": ORDER,
    "FRG003-large-first": ORDER,
    "FRG004-start-afresh": ORDER,
    "KV012-close-programs": ORDER,
    "HST010-one-after-another": ORDER,
    "HST003-in-pieces-elsewhere": OWN_WORDS,
    "HST007-do-not-keep-elsewhere": OWN_WORDS,
    "HST020-clickhouse-limit": OWN_WORDS,
    "HST020-less-at-once-there": OWN_WORDS,
    "OVH008-free-the-device": ORDER,
}
"""What has no line to copy, and why."""
LIMIT = {"host.cgroup_limit_bytes": 8 * GIB, "host.limit_to_try_bytes": 12 * GIB, "host.kernel_killed": "memcg"}


def test_each_change_has_a_line_or_is_of_a_kind_that_has_none():
    without = {f"{rule.id}-{each.id}" for rule in PLAYBOOK.rules for each in rule.remedies if each.set is None}
    assert without == set(WITHOUT)


def test_the_first_change_has_one_unless_something_is_taken_away_or_looked_for():
    first = {f"{rule.id}-{rule.remedies[0].id}" for rule in PLAYBOOK.rules if rule.remedies[0].set is None}
    assert {WITHOUT[name] for name in first} <= {TAKES_AWAY, OWN_WORDS, LOOKS}
    assert len(first) <= 9


def change(rule: str, remedy: str, **given: object):
    facts = FactSet(REGISTRY)
    for name, value in given.items():
        facts.put(name, value, Source("crash.log", 1), "cuda:0" if REGISTRY[name].scope is Scope.DEVICE else None)
    found = PLAYBOOK.find(rule)
    assert found is not None
    (one,) = match_rules(Playbook((found,)), facts)
    return next(each.set for each in one.remedies if each.id == remedy)


@pytest.mark.parametrize(
    ("system", "line"),
    [
        ("slurm", "#SBATCH --mem=12G"),
        ("docker", "docker run --memory 12g"),
        ("kubernetes", "resources: {limits: {memory: 12Gi}, requests: {memory: 12Gi}}"),
        ("systemd", "systemd-run --scope -p MemoryMax=12G -- <your command>"),
    ],
)
def test_a_limit_of_the_job_is_spelled_as_its_system_writes_it(system, line):
    setting = change("HST002", "raise-the-limit", **LIMIT, **{"host.orchestrator": system})
    assert setting.lines == (line,)
    assert setting.note == ""


def test_where_the_system_is_not_known_each_spelling_says_whose_it_is():
    setting = change("HST002", "raise-the-limit", **LIMIT)
    assert len(setting.lines) == 4
    assert setting.systems == ("Slurm", "docker", "Kubernetes", "systemd")


def test_a_limit_that_nobody_saw_stays_open():
    unseen = {"host.kernel_killed": "memcg", "host.orchestrator": "slurm"}
    assert change("HST002", "raise-the-limit", **unseen).lines == ("#SBATCH --mem=<N>G",)


def test_sizes_are_whole_in_the_unit_of_each_place():
    shared = change("HST009", "larger-shm", **{"host.shm_exhausted": True, "host.orchestrator": "docker"})
    assert shared.lines == ("docker run --shm-size 8g",)
    grown = {**LIMIT, "host.growth_steady": True, "host.cgroup_limit_bytes": 300 * MIB}
    (line,) = change("HST002", "find-what-grows", **grown).lines
    assert line == "(ulimit -d 276480 && oomdoctor run -- <your command>)"  # KiB: nine tenths of 300 MiB


def test_a_size_is_rounded_up_to_what_can_be_written():
    own = {"host.process_limit_bytes": GIB + 1, "host.memory_error": True, "host.process_limit_reached": True}
    shell, systemd = change("HST006", "raise-the-limit", **own).lines
    assert shell == f"ulimit -v {1024 * 1024 * 3 // 2 + 1}"
    assert systemd == "LimitAS=1537M"


def test_a_process_to_end_is_named_by_its_number_where_it_is_told():
    known = {"oom.failed": True, "oom.total_bytes": 24 * GIB, "oom.foreign_bytes": 20 * GIB, "oom.requested_bytes": GIB}
    assert change("NBR001", "end-the-other", **known, **{"device.foreign_pid": "4242"}).lines == ("kill 4242",)
    assert change("NBR001", "end-the-other", **known).lines == ("kill <N>",)
