"""The table of misuses: it is sound, and it does not contradict the knobs."""

import pytest

from oomdoctor.errors import RuleError
from oomdoctor.knobs.load import load_knobs
from oomdoctor.knobs.misuses import load_misuses, read_misuses
from oomdoctor.knobs.versions import version_key


def test_the_table_is_sound():
    table = load_misuses()
    assert table.known
    assert len({option.name for option in table.allocator_options}) == len(table.allocator_options)
    for misuse in table.known:
        if misuse.since and misuse.until:
            assert version_key(misuse.since) <= version_key(misuse.until), misuse.id


def test_what_is_named_instead_exists_in_every_version_of_the_misuse():
    knobs = load_knobs()
    for misuse in load_misuses().known:
        if not misuse.knob:
            continue
        assert knobs[misuse.knob].framework == misuse.framework, misuse.id
        for version in filter(None, (misuse.since, misuse.until, None)):
            assert knobs.spell(misuse.knob, misuse.value, version).lines, f"{misuse.id} in {version}"


def test_no_knob_writes_an_option_that_is_a_misuse():
    forms = [spelling.form for knob in load_knobs().values() for spelling in knob.spellings]
    for misuse in load_misuses().known:
        if misuse.option:
            assert not [form for form in forms if f"--{misuse.option} " in form and misuse.framework == "vllm"], (
                misuse.id
            )


def test_the_options_of_the_allocator_are_those_of_the_knobs():
    known = {option.name: option.since for option in load_misuses().allocator_options}
    for knob in load_knobs().values():
        for spelling in knob.spellings:
            if "PYTORCH_CUDA_ALLOC_CONF=" in spelling.form:
                name = spelling.form.partition("=")[2].partition(":")[0]
                assert known[name] == spelling.since, knob.id


def test_counterparts_are_of_different_frameworks():
    knobs = load_knobs()
    for group in load_misuses().alike:
        frameworks = [knobs[name].framework for name in group]
        assert len(set(frameworks)) == len(frameworks), group


WHOLE = "misuses: [{id: a.b, framework: torch, option: x, outcome: refused, why: w, evidence: [e]}]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("misuses: []", "no misuses"),
        (WHOLE.replace("option: x", "option: x, call: f"), "exactly one"),
        (WHOLE.replace("option: x, ", ""), "exactly one"),
        (WHOLE.replace("torch", "torches"), "'framework' is one of"),
        (WHOLE.replace("refused", "odd"), "'outcome' is one of"),
        (WHOLE.replace("[e]", "[]"), "'evidence'"),
        (WHOLE.replace("option: x", "option: x, since: new"), "not a version"),
        (WHOLE.replace("option: x", "option: x, keywords: [y]"), "keywords belong"),
        (WHOLE.replace("evidence", "instead: {knob: vllm.batch, value: '1'}, evidence"), "no knob"),
        (WHOLE.replace("option: x", "options: x"), "did you mean 'option'"),
        (WHOLE + "\nalike: [[vllm.odd]]", "no knob"),
        (WHOLE + "\nallocator_conflicts: [{options: [x], beside: {name: y, value: z}, why: w}]", "no allocator option"),
    ],
)
def test_faults_of_the_table_have_a_place(tmp_path, text, message):
    path = tmp_path / "misuses.yaml"
    path.write_text(text)
    with pytest.raises(RuleError, match=message):
        read_misuses(path, load_knobs())
