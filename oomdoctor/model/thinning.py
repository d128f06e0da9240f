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
