"""The options an engine prints as it starts: `a=1, b='x, y', c=[1, 2])`, `{'a': 1}`, `Args { a: Some(1) }`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LONGEST = 16_384
_OPENING, _CLOSING = "([{", ")]}"
_NAME = re.compile(r"['\"]?([A-Za-z_][\w.-]{0,79})['\"]?\s{0,8}[=:]")


def printed_options(text: str, closed: bool = False) -> tuple[tuple[str, str], ...]:
    """Names and values of a printed list of options, quotes taken off the values.

    The list ends at a bracket that closes it. With `closed` such a bracket belongs there: without one the text was cut,
    and the last item is left out because its value may be cut too.
    """
    items, complete = _split(text[:_LONGEST])
    if closed and not complete:
        items = items[:-1]
    return tuple(option for item in items for option in _read(item))


def _split(text: str) -> tuple[list[str], bool]:
    """The parts between top-level commas, and whether a bracket closed the list."""
    items: list[str] = []
    start, depth, quote, skip = 0, 0, "", False
    for place, character in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = character == "\\"
            quote = "" if character == quote else quote
        elif character in "'\"" and text[place - 1 : place] in ("", *" =:,([{"):
            quote = character
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
            if depth < 0:
                return [*items, text[start:place]], True
        elif character == "," and depth == 0:
            items.append(text[start:place])
            start = place + 1
    return [*items, text[start:]], False


def _read(item: str) -> Iterator[tuple[str, str]]:
    item = item.strip()
    match = _NAME.match(item)
    if match is None:
        return
    value = item[match.end() :].strip()
    if value.startswith("Some(") and value.endswith(")"):
        value = value[len("Some(") : -1].strip(" ,\n")
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    if value:
        yield match[1], value
