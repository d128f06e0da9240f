"""GIVEN any diagnosis WHEN it is written as JSON THEN it keeps to the contract; the schema refuses the rest."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from diagnoses import ALL, fact_set, fragmentation, hostile, kv_too_small
from jsonschema import Draft202012Validator

from oomdoctor.model.source import Source
from oomdoctor.report import render
from oomdoctor.report.json import as_json_object

SCHEMA = json.loads((files("oomdoctor.report") / "report.schema.json").read_text(encoding="utf-8"))
KEYS = (
    "schema", "oomdoctor", "fingerprint", "verdict", "summary", "diagnoses", "budget", "owners", "incidents", "missing",
    "misuses", "comparisons", "failed_requests", "windows", "facts", "inputs",
)  # fmt: skip


def parse(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("name", ALL)
def test_every_report_is_valid(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    report = parse(render(ALL[name](), "json"))
    Draft202012Validator(SCHEMA).validate(report)
    assert tuple(report) == KEYS


@pytest.mark.parametrize(
    "path",
    [
        (),
        ("diagnoses", 0),
        ("diagnoses", 0, "scope"),
        ("diagnoses", 0, "evidence", 0),
        ("diagnoses", 0, "remedies", 0),
        ("diagnoses", 0, "not_remedies", 0),
        ("diagnoses", 0, "to_confirm", 0),
        ("budget", 0),
        ("budget", 0, "parts", 0),
        ("incidents", 0),
        ("missing", 0),
        ("misuses", 0),
        ("facts", "torch.version"),
        ("inputs", 0),
    ],
)
def test_the_schema_refuses_what_the_contract_does_not_name(path: tuple[str | int, ...]) -> None:
    report = as_json_object(fragmentation())
    level: Any = report
    for step in path:
        level = level[step]
    level["extra"] = 1
    assert not Draft202012Validator(SCHEMA).is_valid(report)


def test_the_schema_knows_the_parts_of_a_comparison() -> None:
    report = as_json_object(kv_too_small())
    report["comparisons"][0]["extra"] = 1
    assert not Draft202012Validator(SCHEMA).is_valid(report)


def test_sizes_are_integers_and_budgets_close() -> None:
    for budget in as_json_object(fragmentation())["budget"]:
        sizes = [part["bytes"] for part in budget["parts"]]
        assert all(type(size) is int for size in sizes)
        assert sum(sizes) + budget["unattributed_bytes"] == budget["total_bytes"]


def test_what_is_unknown_is_null_or_absent() -> None:
    report = as_json_object(fragmentation())
    assert report["incidents"][0]["when"] is None
    assert report["diagnoses"][1]["owner"] is None
    assert report["diagnoses"][0]["remedies"][1]["enough"] is None
    assert report["diagnoses"][0]["remedies"][2]["set"] is None


def test_a_fact_is_named_with_its_member() -> None:
    facts = as_json_object(fragmentation())["facts"]
    assert facts["oom.requested_bytes@cuda:0"] == {
        "value": 1_610_612_736,
        "unit": "bytes",
        "source": "oom.pickle (oom event 1)",
    }
    assert facts["torch.version"]["unit"] == "version"


def test_no_number_is_no_fact() -> None:
    facts = fact_set([
        ("engine.utilization", math.nan, Source("a.log"), None),
        ("devices.fullest_used_ratio", math.inf, Source("a.log"), None),
        ("exit.status", 1, Source("a.log"), None),
    ])  # fmt: skip
    report = parse(render(replace(fragmentation(), facts=facts), "json"))
    assert list(report["facts"]) == ["exit.status"]


def test_only_ascii_is_printed() -> None:
    text = render(hostile(), "json")
    assert text.isascii()
    assert not any(ord(character) < 0x20 and character != "\n" for character in text)
    assert "\\ud83d" not in text
