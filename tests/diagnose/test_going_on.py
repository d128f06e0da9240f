"""GIVEN what is set already WHEN a remedy asks for less or more of it THEN what it asks for is a change that way."""

from __future__ import annotations

import pytest

from oomdoctor.model.diagnosis import Remedy
from oomdoctor.playbook.going_on import _SET_NOW, next_value
from oomdoctor.playbook.load import default_rules_directory, load_playbook

from .asked import ask, first, gib, sentences

_START = (
    "INFO 05-02 10:00:01 [core.py:61] Initializing a V1 LLM engine (v0.9.2) with config: model='m', max_seq_len=32768\n"
    "INFO 05-02 10:00:02 [api_server.py:90] non-default args: {{'model': 'm', {options}}}\n"
)
_CAPTURE = (
    _START
    + "INFO 05-02 10:00:40 [gpu_worker.py:298] Available KV cache memory: 7.31 GiB\n"
    + "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  20%|## | 7/35 [00:05<00:01,  8.1it/s]\n"
    + sentences("350.00 MiB", "120.00 MiB", "22.10 GiB", "240.00 MiB", own="23.40 GiB", private="300.00 MiB")
)
_TOO_SMALL = _START + (
    "ValueError: To serve at least one request with the models's max seq len (131072), (15.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (9.81 GiB).\n"
)


@pytest.mark.parametrize(
    ("wanted", "go", "now", "value"),
    [
        ("0.85", "down", None, "0.85"),
        ("0.85", "down", 0.92, "0.85"),
        ("0.85", "down", 0.85, "0.80"),
        ("0.85", "down", 0.7, "0.65"),
        ("0.85", "down", 0.32, None),
        ("0.95", "up", 0.9, "0.95"),
        ("0.95", "up", 0.95, None),
        ("64", "down", 256, "64"),
        ("64", "down", 40, "20"),
        ("64", "down", 1, None),
        ("2", "up", 1, "2"),
        ("2", "up", 4, "8"),
        ("64", "", 40, "64"),
        ("<N>", "down", 40, "<N>"),
    ],
)
def test_the_next_value(wanted, go, now, value):
    assert next_value(wanted, go, now) == value


def _offered(log: str, name: str) -> Remedy | None:
    return next((remedy for remedy in first(ask(log)).remedies if remedy.id == name), None)


@pytest.mark.parametrize(("now", "asked"), [("0.95", "0.85"), ("0.80", "0.75"), ("0.31", None)])
def test_a_share_goes_down_from_what_is_set_and_its_bytes_are_reckoned(now, asked):
    offered = _offered(_CAPTURE.format(options=f"'gpu_memory_utilization': {now}"), "smaller-share")
    assert (offered.set.lines if offered else None) == ((f"--gpu-memory-utilization {asked}",) if asked else None)
    if offered:
        assert offered.frees_bytes == pytest.approx((float(now) - float(asked)) * gib(23.65), abs=1 << 20)
        assert offered.enough is True


@pytest.mark.parametrize(("now", "asked"), [("", "64"), (", 'max_num_seqs': 24", "12"), (", 'max_num_seqs': 1", None)])
def test_so_does_a_count(now, asked):
    offered = _offered(_CAPTURE.format(options=f"'gpu_memory_utilization': 0.9{now}"), "fewer-graphs")
    assert (offered.set.lines if offered else None) == ((f"--max-num-seqs {asked}",) if asked else None)


def test_cards_go_up():
    offered = _offered(_TOO_SMALL.format(options="'tensor_parallel_size': 4"), "more-cards")
    assert offered is not None
    assert offered.set.lines == ("--tensor-parallel-size 8",)


def test_every_number_that_can_be_set_already_says_where_it_goes():
    playbook = load_playbook([default_rules_directory()])
    settings = [(rule.id, remedy.set) for rule in playbook.rules for remedy in rule.remedies if remedy.set]
    plain = [
        (rule, wanted.knob)
        for rule, wanted in settings
        if wanted.knob in _SET_NOW and not wanted.go and wanted.value.outline().replace(".", "", 1).isdecimal()
    ]
    assert plain == []


@pytest.mark.parametrize(
    "error", ["KeyError: 'labels'", "ModuleNotFoundError: No module named 'apex'", "IndexError: 3"]
)
def test_an_error_that_is_never_for_want_of_memory_is_likened_to_no_report(error):
    found = ask(f'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n{error}\n')
    assert found.findings == ()
    assert f"ended with {error.partition(':')[0]}" in found.summary
