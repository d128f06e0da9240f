"""GIVEN the samples WHEN their reports are made again THEN they are those in reports/ (`make reports` renews them)."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def make_reports() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reports", ROOT / "scripts" / "make_reports.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKER = make_reports()


@pytest.mark.parametrize("sample", MAKER.samples(), ids=lambda path: path.name)
def test_the_report_of_each_sample_is_current(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name, text in MAKER.rendered(sample).items():
        assert (ROOT / "reports" / name).read_text(encoding="utf-8") == text, f"reports/{name} is old: make reports"


def test_every_committed_report_has_its_sample() -> None:
    names = {MAKER.report_name(sample) for sample in MAKER.samples()}
    made = {
        path.stem for path in (ROOT / "reports").iterdir() if path.suffix in MAKER.SUFFIXES.values() and path.is_file()
    }
    assert made - {"README"} == names


def test_samples_are_small() -> None:
    total = sum(
        (Path(folder) / name).stat().st_size for folder, _, names in os.walk(ROOT / "sample_logs") for name in names
    )
    assert total < 6 << 20


@pytest.mark.parametrize("path", sorted((ROOT / "reports").glob("*.json")), ids=lambda path: path.stem)
def test_no_diagnosis_of_a_sample_has_a_fact_on_both_sides(path: Path) -> None:
    for found in json.loads(path.read_text(encoding="utf-8"))["diagnoses"]:
        told = [item["fact"] for item in found["evidence"]]
        assert len(told) == len(set(told)), found["rule"]
