"""The patterns of the families, sorted by the anchors that lead to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain

from .. import nvidia_smi
from .family import Family, Pattern
from .scan import Anchor, AnchorScanner


class PatternIndex:
    """Some patterns, and what finds their anchors."""

    def __init__(self, patterns: Iterable[Pattern], tables: Iterable[str] = ()) -> None:
        by_anchor: dict[Anchor, list[tuple[int, Pattern]]] = {Anchor(table): [] for table in tables}
        self._tables = frozenset(range(len(by_anchor)))
        for number, pattern in enumerate(patterns):
            by_anchor.setdefault(Anchor(pattern.anchor, pattern.led_by), []).append((number, pattern))
        self._by_anchor = list(by_anchor.values())
        self.scanner = AnchorScanner(list(by_anchor))

    def of(self, anchors: Sequence[int]) -> list[Pattern]:
        """The patterns to try on a line with these anchors, in the order of the families."""
        if len(anchors) == 1:
            return [pattern for _, pattern in self._by_anchor[anchors[0]]]
        numbered = chain.from_iterable(self._by_anchor[anchor] for anchor in anchors)
        return [pattern for _, pattern in sorted(numbered, key=lambda pair: pair[0])]

    def in_table(self, anchors: Sequence[int]) -> bool:
        """Whether one of these stands in the output of nvidia-smi."""
        return not self._tables.isdisjoint(anchors)


# Kept, for they take as long as reading some megabytes, and a folder may hold thousands of small logs.


@cache
def whole(families: tuple[Family, ...]) -> PatternIndex:
    """All patterns."""
    return PatternIndex(_patterns(families), nvidia_smi.ANCHORS)


@cache
def without_periodic(families: tuple[Family, ...]) -> PatternIndex:
    """All but the periodic ones."""
    return PatternIndex((one for one in _patterns(families) if not one.periodic), nvidia_smi.ANCHORS)


@cache
def only_periodic(families: tuple[Family, ...]) -> PatternIndex:
    """The periodic ones."""
    return PatternIndex(one for one in _patterns(families) if one.periodic)


def _patterns(families: tuple[Family, ...]) -> Iterable[Pattern]:
    return chain.from_iterable(family.patterns for family in families)
