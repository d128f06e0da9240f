"""Lengths of requests as a file tells them: the longest ones decide what fits, not the mean.

A comma parts length and count (`1024,37`, `12, 288`) or thousands (`1,024`, `1,234,567`, `12,288 30`). `12,288` may be
either: it is what the other lines of the file show a comma to be, and refused where they do not. A bucket of a
histogram (`128-256 40`) counts as its upper end, as a request may be that long. Words before the first number are a
heading.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputRefused
from ..language import _

_MOST_BYTES = 200_000_000
_MOST_LENGTH = 1 << 32
_MOST_LINE = 10_000
_NUMBER = re.compile(r"[0-9]{1,15}")
_EITHER = re.compile(r"([1-9][0-9]{0,2}),([0-9]{3})")
_BUCKET = re.compile(r"([0-9]{1,15})\s*(?:-|\.\.|\u2013)\s*([0-9]{1,15})[\s,;:]+([0-9]{1,15})")
_HEADING = re.compile(r"[^0-9]+")
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3}){1,4}")


@dataclass(frozen=True)
class Lengths:
    """A distribution of tokens a request."""

    requests: int
    mean: float
    p50: int
    p95: int
    p99: int
    longest: int


def read_lengths(path: Path) -> Lengths:
    """A file with a length a line, or a length and how many requests have it; blanks and `#` comments are left out.

    Raises InputRefused with the line that is neither, or may be either.
    """
    found = _Found()
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputRefused(
                _("{path}: not a file, and it may never end; write the lengths to one").format(path=path)
            )
        if path.stat().st_size > _MOST_BYTES:
            raise InputRefused(
                _("{path}: more than {most} bytes; make a histogram of it").format(path=path, most=f"{_MOST_BYTES:,}")
            )
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_MOST_LINE), b""), 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").partition("#")[0].strip()
                if text and not found.take(text, number):
                    raise InputRefused(
                        _("{path}:{number}: neither a length nor a length and a count").format(path=path, number=number)
                    )
    except OSError as error:
        raise InputRefused(f"{path}: {error.strerror}") from error
    counts = found.counts(path)
    requests = sum(counts.values())
    if not requests:
        raise InputRefused(_("{path}: holds no length").format(path=path))
    ordered = sorted(counts.items())
    return Lengths(
        requests=requests,
        mean=sum(length * count for length, count in ordered) / requests,
        p50=_quantile(ordered, requests, 50),
        p95=_quantile(ordered, requests, 95),
        p99=_quantile(ordered, requests, 99),
        longest=max(length for length, count in ordered if count),
    )


class _Found:
    """What the lines said so far. Those with a comma that may be either are kept apart, both ways."""

    def __init__(self) -> None:
        self._sure, self._as_pairs, self._as_thousands = Counter[int](), Counter[int](), Counter[int]()
        self._either: tuple[int, str] | None = None
        self._pairs_seen = self._thousands_seen = self._begun = False

    def take(self, text: str, number: int) -> bool:
        """Whether the line is a length, or a length and a count."""
        if not self._begun and _HEADING.fullmatch(text):
            return True
        self._begun = True
        bucket = _BUCKET.fullmatch(text)
        if bucket is not None:
            self._sure[int(bucket[2])] += int(bucket[3])
            return int(bucket[1]) <= int(bucket[2]) and _is_length(int(bucket[2]))
        either = _EITHER.fullmatch(text)
        if either is not None and not either[2].startswith("0"):
            self._either = self._either or (number, text)
            self._as_pairs[int(either[1])] += int(either[2])
            self._as_thousands[int(either[1] + either[2])] += 1
            return True
        words = [word.strip('"') for word in text.replace(";", " ").split()]
        if any(_THOUSANDS.fullmatch(word) for word in words):
            self._thousands_seen = True
            words = [word.replace(",", "") for word in words]
        elif any("," in word for word in words):
            self._pairs_seen = True
            words = text.replace('"', " ").replace(",", " ").split()
        if not 1 <= len(words) <= 2 or not all(_NUMBER.fullmatch(word) for word in words):
            return False
        length, count = int(words[0]), int(words[1]) if len(words) == 2 else 1
        self._sure[length] += count
        return _is_length(length)

    def counts(self, path: Path) -> Counter[int]:
        """How many requests have each length. Raises InputRefused with the first line that may be read two ways."""
        if self._either is None:
            return self._sure
        number, text = self._either
        if self._pairs_seen == self._thousands_seen:
            length, _comma, count = text.partition(",")
            raise InputRefused(
                _(
                    "{path}:{number}: {text} is either one length or {count} requests of {length}; write {whole}, or"
                    " {length} {count}"
                ).format(path=path, number=number, text=text, count=count, length=length, whole=length + count)
            )
        return self._sure + (self._as_pairs if self._pairs_seen else self._as_thousands)


def _is_length(tokens: int) -> bool:
    return 1 <= tokens <= _MOST_LENGTH


def _quantile(ordered: list[tuple[int, int]], requests: int, percent: int) -> int:
    """The smallest length that so many percent of the requests do not exceed (nearest rank)."""
    rank = -(-percent * requests // 100)
    seen = 0
    for length, count in ordered:
        seen += count
        if seen >= rank:
            return length
    return ordered[-1][0]
