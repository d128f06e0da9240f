"""The patterns of the families, sorted by the anchors that lead to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain

from ..gpu_tables.forms import ANCHORS as TABLE_ANCHORS
from .family import Family, Pattern
from .scan import Anchor, AnchorScanner

Numbered = tuple[int, Pattern]
"""A pattern and its place in the order of the families."""


class PatternIndex:
    """Anchors with the patterns of each, and what finds them."""

    def __init__(self, by_anchor: Mapping[Anchor, Sequence[Numbered]]) -> None:
        self._by_anchor = by_anchor
        self.anchors = list(by_anchor)
        self.scanner = AnchorScanner(self.anchors)

    def anchors_in(self, raw: bytes) -> list[Anchor]:
        """The anchors that `raw` holds."""
        return [self.anchors[number] for number in self.scanner.anchors_in(raw)]

    def patterns(self, anchors: Sequence[Anchor]) -> list[Pattern]:
        """Those to try on a line with these anchors, in the order of the families."""
        if len(anchors) == 1:
            return [pattern for _, pattern in self._by_anchor[anchors[0]]]
        numbered = chain.from_iterable(self._by_anchor[anchor] for anchor in anchors)
        return [pattern for _, pattern in sorted(numbered, key=_number)]

    def is_periodic(self, anchor: Anchor) -> bool:
        """Whether nothing but periodic lines is looked for by this anchor."""
        found = self._by_anchor[anchor]
        return bool(found) and all(pattern.periodic for _, pattern in found)

    def peaks(self) -> list[str]:
        """The figures whose highest is looked for, of all anchors."""
        found = (pattern.peak for patterns in self._by_anchor.values() for _, pattern in patterns)
        return list(dict.fromkeys(filter(None, found)))

    @lru_cache(maxsize=8)  # noqa: B019  (there is one index of each set of families, and it is never let go)
    def without(self, anchors: frozenset[Anchor]) -> PatternIndex:
        """The index of the other anchors."""
        return PatternIndex({key: found for key, found in self._by_anchor.items() if key not in anchors})

    @lru_cache(maxsize=8)  # noqa: B019
    def only(self, anchors: frozenset[Anchor]) -> PatternIndex:
        """The index of these anchors."""
        return PatternIndex({key: found for key, found in self._by_anchor.items() if key in anchors})


TABLES = frozenset(Anchor(literal) for literal in TABLE_ANCHORS)
"""The anchors of what nvidia-smi and its like print."""


@cache
def index_of(families: tuple[Family, ...]) -> PatternIndex:
    """Kept, for it takes as long as reading some megabytes, and a folder may hold thousands of small logs."""
    by_anchor: dict[Anchor, list[Numbered]] = {anchor: [] for anchor in TABLES}
    for number, pattern in enumerate(pattern for family in families for pattern in family.patterns):
        by_anchor.setdefault(Anchor(pattern.anchor, pattern.led_by), []).append((number, pattern))
    return PatternIndex(by_anchor)


def _number(numbered: Numbered) -> int:
    return numbered[0]
