"""Text from outside made safe to show: no control character, terminal sequence or direction override survives."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..language import N_, _, told
from ..model.facts import FactValue
from ..model.units import format_bytes, format_seconds

NOT_MEASURED = N_("not measured")

SHORT_NAMES = (
    N_("measured"),
    N_("computed"),
    N_("printed"),
    N_("host"),
    N_("available"),
    N_("unnamed"),
    N_("allocated"),
    N_("cgroup"),
)
"""Words that evidence and facts use, translated where they are shown."""

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufff9-\ufffb{_BIDI}]")
_RECORD = re.compile(r"(.+) \((.+)\)")
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


def format_value(value: FactValue, unit: str) -> str:
    """A fact's value as people read it."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, str):
        return one_line(told(value), 400)
    if value != value or value in (float("inf"), float("-inf")):
        return _(NOT_MEASURED)
    if unit == "bytes":
        return format_bytes(value)
    if unit == "seconds":
        return format_seconds(value)
    if unit == "ratio":
        return f"{100 * value:.1f} %"
    number = f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
    return _("{number} tokens").format(number=number) if unit == "tokens" else number


def listed(items: Iterable[str]) -> str:
    """Things of a kind, one after the other."""
    return _(", ").join(items)


def source_of(text: str) -> str:
    """Where a statement comes from: the place as it is, the record in it in the language of the report."""
    found = _RECORD.fullmatch(text)
    return told(text) if found is None else f"{found[1]} ({told(found[2])})"


def format_share(part: int, whole: int) -> str:
    """A percentage that never rounds something to nothing, nor a part to the whole."""
    if whole <= 0:
        return ""
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "< 0.1 %"
    if 99.9 < share < 100:
        return "99.9 %"
    return f"{share:.1f} %"


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\N{REPLACEMENT CHARACTER}" if code < 0xA0 or 0xD800 <= code < 0xE000 else f"⟨U+{code:04X}⟩"
