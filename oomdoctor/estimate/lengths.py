"""Lengths of requests as a file tells them: the longest ones decide what fits, not the mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import InputRefused
from ..language import _

_MOST_BYTES = 200_000_000
_MOST_LENGTH = 1 << 32
_MOST_LINE = 10_000


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

    Raises InputRefused with the line that is neither.
    """
    counts: dict[int, int] = {}
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
                text = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace")
                entry = _entry(text.partition("#")[0].replace(",", " ").split())
                if entry is None:
                    raise InputRefused(
                        _("{path}:{number}: neither a length nor a length and a count").format(path=path, number=number)
                    )
                if entry:
                    length, count = entry
                    counts[length] = counts.get(length, 0) + count
    except OSError as error:
        raise InputRefused(f"{path}: {error.strerror}") from error
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


def _entry(words: list[str]) -> tuple[int, int] | tuple[()] | None:
    """Length and count; nothing for a line that says nothing; None for one that is wrong."""
    if not words:
        return ()
    if len(words) > 2 or not all(word.isascii() and word.isdigit() and len(word) <= 15 for word in words):
        return None
    length, count = int(words[0]), int(words[1]) if len(words) == 2 else 1
    return (length, count) if 1 <= length <= _MOST_LENGTH else None


def _quantile(ordered: list[tuple[int, int]], requests: int, percent: int) -> int:
    """The smallest length that so many percent of the requests do not exceed (nearest rank)."""
    rank = -(-percent * requests // 100)
    seen = 0
    for length, count in ordered:
        seen += count
        if seen >= rank:
            return length
    return ordered[-1][0]
