"""No regular expression of the readers takes long over a line made to fool it, whatever the line repeats."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from extended import extended_but

from oomdoctor.readers import gpu_tables, log, text
from oomdoctor.readers.log.family import Regex
from oomdoctor.readers.log.registry import ALL_FAMILIES

try:
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_parse as parser

LONGEST = 1 << 13
"""Half of what the engine matches at once: enough to tell."""
MOST_SECONDS = 0.15
"""Where each of these characters were tried with each, it would be most of a second."""


def samples(regex: re.Pattern[str]) -> Iterator[str]:
    """Texts that a match of `regex` begins with, longer and longer, with few and with many repeats."""
    tree = parser.parse(regex.pattern, regex.flags & ~re.UNICODE)
    for repeats in (1, 40):
        parts = [_text(operation, value, repeats) for operation, value in tree]
        literal = [str(operation) == "LITERAL" for operation, _ in tree]
        for end in range(1, len(parts) + 1):
            inside_a_word = end < len(parts) and literal[end - 1] and literal[end]
            if not inside_a_word and (sample := "".join(parts[:end])):
                yield sample


def _text(operation: Any, value: Any, repeats: int) -> str:
    """A text that one operation of a parsed regular expression matches."""
    name = str(operation)
    if name == "LITERAL":
        return chr(value)
    if name == "NOT_LITERAL":
        return "~" if value != ord("~") else "x"
    if name == "ANY":
        return "x"
    if name == "IN":
        return _member(value)
    if name == "BRANCH":
        return _sequence(value[1][-1], repeats)
    if name == "SUBPATTERN":
        return _sequence(value[-1], repeats)
    if name == "ATOMIC_GROUP":
        return _sequence(value, repeats)
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, inside = value
        return _sequence(inside, repeats) * max(least, min(int(most), repeats))
    return ""


def _sequence(tree: Any, repeats: int) -> str:
    return "".join(_text(operation, value, repeats) for operation, value in tree)


def _member(choices: Any) -> str:
    operation, value = choices[0]
    if str(operation) == "NEGATE":
        barred = re.compile("[" + "".join(_class(choice) for choice in choices[1:]) + "]")
        return next(char for char in "x1 .~_\t" if not barred.match(char))
    if str(operation) == "CATEGORY":
        return {"DIGIT": "1", "SPACE": " ", "WORD": "w"}.get(str(value).removeprefix("CATEGORY_"), "~")
    return chr(value[0]) if str(operation) == "RANGE" else chr(value)


def _class(choice: Any) -> str:
    operation, value = choice
    if str(operation) == "CATEGORY":
        return {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[str(value).removeprefix("CATEGORY_")]
    if str(operation) == "RANGE":
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    return re.escape(chr(value))


def used() -> dict[str, re.Pattern[str]]:
    """Every regular expression of the registered forms, and those by the side of them, by where it stands."""
    found = {
        f"{family.name}: {pattern.anchor} {pattern.regex}": pattern.compiled
        for family in ALL_FAMILIES
        for pattern in family.patterns
    }
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for package in (log, gpu_tables)
        for module in pkgutil.iter_modules(package.__path__)
    ]
    for module in (*modules, text):
        for name, value in vars(module).items():
            for number, regex in enumerate(_inside(value)):
                found[f"{module.__name__}.{name}[{number}]"] = regex
    return found


def _inside(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif isinstance(value, Regex):
        yield value.compiled
    elif isinstance(value, (tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _inside(one)
    elif isinstance(regex := getattr(value, "regex", None), re.Pattern):
        yield regex


USED = used()


def test_what_is_used_is_found() -> None:
    assert len(USED) > 400


@pytest.mark.parametrize("part", extended_but(range(8), 0, 1))
def test_a_line_of_its_own_fragments(part: int) -> None:
    slow = {name: took for name, regex in list(USED.items())[part::8] if (took := longest(regex)) > MOST_SECONDS}
    assert slow == {}


def test_one_that_tries_every_end_for_every_beginning_is_noticed() -> None:
    assert longest(re.compile(r"(?:a|x).*?(?:b|c)$")) > MOST_SECONDS


def longest(regex: re.Pattern[str]) -> float:
    """Seconds that it takes over the worst of the lines; of those that are too slow the first is enough."""
    worst = 0.0
    for sample in dict.fromkeys(samples(regex)):
        for line in (sample * (LONGEST // len(sample) + 1), sample + sample[-1] * LONGEST):
            began = time.process_time()
            regex.search(line[:LONGEST])
            worst = max(worst, time.process_time() - began)
            if worst > MOST_SECONDS:
                return worst
    return worst
