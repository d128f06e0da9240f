"""The translations of a language: `<language>.po` beside this file, read when the language is chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

_FILES = {"zh": "zh_CN.po"}
_LONGEST = 2000
_DEEPEST = 8
"""Templates within templates: what the product composes has a few, a text that nests more was not made by it."""
_PLACE = re.compile(r"\{([A-Za-z_]\w*)\}")
_WORD = re.compile(r"[A-Za-z]{3}")
_SOURCE_LINE = re.compile(r":\d+ in [^:]+: ")
"""A frame with its line of source code, where a semicolon divides statements and not sentences."""

COMPOSED = "composed"
"""The mark in the catalogue of texts that are composed in English before they are shown."""
_TIME = r"[\d.]+ (?:s|ms|µs|min)|\d+ h \d+ min"
_SHAPES = {
    name: re.compile(shape)
    for name, shape in {
        "size": r"-?[\d.,]+ (?:B|bytes?|[KMGTPE]iB)",
        "number": r"-?[\d.,]+",
        "before": r"[\d,]+",
        "pid": r"\d+",
        "rank": r"\d+",
        "event": r"\d+",
        "events": r"[\d,]+",
        "others": r"[\d,]+",
        "rest": r"[\d,]+",
        "exit_status": r"-?\d+",
        "device": r"[\w:?]+",
        "facts": r"\w+\.\w+(?:, \w+\.\w+)*",
        "time": _TIME,
        "interval": r"[\d.]+",
        "variable": r"(?:[\w.\[\]]+ )?'[^']+'",
        "module": r"[\w.<>-]+",
        "function": r"[\w.<>\[\]]+\(\)",
        "class": r"\w+",
        "kind": r"[\w.\[\]]+",
        "held": r"'[^']+'|[\w.]+",
        "slot": r"\w+",
        "line": r"[^,()]+:\d+",
        "file": r"[^,()]+\.\w+",
        "stack": r".+:\d+ in .+",
    }.items()
}
"""What the placeholders of these names hold: templates with few words of their own would else fit any text."""


@dataclass(frozen=True)
class Catalogue:
    """Translations by context ('' for none) and English text. All languages here have one form for every number."""

    messages: Mapping[tuple[str, str], str]
    composed: frozenset[str] | None = None
    """The templates that texts are composed of before they are shown: only such are found again. None: all."""
    _told: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def message(self, message: str, context: str = "") -> str:
        """The translation; the English text where there is none."""
        return self.messages.get((context, message), message)

    def told(self, text: str) -> str:
        """The translation of a text that was composed from templates; the text itself where it fits none.

        What stands in its placeholders is looked up as well, and so are texts that a semicolon joins.
        """
        if text not in self._told:
            self._told[text] = self._translated(text, _DEEPEST)
        return self._told[text]

    def _translated(self, text: str, deeper: int) -> str:
        if ("", text) in self.messages:
            return self.messages["", text]
        if not deeper or len(text) > _LONGEST or not text.isprintable() or not _WORD.search(text):
            return text
        for texts, names, message in self._templates:
            found = _filled(texts, names, text)
            if found is not None:
                values = {name: self._translated(value, deeper - 1) for name, value in found.items()}
                return self.messages["", message].format(**values)
        parts = text.split("; ")
        if len(parts) == 1 or _SOURCE_LINE.search(parts[0]):
            return text
        translated = [self._translated(part, deeper - 1) for part in parts]
        return text if translated == parts else self.message("; ").join(translated)

    @cached_property
    def _templates(self) -> tuple[tuple[list[str], list[str], str], ...]:
        """The messages with placeholders, as their own texts and names, those with the most words of their own first.

        A singular whose translation names a number that the English leaves out cannot be filled from its text.
        """
        found = []
        for (context, message), translation in self.messages.items():
            texts, names = _PLACE.split(message)[::2], _PLACE.findall(message)
            own = "".join(texts)
            if self.composed is not None and message not in self.composed:
                continue
            tells = _WORD.search(own) or any(name in _SHAPES for name in names)
            if context or not names or not tells or not set(_PLACE.findall(translation)) <= set(names):
                continue
            found.append((len(own), texts, names, message))
        return tuple(one[1:] for one in sorted(found, key=lambda one: -one[0]))

    def plural(self, one: str, many: str, number: int) -> str:
        """The translation of the pair; the English form for this number where there is none."""
        return self.messages.get(("", one), one if number == 1 else many)


def _filled(texts: list[str], names: list[str], text: str) -> dict[str, str] | None:
    """What the placeholders between `texts` hold, each as short as it can be; None where the text does not fit.

    A placeholder holds one character at least. Nothing is tried twice, so hostile text costs one pass.
    """
    if not text.startswith(texts[0]) or not text.endswith(texts[-1]):
        return None
    place, end = len(texts[0]), len(text) - len(texts[-1])
    values: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        stop = end if number == len(names) else text.find(texts[number], place + 1, end)
        if stop <= place or values.setdefault(name, text[place:stop]) != text[place:stop]:
            return None
        if name in _SHAPES and not _SHAPES[name].fullmatch(values[name]):
            return None
        place = stop + len(texts[number])
    return values


def catalogue_path(language: str) -> Path:
    """The file of a language's translations."""
    return Path(__file__).parent / _FILES[language]


@cache
def read_catalogue(language: str) -> Catalogue:
    """The translations of a language, read once."""
    # Only who reads another language waits for the parser.
    import polib

    messages: dict[tuple[str, str], str] = {}
    composed = set()
    for entry in polib.pofile(str(catalogue_path(language)), encoding="utf-8"):
        text = entry.msgstr or entry.msgstr_plural.get(0, "")
        if text and not entry.obsolete:
            messages[entry.msgctxt or "", entry.msgid] = text
            if COMPOSED in entry.flags:
                composed.add(entry.msgid)
    return Catalogue(messages, frozenset(composed))
