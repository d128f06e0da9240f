"""An estimate of inference as titles, sentences and tables."""

from __future__ import annotations

from ..compare.outline import Section
from ..estimate.answer import Answer
from ..estimate.budget import FITS, NO, TIGHT, Part
from ..estimate.grid import Cell
from ..model.units import GIB, format_bytes
from ..report.text import format_share

VERDICTS = {
    FITS: "It fits",
    TIGHT: "It fits, but leaves less than the headroom asked for",
    NO: "It does not fit",
}
REMARKS = {
    False: "~ less than the headroom asked for is left; x does not fit.",
    True: "~ less than the headroom asked for is left, or some requests wait for room in the pool; x does not start.",
}
"""Under the map, by whether the engine lets requests wait."""
_MARKS = {FITS: "", TIGHT: " ~", NO: " x"}


def headline(answer: Answer) -> str:
    """The answer in one sentence."""
    budget, settings = answer.budget, answer.settings
    if budget.verdict == TIGHT and budget.total_bytes > settings.limit_bytes:
        return f"It starts, but {budget.binds}"
    cards = f" on each of {settings.tensor_parallel} cards" if settings.tensor_parallel > 1 else ""
    return (
        f"{VERDICTS[budget.verdict]}: {settings.concurrency} x {settings.context:,} tokens need"
        f" {format_bytes(budget.total_bytes)} of {format_bytes(settings.capacity_bytes)}{cards}"
    )


def outline(answer: Answer) -> tuple[Section, ...]:
    """The verdict first, then the budget, the map, and what the figures rest on."""
    sections = [
        Section(headline(answer), facts(answer)),
        Section(
            "Budget of one card",
            head=("part", "size", "of the card", "how known"),
            rows=budget_rows(answer),
        ),
        _table(answer),
    ]
    if answer.lengths is not None:
        sections.append(_lengths(answer))
    sections.append(Section("How the figures come about", tuple(explained(part) for part in answer.budget.parts)))
    if answer.notes:
        sections.append(Section("What they rest on", answer.notes))
    return tuple(sections)


def facts(answer: Answer) -> tuple[str, ...]:
    """What one asks first, a sentence each."""
    budget, settings = answer.budget, answer.settings
    left = (
        f"{format_bytes(budget.headroom_bytes)} of the card are left"
        if budget.headroom_bytes >= 0
        else f"{format_bytes(-budget.headroom_bytes)} are missing"
    )
    lines = [
        f"{left}; {100 * settings.headroom:.0f} % headroom was asked for",
        f"what binds: {budget.binds}",
        f"largest context with {settings.concurrency} at once: {_tokens(answer.max_context)}",
        f"most at once with {settings.context:,} tokens each: {answer.max_concurrency or 'not even one'}",
        f"each further token of a sequence adds {format_bytes(budget.kv_bytes_per_token)} (whole model)",
    ]
    if budget.kv_fixed_bytes_per_sequence:
        lines.append(
            f"windows, states and cross attention of a sequence: {format_bytes(budget.kv_fixed_bytes_per_sequence)}"
        )
    if answer.pool_tokens is not None:
        share = answer.pool_tokens / settings.context
        lines.append(
            f"the engine's pool: {format_bytes(max(budget.pool_bytes, 0))}, {answer.pool_tokens:,} tokens,"
            f" {share:.2f} requests of {settings.context:,}"
        )
    return tuple(lines)


def budget_rows(answer: Answer) -> tuple[tuple[str, ...], ...]:
    """The parts, what is left, and the card."""
    capacity = answer.settings.capacity_bytes
    rows = [
        (part.name, format_bytes(part.bytes), format_share(part.bytes, capacity), part.known)
        for part in answer.budget.parts
    ]
    left = answer.budget.headroom_bytes
    rows.append(("headroom", format_bytes(left), format_share(left, capacity) if left > 0 else "", "computed"))
    rows.append(("the card", format_bytes(capacity), "", "given"))
    return tuple(rows)


def explained(part: Part) -> str:
    """A part's formula with its inputs."""
    inputs = ", ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in part.inputs
    )
    source = f" [{part.source}]" if part.source else ""
    return f"{part.name}: {part.formula}{f' ({inputs})' if inputs else ''}; {part.known}{source}"


def short_tokens(tokens: int) -> str:
    """`512`, `4k`, `128k`, `1M`; other lengths in full."""
    if tokens >= 1 << 20 and tokens % (1 << 20) == 0:
        return f"{tokens >> 20}M"
    return f"{tokens >> 10}k" if tokens >= 1024 and tokens % 1024 == 0 else str(tokens)


def cell_text(cell: Cell) -> str:
    """GiB, with a mark where it is not within the headroom."""
    return size_text(cell.total_bytes) + _MARKS[cell.verdict]


def size_text(size_bytes: int, unit: int = GIB) -> str:
    """The number of a cell of a map, in its unit."""
    size = size_bytes / unit
    return f"{size:.1f}" if size < 1000 else f"{size:.0f}"


def _table(answer: Answer) -> Section:
    grid = answer.grid
    rows = [
        (str(count), *(cell_text(cell) for cell in row), _short_largest(largest))
        for count, row, largest in zip(grid.concurrencies, grid.rows, grid.max_contexts, strict=True)
    ]
    rows.append(("most", *(str(each or "-") for each in grid.max_concurrencies), ""))
    return Section(
        "GiB of one card, by requests at once (rows) and context (columns)",
        head=("at once", *(short_tokens(each) for each in grid.contexts), "longest"),
        rows=tuple(rows),
        remark=REMARKS[answer.settings.engine.queues],
    )


def _lengths(answer: Answer) -> Section:
    lengths = answer.lengths
    assert lengths is not None
    rows = tuple(
        (each.name, f"{each.tokens:,}", format_bytes(each.total_bytes), str(each.max_concurrency or "-"))
        for each in answer.by_length
    )
    count = answer.settings.concurrency
    return Section(
        f"{lengths.requests:,} requests, {lengths.mean:,.0f} tokens on average",
        head=("", "tokens", f"with {count} at once", "most at once"),
        rows=rows,
        remark="The longest decides: one such request must fit beside the others, however rare it is.",
    )


def _tokens(count: int) -> str:
    return f"{count:,} tokens" if count else "none fits"


def _short_largest(count: int) -> str:
    return f"{count:,}" if count else "-"
