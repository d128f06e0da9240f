"""The translations of a language: `<language>.po` beside this file, read when the language is chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

_FILES = {"zh": "zh_CN.po"}
_LONGEST = 2000
_PLACE = re.compile(r"\{([A-Za-z_]\w*)\}")
_WORD = re.compile(r"[A-Za-z]{3}")


@dataclass(frozen=True)
class Catalogue:
    """Translations by context ('' for none) and English text. All languages here have one form for every number."""

    messages: Mapping[tuple[str, str], str]
    _told: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def message(self, message: str, context: str = "") -> str:
        """The translation; the English text where there is none."""
        return self.messages.get((context, message), message)

    def told(self, text: str) -> str:
        """The translation of a text that was made from a template; the text itself where it fits none.

        What stands in its placeholders is looked up as well, and so are texts that a semicolon joins.
        """
        if text not in self._told:
            self._told[text] = self._translated(text)
        return self._told[text]

    def _translated(self, text: str) -> str:
        if ("", text) in self.messages:
            return self.messages["", text]
        if len(text) > _LONGEST or not text.isprintable() or not _WORD.search(text):
            return text
        for pattern, message in self._templates:
            found = pattern.fullmatch(text)
            if found:
                values = {name: self.told(value) for name, value in found.groupdict().items()}
                return self.messages["", message].format(**values)
        parts = text.split("; ")
        if len(parts) == 1:
            return text
        translated = [self.told(part) for part in parts]
        return text if translated == parts else self.message("; ").join(translated)

    @cached_property
    def _templates(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        """The messages with placeholders as patterns, those with the most words of their own first."""
        found = []
        for context, message in self.messages:
            texts, names = _PLACE.split(message)[::2], _PLACE.findall(message)
            own = "".join(texts)
            if context or not names or not _WORD.search(own):
                continue
            pattern = re.escape(texts[0])
            for place, (name, text) in enumerate(zip(names, texts[1:], strict=True)):
                group = f"(?P={name})" if name in names[:place] else f"(?P<{name}>.+?)"
                pattern += group + re.escape(text)
            found.append((len(own), re.compile(pattern, re.DOTALL), message))
        return tuple((pattern, message) for _own, pattern, message in sorted(found, key=lambda one: -one[0]))

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
