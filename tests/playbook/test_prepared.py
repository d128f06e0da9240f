"""What ships read beforehand is what the texts say, and is not used for other texts or other code (`make prepared`)."""

from __future__ import annotations

import importlib.util
import io
import os
import pickle
import shutil
import sys
import zlib
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import jinja2
import pytest

from oomdoctor.errors import RuleError
from oomdoctor.knobs import load, misuses, prepared
from oomdoctor.playbook import load as loading
from oomdoctor.playbook import prepared as prepared_playbook
from oomdoctor.playbook.load import default_rules_directory, load_playbook, load_rule, rule_files
from oomdoctor.playbook.prepared import VARIANTS, prepared_rules
from oomdoctor.report.compiled import MADE_WITH

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "oomdoctor"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_prepared", ROOT / "scripts" / "make_prepared.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_everything_prepared_is_current() -> None:
    """Fails after a change of a rule, a table, a template or the code that reads them: run `make prepared`."""
    made = script()
    assert [file.name for file, content in made.tables() if content is not None] == []
    if jinja2.__version__ == MADE_WITH:
        made_again = made.compiled_templates()
        assert len(made_again) == 2
        assert [path.name for path, code in made_again.items() if path.read_text(encoding="utf-8") != code] == []


@pytest.mark.parametrize("language", VARIANTS)
def test_prepared_rules_are_those_of_the_texts_with_their_places(language: str) -> None:
    directory = default_rules_directory()
    files = rule_files(directory)
    kept = prepared_rules(directory, files, VARIANTS[language])
    assert kept == tuple(load_rule(path, VARIANTS[language]) for path in files)
    assert [rule.place.path for rule in kept] == [str(path) for path in files]


def test_a_diagnosis_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_rule", lambda *_: pytest.fail("a rule was read from its text"))
    assert len(load_playbook(without=VARIANTS["en"]).rules) > 100
    load.load_knobs.cache_clear()
    misuses.load_misuses.cache_clear()
    monkeypatch.setattr(load, "read_knobs", lambda *_: pytest.fail("the knobs were read from their text"))
    monkeypatch.setattr(misuses, "read_misuses", lambda *_: pytest.fail("the misuses were read from their text"))
    assert load.load_knobs()
    assert misuses.load_misuses().known


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the shipped rules, at another place."""
    copy = tmp_path / "rules"
    shutil.copytree(default_rules_directory(), copy)
    monkeypatch.setattr(loading, "default_rules_directory", lambda: copy)
    return copy


def test_they_serve_at_another_place_too(rules: Path) -> None:
    found = load_playbook([rules], without=VARIANTS["en"])
    assert found == load_playbook_anew(rules)
    assert all(rule.place.path.startswith(str(rules)) for rule in found.rules)


def load_playbook_anew(rules: Path) -> loading.Playbook:
    return loading.Playbook(tuple(load_rule(path, VARIANTS["en"]) for path in rule_files(rules)))


@pytest.mark.parametrize("change", ["text", "new", "gone", "moved", "broken"])
def test_after_any_change_the_texts_are_read(rules: Path, change: str) -> None:
    path = next(rules.glob("*/FRG001-*.yaml"))
    text = path.read_text(encoding="utf-8")
    if change == "text":
        path.write_text(text.replace("0.03 * oom.reserved_bytes", "0.04 * oom.reserved_bytes"), encoding="utf-8")
    elif change == "new":
        (path.parent / "NEW001-x.yaml").write_text(text.replace("FRG001", "NEW001"), encoding="utf-8")
    elif change == "gone":
        path.unlink()
    elif change == "moved":
        path.rename(path.with_name("FRG001-x.yaml"))
    else:
        path.write_text("id: [", encoding="utf-8")
    found = load_playbook([rules], without=VARIANTS["en"])
    rule = found.find("FRG001")
    if change == "text":
        assert rule
        assert any("0.04" in condition.text for condition in rule.when)
    elif change == "new":
        assert found.find("NEW001")
    elif change == "moved":
        assert rule
        assert rule.place.path.endswith("FRG001-x.yaml")
    else:
        assert rule is None
    assert len(found.problems) == (change == "broken")


def test_rules_of_others_are_never_taken_from_there(tmp_path: Path) -> None:
    shutil.copytree(default_rules_directory(), tmp_path / "rules")
    path = next(tmp_path.glob("rules/*/FRG001-*.yaml"))
    found = load_playbook([default_rules_directory(), tmp_path / "rules"], without=VARIANTS["en"])
    assert f"{path}:1:1: the id FRG001 is taken by" in "\n".join(map(str, found.problems))


def test_all_code_that_reads_the_texts_is_in_the_keys() -> None:
    """WHEN everything is read from its text THEN each module that runs is one of those that make what is kept old."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    directory = default_rules_directory()
    sys.setprofile(note)
    try:
        for path in rule_files(directory):
            load_rule(path, VARIANTS["zh"])
        misuses.read_misuses(misuses.TABLE, load.read_knobs(load.TABLE))
    finally:
        sys.setprofile(None)
    ours = {os.path.relpath(name, PACKAGE) for name in seen if name.startswith(f"{PACKAGE}{os.sep}")}
    keyed = {f"{name}.py" for name, _path in (*prepared_playbook.CODE, *misuses.SOURCES)}
    assert ours <= keyed
    named = {module.removeprefix("oomdoctor.").replace(".", "/") for module in prepared_playbook.RECORDS}
    assert named - {"_operator"} <= {name for name, _path in prepared_playbook.CODE}
    assert all(path.is_file() for _name, path in (*prepared_playbook.CODE, *misuses.SOURCES))


def test_a_change_of_the_code_makes_it_old(tmp_path: Path) -> None:
    one = tmp_path / "one.py"
    one.write_text("a")
    before = prepared.key_of([("one", one)])
    assert prepared.key_of([("one", one)]) == before
    assert prepared.key_of([("other", one)]) != before
    one.write_text("b")
    assert prepared.key_of([("one", one)]) != before
    one.unlink()
    assert prepared.key_of([("one", one)]) is None


class Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("true",)


@pytest.mark.parametrize(
    "content",
    [b"", b"k", b"key", b"key" + zlib.compress(b""), b"key" + zlib.compress(pickle.dumps(Runs())), b"key" + b"\0" * 99],
)
def test_what_is_no_prepared_file_is_not_used(tmp_path: Path, content: bytes) -> None:
    file, key = tmp_path / "file", b"key".ljust(32, b"\0")
    file.write_bytes(content.replace(b"key", key))
    assert prepared.restored(file, key, {}, {"oomdoctor.knobs.load"}) is None
    assert prepared.restored(tmp_path / "none", key, {}, set()) is None


def test_nothing_but_records_is_made_of_it() -> None:
    stored = io.BytesIO()
    pickle.Pickler(stored, 4).dump(Runs())
    with pytest.raises(ValueError, match="system is no record of a table"):
        prepared.restore(bytes(32) + zlib.compress(stored.getvalue()), {}, prepared_playbook.RECORDS)


def test_a_broken_table_is_told_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "knobs.yaml"
    broken.write_text("knobs: 1\n")
    monkeypatch.setattr(load, "TABLE", broken)
    load.load_knobs.cache_clear()
    try:
        with pytest.raises(RuleError, match="'knobs' is a list"):
            load.load_knobs()
    finally:
        load.load_knobs.cache_clear()
