"""GIVEN an input that tells no whole WHEN shown THEN its figures stand alone, and what would tell more is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from oomdoctor.diagnose import diagnose
from oomdoctor.facts.registry import REGISTRY
from oomdoctor.language import speaking
from oomdoctor.model.diagnosis import Budget, BudgetPart, Diagnosis
from oomdoctor.model.facts import FactSet
from oomdoctor.model.source import Source
from oomdoctor.model.units import GIB
from oomdoctor.report import render
from oomdoctor.report.bars import view_budget
from oomdoctor.report.loose import LooseFigure, view_loose
from oomdoctor.report.palette import FREE
from oomdoctor.report.svg import chip, loose_bar
from oomdoctor.report.text import PLACEHOLDERS, to_copy
from oomdoctor.report.view import view_report

SAMPLES = Path(__file__).parents[2] / "sample_logs"


def of(text: str, folder: Path) -> Diagnosis:
    path = folder / "a.log"
    path.write_text(text, encoding="utf-8")
    return diagnose([path])


def test_one_figure_stands_against_what_is_not_known(tmp_path: Path):
    found = of("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB\n", tmp_path)
    loose = view_loose(found)
    assert loose is not None
    assert [(each.name, each.size, each.asked, each.open_ended) for each in loose.figures] == [
        ("asked for", "2.50 GiB", True, True)
    ]
    assert loose.figures[0].width < 1
    assert "`oomdoctor run -- <your command>` records it" in loose.said
    for form in ("html", "markdown", "terminal", "slack", "jira"):
        assert "2.50 GiB" in render(found, form)
    assert "rest not known" in render(found, "html")


def test_without_any_figure_the_command_is_named(tmp_path: Path):
    loose = view_loose(of("MemoryError\n", tmp_path))
    assert loose is not None
    assert loose.figures == ()
    assert loose.said == "How the memory was divided was not measured. `oomdoctor run -- <your command>` records it."


def test_a_limit_that_is_told_leaves_nothing_open(tmp_path: Path):
    text = (
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 65536"
    )
    loose = view_loose(of(text, tmp_path))
    assert loose is not None
    assert [(each.name, each.width, each.open_ended) for each in loose.figures] == [
        ("asked for", 1.0, False),
        ("the limit", 0.5, False),
    ]
    assert loose.said == ""


def test_more_than_the_share_is_told_once_by_words_and_not_by_a_sign_too():
    parts = (BudgetPart("weights", 12 * GIB, "printed by the program"),)
    plan = view_budget(Budget("engine's share", 10 * GIB, parts, -2 * GIB))
    assert [(each.name, each.size, each.share) for each in plan.segments][-1] == (
        "more than the share",
        "2.00 GiB",
        "20.0 %",
    )
    device = view_budget(Budget("cuda:0", 10 * GIB, parts, -2 * GIB))
    assert [(each.name, each.size) for each in device.segments][-1] == ("more than the total", "2.00 GiB")


def test_ten_parts_of_a_kind_have_ten_looks():
    part = view_budget(Budget("cuda:0", GIB, (BudgetPart("weights", GIB, ""),), 0)).segments[0]
    assert len({str(chip(part.category, variant)) for variant in range(10)}) == 10


@pytest.mark.parametrize("word", PLACEHOLDERS)
def test_what_is_to_be_filled_in_is_told_in_chinese(word: str):
    with speaking("zh"):
        assert not to_copy(f"run {word}").isascii()


def test_what_is_no_placeholder_stays():
    with speaking("zh"):
        assert to_copy("#include <pid> <N> <stdio.h>") == "#include <pid> <N> <stdio.h>"


def test_what_is_free_is_an_outline_and_a_colour_does_not_depend_on_the_language(tmp_path: Path):
    """GIVEN only what was free WHEN drawn THEN it is no white bar on a white page, and no colour of something held."""
    path = tmp_path / "b.log"
    path.write_text("torch.cuda.OutOfMemoryError: CUDA out of memory. 10.12 GiB is free.\n", encoding="utf-8")
    figure = LooseFigure("free at the failure", "10.12 GiB", FREE, asked=False, width=0.7, open_ended=True)
    assert 'class="empty" fill="none" stroke="currentColor"' in loose_bar(figure, "loose-1")
    facts = FactSet(REGISTRY)
    facts.put("oom.failed", True, Source("b.log", 1), "cuda:0")
    facts.put("oom.free_bytes", 10 * GIB, Source("b.log", 1), "cuda:0")
    found = replace(diagnose([path]), facts=facts, budgets=())
    for language in ("en", "zh"):
        with speaking(language):
            loose = view_loose(found)
        assert loose is not None
        assert [each.category for each in loose.figures] == [FREE]


def test_in_chinese_the_memory_of_a_device_has_its_own_word(tmp_path: Path):
    of_device = of("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB\n", tmp_path)
    of_host = diagnose([SAMPLES / "slurm-step-killed.log"])
    with speaking("zh"):
        assert view_report(of_device).tag == "显存不足"
        assert view_report(of_host).tag == "内存不足"
