"""Takes the size of a request apart: which tensor has exactly so many bytes.

A score matrix has batch × heads × positions × positions elements, logits have positions × vocabulary. A product is
given only where it is the only one; sizes that are powers of two mostly have many. A matrix of vocabulary × hidden has
as many bytes as logits of `hidden` positions: that is told of neither, unless the operation or a length settles it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import isqrt

from ..estimate.tensors import embedding_elements, logits_bytes, rows_bytes, scores_bytes
from ..language import N_

_FEWEST_POSITIONS = 256
_WIDTHS = {2: "16-bit", 4: "float32"}
_MOST_BYTES_A_PAIR = 1024
"""Bytes for a pair of positions in one head: the width of a score times the batch."""
_MOST_BYTES_A_SQUARE = 4096
"""The same where the heads are not known and count as well."""
_SMALLEST_SIDE, _SMALLEST_ODD_PART, _LARGEST_ODD_REST = 1024, 101, 127
"""Of a square that nothing else speaks for. One size in a thousand has such a square by chance."""


@dataclass(frozen=True)
class Factors:
    """One way to read a size."""

    kind: str
    """scores, logits, embedding or keys; a square, which may be scores; or one of `known_sizes`."""
    product: str
    """32 heads × 8192 × 8192 × 4 bytes"""
    meaning: str
    """float32 scores of one prompt of 8192 tokens"""
    tokens: int | None


def factor(
    least_bytes: int,
    most_bytes: int,
    *,
    heads: int | None = None,
    vocabulary: int | None = None,
    hidden: int | None = None,
    kv_row: int | None = None,
    lengths: Collection[int] = (),
    kinds: Collection[str] = ("scores", "logits", "embedding"),
    others: Collection[Factors] = (),
) -> Factors | None:
    """The only product that lies in [least_bytes, most_bytes] (both ends the same: an exact size), or None.

    With `lengths` (positions that are known to occur) only products of these, where there are any. Without `heads` a
    square is looked for in exact sizes only. `kv_row`: elements of a token's keys in one layer. `others`: more
    products of that size; a square is not told beside them.
    """
    found: list[Factors] = list(others)
    if "scores" in kinds and heads is not None:
        found.extend(_scores(least_bytes, most_bytes, heads, lengths))
    elif "scores" in kinds and least_bytes == most_bytes and not others:
        found.extend(_squares(most_bytes))
    if "logits" in kinds and vocabulary is not None:
        found.extend(_logits(least_bytes, most_bytes, vocabulary, lengths))
    if "embedding" in kinds and vocabulary is not None and hidden is not None:
        found.extend(_embedding(least_bytes, most_bytes, vocabulary, hidden))
    if "keys" in kinds and kv_row is not None:
        found.extend(_keys(least_bytes, most_bytes, kv_row, lengths))
    of_known_length = [one for one in found if one.tokens in lengths]
    found = of_known_length or found
    return found[0] if len(found) == 1 else None


def _scores(least: int, most: int, heads: int, lengths: Collection[int]) -> Iterator[Factors]:
    for pair_bytes in range(2, _MOST_BYTES_A_PAIR + 1, 2):
        if _odd_part(pair_bytes) > _LARGEST_ODD_REST:
            continue
        largest = isqrt(most // scores_bytes(heads, 1, pair_bytes))
        for positions in {largest, *(length for length in lengths if length < largest)}:
            if positions < _FEWEST_POSITIONS or scores_bytes(heads, positions, pair_bytes) < least:
                continue
            product = N_("{heads} heads × {positions} × {positions} × {number} bytes").format(
                heads=heads, positions=positions, number=pair_bytes
            )
            yield Factors("scores", product, _scores_in_words(positions, pair_bytes), positions)


def _scores_in_words(positions: int, pair_bytes: int) -> str:
    if pair_bytes == 2:
        return N_("16-bit attention scores of one sequence of {number} tokens").format(number=positions)
    if pair_bytes == 4:
        return N_("float32 attention scores of one sequence of {number} tokens (or 16-bit ones of two)").format(
            number=positions
        )
    said = N_("attention scores of {sequences} sequences of {number} tokens in 16 bits")
    if pair_bytes % 4 == 0:
        said = N_("attention scores of {sequences} sequences of {number} tokens in 16 bits, or of {fewer} in float32")
    return said.format(sequences=pair_bytes // 2, number=positions, fewer=pair_bytes // 4)


def _squares(size: int) -> Iterator[Factors]:
    """At most one: the smallest side, for its doubles are as good."""
    sides: dict[int, tuple[int, int]] = {}
    for rest in range(2, _MOST_BYTES_A_SQUARE + 1, 2):
        side = isqrt(size // rest)
        if side < _SMALLEST_SIDE or side * side * rest != size or _odd_part(rest) > _LARGEST_ODD_REST:
            continue
        if _odd_part(side) >= _SMALLEST_ODD_PART:
            sides[_odd_part(side)] = side, rest
    if len(sides) == 1:
        ((side, rest),) = sides.values()
        meaning = N_("for each pair of positions the same, as attention scores have it (or an image of equal sides)")
        yield Factors("square", N_("{side} × {side} × {number} bytes").format(side=side, number=rest), meaning, None)


def _odd_part(number: int) -> int:
    return number // (number & -number)


def _embedding(least: int, most: int, vocabulary: int, hidden: int) -> Iterator[Factors]:
    for width, name in _WIDTHS.items():
        if least <= embedding_elements(vocabulary, hidden) * width <= most:
            product = N_("{words} words × {hidden} × {number} bytes").format(
                words=vocabulary, hidden=hidden, number=width
            )
            meaning = N_("{width} matrix of the vocabulary, its gradient or its state").format(width=name)
            yield Factors("embedding", product, meaning, None)


def _keys(least: int, most: int, row: int, lengths: Collection[int]) -> Iterator[Factors]:
    """In 16 bits, as caches are kept; in float32 the same bytes are half the positions, and that is told."""
    largest = most // rows_bytes(1, 1, 2 * row)
    for positions in {largest, *(length for length in lengths if length < largest)}:
        if positions >= _FEWEST_POSITIONS and rows_bytes(positions, 1, 2 * row) >= least:
            product = N_("{positions} positions × {number} × 2 bytes").format(positions=positions, number=row)
            meaning = N_("keys, or values, of one layer for {number} tokens of all sequences together")
            if positions not in lengths and positions % 2 == 0:
                meaning = N_(
                    "keys, or values, of one layer for {number} tokens of all sequences together (or float32 ones of "
                    "{before})"
                )
            meaning = meaning.format(number=positions, before=positions // 2)
            yield Factors("keys", product, meaning, positions)


def _logits(least: int, most: int, vocabulary: int, lengths: Collection[int]) -> Iterator[Factors]:
    """In the narrower width the same bytes are twice the positions: that is told, and not taken for another product."""
    found: dict[int, Factors] = {}
    for width, name in sorted(_WIDTHS.items(), reverse=True):
        largest = most // logits_bytes(1, vocabulary, width)
        for positions in {largest, *(length for length in lengths if length < largest)}:
            if positions > 0 and logits_bytes(positions, vocabulary, width) >= least:
                product = N_("{positions} positions × {words} words × {number} bytes").format(
                    positions=positions, words=vocabulary, number=width
                )
                said = N_("{width} logits of {number} tokens")
                if width == 4 and positions not in lengths:
                    said = N_("{width} logits of {number} tokens (or 16-bit ones of {more})")
                found[positions] = Factors(
                    "logits", product, said.format(width=name, number=positions, more=2 * positions), positions
                )
    known = [found[length] for length in lengths if length in found]
    yield from known or list(found.values())[:1]
