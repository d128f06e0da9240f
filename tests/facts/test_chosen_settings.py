"""GIVEN a launch line and what an engine prints that it runs with WHEN facts are derived THEN they say what is set."""

from __future__ import annotations

from given import event

from oomdoctor.facts import derive_facts
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence


def test_the_launch_line_tells():
    facts = derive_facts(
        Evidence(command="python -m sglang.launch_server --mem-fraction-static 0.83 --tp 2 --max-running-requests 12")
    )
    assert facts.value("engine.utilization") == 0.83
    assert (facts.value("chosen.cards"), facts.value("chosen.sequences")) == (2, 12)
    assert facts.value("chosen.step_tokens") is None


def test_the_engine_s_own_word_comes_first():
    started = event(
        EventKind.ENGINE_START, engine="vllm", options=(("max_num_seqs", "48"), ("max_num_batched_tokens", "None"))
    )
    facts = derive_facts(Evidence(events=(started,), command="vllm serve m --max-num-seqs 64"))
    assert facts.value("chosen.sequences") == 48
    assert facts.value("chosen.step_tokens") is None


def test_a_trainer_s_options_and_a_loader_s_warning():
    loading = event(EventKind.PARALLELISM, workers=12)
    facts = derive_facts(Evidence(events=(loading,), command="python train.py --gradient_accumulation_steps 4"))
    assert (facts.value("chosen.loader_workers"), facts.value("chosen.accumulation_steps")) == (12, 4)
