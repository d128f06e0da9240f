"""The translations of a language: `<language>.po` beside this file, read when the language is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILES = {"zh": "zh_CN.po"}


@dataclass(frozen=True)
class Catalogue:
    """Translations by context ('' for none) and English text. All languages here have one form for every number."""

    messages: Mapping[tuple[str, str], str]

    def message(self, message: str, context: str = "") -> str:
        """The translation; the English text where there is none."""
        return self.messages.get((context, message), message)

    def plural(self, one: str, many: str, number: int) -> str:
        """The translation of the pair; the English form for this number where there is none."""
        return self.messages.get(("", one), one if number == 1 else many)


def catalogue_path(language: str) -> Path:
    """The file of a language's translations."""
    return Path(__file__).parent / _FILES[language]


@cache
def read_catalogue(language: str) -> Catalogue:
    """The translations of a language, read once."""
    # Only who reads another language waits for the parser.
    import polib

    messages: dict[tuple[str, str], str] = {}
    for entry in polib.pofile(str(catalogue_path(language)), encoding="utf-8"):
        text = entry.msgstr or entry.msgstr_plural.get(0, "")
        if text and not entry.obsolete:
            messages[entry.msgctxt or "", entry.msgid] = text
    return Catalogue(messages)
