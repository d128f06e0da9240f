"""When a line was written, in the many forms in which logs say so; for putting lines in order, not for showing."""

from __future__ import annotations

import re

from ..times import MONTHS, moment, unix_time

YEARLESS = 1972
"""The year that times without one are put in: a leap year, before any log."""

_MONTH = "|".join(MONTHS)
_REACH = 200
"""Characters of a line in which its time stands."""
_ANY = re.compile(r"\d\d:\d\d:\d\d|\d{16}")
"""What each of the forms below holds: most lines have none of them."""
_ISO = re.compile(r"(?<![0-9])\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?")
_SLASHES = re.compile(r"(?<![0-9])(\d{4})/(\d\d)/(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?")
_NAMED = re.compile(
    rf"\b(?P<month>{_MONTH}) {{1,2}}(?P<day>\d{{1,2}}),? (?:(?P<early>\d{{4}}),? ?@? ?)?"
    r"(?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?(?: (?P<late>\d{4}))?"
)
_SERVER = re.compile(rf"(?<![0-9])(?P<day>\d\d)/(?P<month>{_MONTH})/(?P<year>\d{{4}}):(?P<clock>\d\d:\d\d:\d\d)")
_LEVELLED = re.compile(
    r"(?:\b(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)\b:? |^[IWEF])(\d\d)-?(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?"
)
_MICROSECONDS = re.compile(r'"(?:__REALTIME_TIMESTAMP)" ?: ?"?(\d{16})\b')
_NANOSECONDS = re.compile(r"^\W{0,3}(1\d{18})\b")


def stamp_of(text: str) -> float | None:
    """Unix seconds of the time that this line begins with; one without a year is in YEARLESS. None: it has none."""
    text = text[:_REACH]
    if _ANY.search(text) is None:
        return None
    if found := _ISO.search(text):
        return unix_time(found[0])
    if found := _SLASHES.search(text):
        return moment(int(found[1]), int(found[2]), int(found[3]), found[4], found[5])
    if found := _NAMED.search(text):
        year = int(found["early"] or found["late"] or YEARLESS)
        return moment(year, MONTHS[found["month"]], int(found["day"]), found["clock"], found["part"])
    if found := _SERVER.search(text):
        return moment(int(found["year"]), MONTHS[found["month"]], int(found["day"]), found["clock"], None)
    if found := _LEVELLED.search(text):
        return moment(YEARLESS, int(found[1]), int(found[2]), found[3], found[4])
    if found := _MICROSECONDS.search(text):
        return int(found[1]) / 1e6
    if found := _NANOSECONDS.search(text):
        return int(found[1]) / 1e9
    return None
