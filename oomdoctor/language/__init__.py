"""The language of what people read: gettext's idiom, with English in the code and a catalogue beside it.

`_("{size} are free").format(size=…)` is the whole of it: a whole sentence with named placeholders, translated where it
is shown and never when a module is loaded. A text that stands in a table is marked with `N_` there and given to `_`
where it is shown. The language of a process is set once, by the command that was called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from .catalogue import Catalogue, read_catalogue

ENGLISH, CHINESE = "en", "zh"
LANGUAGES = (ENGLISH, CHINESE)
LANGUAGE_VARIABLE = "OOMDOCTOR_LANG"

_BETWEEN = (
    "(?<=[，。；：、！？]) (?=\\S)|(?<=[\u4e00-\u9fff）”]) (?=[\u4e00-\u9fff（“])|(?<=[\u4e00-\u9fff]) (?=[，。；：、])"
)
_EDGE = "\0"
_WIDE = "\u4e00-\u9fff，。；：、（）“”"
_BESIDE_A_VALUE = (
    f"(?<=[{_WIDE}]) (?={_EDGE}[{_WIDE}])|(?<=[{_WIDE}]{_EDGE}) (?={_EDGE}?[{_WIDE}])"
    f"| (?={_EDGE}{_EDGE})|(?<=^{_EDGE}{_EDGE}) "
)
_HOLE = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")
_chosen = ENGLISH
_catalogue: Catalogue | None = None


class _Sentence(str):
    """A translated text. A blank before or behind a placeholder goes where Chinese, or nothing, is filled in there."""

    __slots__ = ()

    def format(self, *unnamed: object, **named: object) -> str:
        """As of any text; what is filled in stays as it is."""
        if unnamed or "!" in self:
            return super().format(*unnamed, **named)
        filled = _HOLE.sub(
            lambda hole: hole[0][0] if hole[1] is None else f"{_EDGE}{str(named[hole[1]]).replace(_EDGE, '')}{_EDGE}",
            self,
        )
        return re.sub(_BESIDE_A_VALUE, "", filled).replace(_EDGE, "")


def choose(language: str) -> None:
    """Say everything in this language from now on. An unknown one is English."""
    global _chosen, _catalogue
    _chosen = language if language in LANGUAGES else ENGLISH
    _catalogue = None if _chosen == ENGLISH else read_catalogue(_chosen)


def chosen() -> str:
    """The language in use: 'en' or 'zh'."""
    return _chosen


def default_language() -> str:
    """What OOMDOCTOR_LANG asks for (`zh`, `zh_CN.UTF-8`); English without it."""
    wanted = os.environ.get(LANGUAGE_VARIABLE, "").strip().lower()
    return next((each for each in LANGUAGES if wanted.startswith(each)), ENGLISH)


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Use this language within the block, and the one before after it."""
    before = _chosen
    choose(language)
    try:
        yield
    finally:
        choose(before)


def _(message: str) -> str:
    """The message in the language in use; as it stands where there is no translation."""
    return message if _catalogue is None else _Sentence(_catalogue.message(message))


def told(text: str) -> str:
    """A text that was composed in English before, by a probe or for a bundle, in the language in use.

    Its template is found again by its words; a text that fits none stays as it is.
    """
    if _catalogue is None:
        return text
    translated = _catalogue.told(text)
    return text if translated == text else tidy(translated)


def tidy(text: str) -> str:
    """A filled sentence as it is written: Chinese beside Chinese has no blank between."""
    return text if _catalogue is None else re.sub(_BETWEEN, "", text)


def begun(text: str) -> str:
    """As a sentence begins; what is no ordinary word stays as it is written: `vLLM`, `cuda:0`, `llama.cpp`."""
    return text[:1].upper() + text[1:] if re.match("[a-z]+(?![^ ,;'])", text) else text


def pgettext(context: str, message: str) -> str:
    """As `_`, for a word that means different things in different places; `context` says which."""
    return message if _catalogue is None else _Sentence(_catalogue.message(message, context))


def ngettext(one: str, many: str, number: int) -> str:
    """`one` or `many`, as `number` has it in the language in use."""
    if _catalogue is None:
        return one if number == 1 else many
    return _Sentence(_catalogue.plural(one, many, number))


def N_(message: str) -> str:
    """The message itself, marked for the catalogue; `_` translates it where it is shown."""
    return message
