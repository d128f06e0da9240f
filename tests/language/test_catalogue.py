"""The catalogue of a language holds every text, no other, and each with the placeholders of the English one."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import polib
import pytest

from oomdoctor.language import LANGUAGE_VARIABLE, _, begun, chosen, default_language, ngettext, speaking, told
from oomdoctor.language.catalogue import catalogue_path

ROOT = Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("make_catalogue", ROOT / "scripts" / "make_catalogue.py")
assert _SPEC is not None
assert _SPEC.loader is not None
make_catalogue = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(make_catalogue)
CATALOGUE = polib.pofile(str(catalogue_path("zh")), encoding="utf-8")


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{([A-Za-z_]\w*)\}", text))


def test_no_text_is_missing_and_none_is_left_over() -> None:
    held, wanted = {make_catalogue.key_of(entry) for entry in CATALOGUE}, set(make_catalogue.wanted())
    assert held - wanted == set(), "no longer in the code: run `make catalogue`"
    assert wanted - held == set(), "new in the code: run `make catalogue` and translate"


def test_every_text_is_translated() -> None:
    assert [entry.msgid for entry in CATALOGUE if not (entry.msgstr or entry.msgstr_plural.get(0))] == []


def test_a_translation_has_the_placeholders_of_the_english_text() -> None:
    for entry in CATALOGUE:
        text = entry.msgstr or entry.msgstr_plural[0]
        wanted = placeholders(entry.msgid_plural or entry.msgid)
        if entry.msgid.startswith("{name} {filename!r}"):
            wanted -= {"name"}  # click's English word for a path: "File", "Directory"
        assert placeholders(text) == wanted, entry.msgid


def test_what_was_composed_before_is_found_again_by_its_template() -> None:
    with speaking("zh"):
        assert told("oom event 4") == "OOM 事件 4"
        assert told("weights") == "权重"
        assert told("a text that nobody translated") == "a text that nobody translated"
    assert told("weights") == "weights"


def test_chinese_and_latin_stand_apart_and_the_punctuation_is_chinese() -> None:
    for entry in CATALOGUE:
        text = entry.msgstr or entry.msgstr_plural[0]
        assert not re.search(r"[\u4e00-\u9fff][A-Za-z0-9{]|[A-Za-z0-9}][\u4e00-\u9fff]", text), text
        assert not re.search(r"[\u4e00-\u9fff][,;:?!]", text), text


def test_a_term_has_one_translation() -> None:
    """`live` is 存活, not 在用 as well: a reader looks for a difference between two words."""
    assert [entry.msgid for entry in CATALOGUE if re.search("在用(?!到)", entry.msgstr or entry.msgstr_plural[0])] == []


def test_the_mark_of_what_the_code_fills_itself_is_that_of_the_code() -> None:
    marked = {entry.msgid for entry in CATALOGUE if make_catalogue.COMPOSED in entry.flags}
    assert marked == {text for text in make_catalogue.composed() if "{" in text}, "run `make catalogue`"


def test_the_language_is_one_for_a_block_and_english_otherwise() -> None:
    assert (chosen(), _("unknown")) == ("en", "unknown")
    with speaking("zh"):
        assert (chosen(), _("unknown")) == ("zh", "未知")
        assert _("a text that nobody translated") == "a text that nobody translated"
        assert ngettext("one text that nobody translated", "texts", 1) == "one text that nobody translated"
    assert chosen() == "en"


@pytest.mark.parametrize(
    ("value", "language"), [("", "en"), ("zh", "zh"), ("zh_CN.UTF-8", "zh"), ("ZH-Hans", "zh"), ("de", "en")]
)
def test_the_variable_chooses_a_language(monkeypatch: pytest.MonkeyPatch, value: str, language: str) -> None:
    monkeypatch.setenv(LANGUAGE_VARIABLE, value)
    assert default_language() == language


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the peak", "The peak"),
        ("vLLM serves none", "vLLM serves none"),
        ("llama.cpp reads it", "llama.cpp reads it"),
        ("cuda:0: free", "cuda:0: free"),
        ("torch", "Torch"),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_letter_unless_it_begins_with_a_name(text, said):
    assert begun(text) == said
