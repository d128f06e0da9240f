"""What grows with what: least squares over the settings that ran, and what it can and cannot say of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

Point = tuple[float, ...]
"""The numbers of a setting, one a variable."""
Powers = tuple[int, ...]
"""A term: the power of each variable in it."""

_MOST_ERROR = 0.25
"""A prediction that may be off by a larger share of itself is none."""
_LEAST_SHARE, _LEAST_BYTES = 0.01, 2 << 20
"""No prediction is better than this: allocators hand out whole segments."""
_CLOSE_ENOUGH = 0.002
"""Of the largest peak: an error at points left out that is as good as none."""
_WORTH_A_TERM = 0.7
"""A further term must bring that error down to this share at least."""
_ABOUT_AS_WELL = 3.0
"""A sum whose error is not larger than this times that of the best may be the true one."""
_FLAT = 0.1
"""A constant that misses a setting by a larger share of it says nothing of what grows."""
_MOST_TERMS, _FEW_CANDIDATES = 3, 26
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""95 % quantiles of Student's t for 1, 2, … degrees of freedom."""


@dataclass(frozen=True)
class Prediction:
    """Bytes of a setting that was not run, and by how much they may be off."""

    bytes: int
    error_bytes: int


@dataclass(frozen=True)
class _Model:
    """A sum of terms, solved."""

    terms: tuple[Powers, ...]
    coefficients: tuple[float, ...]
    """For variables scaled to 1 at most."""
    left_out_error: float

    @property
    def complexity(self) -> tuple[int, int]:
        """Fewer terms are simpler, then those of lower powers."""
        return len(self.terms), sum(map(sum, self.terms))

    @property
    def is_rising(self) -> bool:
        """Whether nothing in it falls: memory seldom does."""
        return all(size >= 0 for size, powers in zip(self.coefficients, self.terms, strict=True) if any(powers))

    def value(self, scaled: Point) -> float:
        return sum(size * _term(powers, scaled) for size, powers in zip(self.coefficients, self.terms, strict=True))


@dataclass(frozen=True)
class Fit:
    """`bytes = sum of coefficient x product of powers`; of the settings it was made from the residuals."""

    points: tuple[Point, ...]
    residuals_bytes: tuple[float, ...]
    _model: _Model
    _rivals: tuple[_Model, ...]
    """Sums that the points speak for about as well."""
    _deviation: float
    _inverse: tuple[tuple[float, ...], ...]
    _scale: Point

    @property
    def terms(self) -> tuple[Powers, ...]:
        """The terms, the constant first."""
        return self._model.terms

    @property
    def coefficients(self) -> tuple[float, ...]:
        """Bytes of one unit of each term."""
        pairs = zip(self._model.coefficients, self._model.terms, strict=True)
        return tuple(size / _term(powers, self._scale) for size, powers in pairs)

    @property
    def largest_residual_bytes(self) -> int:
        """By how much the fit misses the worst of its own points."""
        return round(max(map(abs, self.residuals_bytes), default=0.0))

    def predict(self, point: Point) -> Prediction | None:
        """None where the runs do not support a prediction.

        That is beyond the values that ran, where two variables have grown together that never did in a run, and where
        the error would be too large.
        """
        if not self._is_covered(point):
            return None
        scaled = _scaled(point, self._scale)
        value = self._model.value(scaled)
        error = self._error(scaled, value)
        if value <= 0 or error > _MOST_ERROR * value:
            return None
        return Prediction(round(value), math.ceil(error))

    def _error(self, scaled: Point, value: float) -> float:
        """What the points' own scatter leaves open, and beside it what rivals of the model say."""
        row = np.array([_term(powers, scaled) for powers in self.terms])
        leverage = max(float(row @ np.array(self._inverse) @ row), 0.0)
        freedom = len(self.points) - len(self.terms)
        scatter = _STUDENT[min(freedom, len(_STUDENT)) - 1] * self._deviation * math.sqrt(1 + leverage)
        dispute = max((abs(rival.value(scaled) - value) for rival in self._rivals), default=0.0)
        return max(scatter + dispute, _LEAST_SHARE * abs(value), _LEAST_BYTES)

    def _is_covered(self, point: Point) -> bool:
        columns = list(zip(*self.points, strict=True))
        lows = [min(column) for column in columns]
        if any(not low <= x <= max(column) for x, low, column in zip(point, lows, columns, strict=True)):
            return False
        grown = [place for place, low in enumerate(lows) if point[place] > low]
        pairs = combinations(grown, 2)
        return all(any(each[a] > lows[a] and each[b] > lows[b] for each in self.points) for a, b in pairs)


