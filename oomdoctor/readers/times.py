"""Unix seconds of the times that logs and tables print. Where no zone is printed, it is read as UTC."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import lru_cache

MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
CLOCK = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")


def unix_time(text: str) -> float | None:
    """Unix time of `2025-03-07 21:49:33,500` and its kin; None when it is not a time."""
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    whole = _whole_seconds(match[1], match[2], match[4] or "Z")
    return None if whole is None else whole + float(f"0.{match[3] or 0}")


def clock_time(text: str) -> float | None:
    """Unix time of `Thu Mar  7 21:49:33 2024`; None when it is not a time."""
    if CLOCK.fullmatch(text) is None or text[4:7] not in MONTHS:
        return None
    return moment(int(text[20:24]), MONTHS[text[4:7]], int(text[8:10]), text[11:19])


@lru_cache(maxsize=256)
def moment(year: int, month: int, day: int, clock: str, fraction: str | None = None) -> float | None:
    """Unix time of a day, `21:49:33` and the digits behind its point; None where there is no such day."""
    hour, minute, second = map(int, clock.split(":"))
    try:
        whole = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None
    return whole + float(f"0.{fraction or 0}")


@lru_cache(maxsize=256)
def _whole_seconds(day: str, clock: str, zone: str) -> float | None:
    """Remembers the latest ones: a busy log has many lines to the second."""
    zone = zone.replace("Z", "+00:00")
    if ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    try:
        return datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None
