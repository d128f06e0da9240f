"""Memory over concurrency and context, and the largest of one for each of the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .budget import budget_of, largest_concurrency, largest_context
from .model_input import Model
from .settings import Settings

_CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SHORTEST, _MOST_CONTEXTS, _MOST_ROWS = 512, 6, 8


@dataclass(frozen=True)
class Cell:
    """One setting."""

    concurrency: int
    context: int
    total_bytes: int
    verdict: str
    leaves: float | None
    """The most of the headrooms asked for that it leaves; None: not even the least."""
    waiting: int
    """Requests that wait for room in the engine's pool."""
    close: bool
    """Whether it leaves the least of the headrooms asked for, but not the most."""


@dataclass(frozen=True)
class Largest:
    """What fits at most and leaves this share of the card."""

    headroom: float
    contexts: tuple[int, ...]
    """For each concurrency; 0 where no context fits."""
    concurrencies: tuple[int, ...]
    """For each context."""


@dataclass(frozen=True)
class Grid:
    """Cells by rows of concurrency and columns of context, and the largest of each."""

    contexts: tuple[int, ...]
    concurrencies: tuple[int, ...]
    rows: tuple[tuple[Cell, ...], ...]
    largest: tuple[Largest, ...]
    """For each headroom asked for, the least first."""


def grid_of(model: Model, settings: Settings) -> Grid:
    """The map around the setting that was asked for, which is one of its cells."""
    contexts = _contexts(model.architecture.longest, settings.context)
    concurrencies = _around(sorted({*_CONCURRENCIES, settings.concurrency}), settings.concurrency, _MOST_ROWS)
    rows = tuple(tuple(_cell(model, settings, count, length) for length in contexts) for count in concurrencies)
    return Grid(
        contexts=contexts,
        concurrencies=concurrencies,
        rows=rows,
        largest=tuple(
            _largest(model, replace(settings, headroom=each), contexts, concurrencies) for each in settings.headrooms
        ),
    )


def _largest(model: Model, settings: Settings, contexts: tuple[int, ...], concurrencies: tuple[int, ...]) -> Largest:
    return Largest(
        settings.headroom,
        tuple(largest_context(model, settings, count) for count in concurrencies),
        tuple(largest_concurrency(model, settings, length) for length in contexts),
    )


def _cell(model: Model, settings: Settings, concurrency: int, context: int) -> Cell:
    budget = budget_of(model, replace(settings, context=context, concurrency=concurrency))
    total = budget.total_bytes
    leaves = settings.leaves(total)
    close = leaves is not None and leaves < settings.headrooms[-1]
    return Cell(concurrency, context, total, budget.verdict, leaves, budget.waiting, close)


def _contexts(longest: int | None, asked: int) -> tuple[int, ...]:
    """Powers of two up to what the model was made for, that itself, and the length asked for."""
    last = max(longest or 0, asked, _SHORTEST)
    found = {asked, last}
    length = _SHORTEST
    while length < last:
        found.add(length)
        length *= 2
    return _around(sorted(found), asked, _MOST_CONTEXTS)


def _around(ordered: list[int], asked: int, most: int) -> tuple[int, ...]:
    """At most so many of the values: those next to the one asked for."""
    place = ordered.index(asked)
    begin = max(0, min(place - most // 2, len(ordered) - most))
    return tuple(ordered[begin : begin + most])