def fit(points: Sequence[Point], sizes: Sequence[int], noise_bytes: int = 0) -> Fit | None:
    """The simplest sum of terms that the points speak for; None where they are too few for any that tells them apart.

    What speaks for one is how well it foretells each point from all others. `noise_bytes`: by how much runs of one
    setting differed.
    """
    if len(points) < 3 or not points[0]:
        return None
    scale = tuple(max(abs(x) for x in column) or 1.0 for column in zip(*points, strict=True))
    scaled = [_scaled(point, scale) for point in points]
    y = np.array(sizes, dtype=float)
    models = _models(scaled, y)
    if not models:
        return None
    enough = max(_CLOSE_ENOUGH * float(np.abs(y).max()), float(noise_bytes))
    best = min(model.left_out_error for model in models)
    rising = [model for model in models if model.is_rising]
    if any(model.left_out_error <= max(_ABOUT_AS_WELL * best, enough) for model in rising):
        models = rising
        best = min(model.left_out_error for model in models)
    good = [model for model in models if model.left_out_error <= max(best / _WORTH_A_TERM, enough)]
    chosen = min(good, key=lambda model: (model.complexity, model.left_out_error))
    reach = max(_ABOUT_AS_WELL * chosen.left_out_error, enough)
    rivals = [model for model in models if model.left_out_error <= reach and len(model.terms) <= len(chosen.terms) + 1]
    matrix = _matrix(chosen.terms, scaled)
    residuals = y - matrix @ np.array(chosen.coefficients)
    if len(chosen.terms) == 1 and float((np.abs(residuals) / np.maximum(y, 1.0)).max()) > _FLAT:
        return None
    inverse = np.linalg.pinv(matrix.T @ matrix)
    return Fit(
        points=tuple(points),
        residuals_bytes=tuple(float(each) for each in residuals),
        _model=chosen,
        _rivals=tuple(rivals),
        _deviation=max(chosen.left_out_error, float(noise_bytes)),
        _inverse=tuple(tuple(float(each) for each in row) for row in inverse),
        _scale=scale,
    )


def _models(points: Sequence[Point], y: npt.NDArray[np.float64]) -> list[_Model]:
    """Every sum of few terms that leaves points over to judge it by."""
    candidates = _candidates(points)
    most = min(_MOST_TERMS if len(candidates) <= _FEW_CANDIDATES else 2, max(1, len(points) - 3))
    found = []
    for count in range(most + 1):
        for chosen in combinations(candidates, count):
            terms = tuple(
                sorted(((0,) * len(points[0]), *chosen), key=lambda powers: (sum(powers), [-power for power in powers]))
            )
            matrix = _matrix(terms, points)
            error = _left_out_error(matrix, y)
            if math.isfinite(error):
                solved, *_ = np.linalg.lstsq(matrix, y, rcond=None)
                found.append(_Model(terms, tuple(map(float, solved)), error))
    return found


def _candidates(points: Sequence[Point]) -> list[Powers]:
    """What bytes may grow with: a variable, two of them together, a square, a square together with another."""
    width = len(points[0])
    distinct = [len({point[place] for point in points}) for place in range(width)]
    varied = [place for place in range(width) if distinct[place] > 1]
    curved = [place for place in varied if distinct[place] > 2]
    found = [_powers(width, {place: 1}) for place in varied]
    found += [_powers(width, {a: 1, b: 1}) for a, b in combinations(varied, 2)]
    found += [_powers(width, {place: 2}) for place in curved]
    return found + [_powers(width, {place: 2, other: 1}) for place in curved for other in varied if other != place]


def _powers(width: int, powers: dict[int, int]) -> Powers:
    return tuple(powers.get(place, 0) for place in range(width))


def _left_out_error(matrix: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    """Root mean square of how far each point lies from a fit of all others; infinite where one of them is needed."""
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        return math.inf
    hat = matrix @ np.linalg.pinv(matrix)
    free = 1 - np.diag(hat)
    if free.min() < 1e-9:
        return math.inf
    return float(np.sqrt(np.mean(((y - hat @ y) / free) ** 2)))


def _matrix(terms: Sequence[Powers], points: Sequence[Point]) -> npt.NDArray[np.float64]:
    return np.array([[_term(power, point) for power in terms] for point in points])


def _term(powers: Powers, point: Point) -> float:
    return math.prod(x**power for x, power in zip(point, powers, strict=True))


def _scaled(point: Point, scale: Point) -> Point:
    return tuple(x / largest for x, largest in zip(point, scale, strict=True))
