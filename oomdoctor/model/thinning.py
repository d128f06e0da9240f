"""Thins a curve to what a picture can show, without losing what is highest or lowest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .snapshot import IntColumn


def extremes(values: NDArray[Any], most: int) -> IntColumn:
    """Positions of the lowest and highest value of each stretch, in order; all positions where there are few."""
    count = len(values)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, most // 2 + 1).astype(np.int64)
    pairs = [
        (begin + int(values[begin:end].argmin()), begin + int(values[begin:end].argmax()))
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    return np.unique(np.asarray(pairs, dtype=np.int64))


LAST_WHOLE = 120
"""Of these the last: the moments before a failure are not thinned."""


def thinned(values: NDArray[Any], most: int) -> IntColumn:
    """Positions of at most `most` values: each stretch's lowest and highest, the first, and the last ones whole.

    A curve thinned by taking each n-th point would lose the spike that ended the run.
    """
    count = len(values)
    if count <= most or most < 4:
        return np.arange(count)
    whole = min(LAST_WHOLE, (most - 4) // 3)
    last = count - 1 - whole
    return np.concatenate([[0], 1 + extremes(values[1:last], most - 2 - whole), np.arange(last, count)]).astype(
        np.int64
    )
