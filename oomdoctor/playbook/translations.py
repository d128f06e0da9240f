"""Whether the texts of a rule in another language say what its own say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..knobs.document import Place
from .expression import Expression
from .rule import Rule, RuleNotRemedy, RuleToConfirm, Translation
from .template import Template

_WORD = re.compile(r"[A-Za-z]{2}")


@dataclass(frozen=True)
class Fault:
    """What is wrong with a text, and where."""

    message: str
    place: Place


def texts_of(texts: Rule | Translation) -> dict[str, str | Template]:
    """Every text for people of a rule, or of a translation of it, by a name that both give it."""
    found: dict[str, str | Template | None] = {"title": texts.title, "explain": texts.explain, "owner": texts.owner}
    if isinstance(texts, Rule):
        for remedy in texts.remedies:
            found |= {f"do of {remedy.id}": remedy.do, f"cost of {remedy.id}": remedy.cost}
    else:
        found |= {f"do of {name}": text for name, text in texts.do.items()}
        found |= {f"cost of {name}": text for name, text in texts.cost.items()}
    found |= _listed(texts.not_remedies, texts.to_confirm)
    return {name: text for name, text in found.items() if text}


def _listed(
    not_remedies: tuple[RuleNotRemedy, ...], to_confirm: tuple[RuleToConfirm, ...]
) -> dict[str, str | Template | None]:
    found: dict[str, str | Template | None] = {}
    for number, item in enumerate(not_remedies, 1):
        found |= {f"what of not_remedies {number}": item.what, f"why of not_remedies {number}": item.why}
    return found | {f"what of to_confirm {number}": step.what for number, step in enumerate(to_confirm, 1)}


def faults_of(rule: Rule, language: str) -> Iterator[Fault]:
    """Texts that are missing, and placeholders that are not the English ones."""
    translation = rule.translations.get(language)
    if translation is None or translation.place is None:
        yield Fault(f"{rule.id} has no texts in this language", rule.place)
        return
    own, translated = texts_of(rule), texts_of(translation)
    for name, text in own.items():
        place = translation.places.get(name, translation.place)
        if name not in translated:
            if not isinstance(text, Template) or _words(text):
                yield Fault(f"{name} is missing", place)
        elif isinstance(text, Template):
            yield from (Fault(f"{name} {what}", place) for what in _differences(text, translated[name]))
    for name in translated.keys() - own.keys():
        yield Fault(f"{name} is not in the English texts", translation.places.get(name, translation.place))


def _differences(own: Template, translated: str | Template) -> Iterator[str]:
    parts = (translated,) if isinstance(translated, Template) else ()
    shown = {each.text for part in parts for each in _placeholders(part)}
    wanted = {each.text for each in _placeholders(own)}
    if missing := sorted(wanted - shown):
        yield f"does not show {', '.join(missing)}"
    if more := sorted(shown - wanted):
        yield f"shows {', '.join(more)}, which the English text does not"
    always = {each.text for each in bare(own)}
    doubtful = sorted({each.text for part in parts for each in bare(part)} & wanted - always)
    if doubtful:
        yield f"shows {', '.join(doubtful)} outside [[ … ]], where the English text can leave it out"


def bare(template: Template) -> Iterator[Expression]:
    """The placeholders outside optional parts."""
    yield from (part for part in template.parts if isinstance(part, Expression))


def _placeholders(template: Template) -> Iterator[Expression]:
    for part in template.parts:
        if isinstance(part, Template):
            yield from _placeholders(part)
        elif isinstance(part, Expression):
            yield part


def _words(template: Template) -> bool:
    """Whether there is a word in it that is not a fact's."""
    return any(
        _words(part) if isinstance(part, Template) else isinstance(part, str) and bool(_WORD.search(part))
        for part in template.parts
    )
