"""Text from outside made safe to show: no control character, terminal sequence or direction override survives."""

from __future__ import annotations

import re

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufff9-\ufffb{_BIDI}]")
_BLANKS = re.compile(r"\s+")


def plain(text: str) -> str:
    """The text with what could act on a terminal or reorder a line made visible; newlines and tabs stay."""
    return _UNSAFE.sub(_visible, text.replace("\r\n", "\n"))


def one_line(text: str, limit: int | None = None) -> str:
    """`plain` on a single line, shortened in the middle beyond `limit` characters (paths differ at both ends)."""
    line = plain(_BLANKS.sub(" ", text).strip())
    return line if limit is None else shorten(line, limit)


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters: the first two thirds and the end, with an ellipsis between."""
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    tail = limit - 1 - head
    return text[:head].rstrip() + "…" + (text[-tail:].lstrip() if tail else "")


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\N{REPLACEMENT CHARACTER}" if code < 0xA0 or 0xD800 <= code < 0xE000 else f"⟨U+{code:04X}⟩"
