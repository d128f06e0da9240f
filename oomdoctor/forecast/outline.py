"""An estimate of inference as titles, sentences and tables."""

from __future__ import annotations

from ..compare.outline import Section
from ..estimate.answer import Answer
from ..estimate.budget import FITS, NO, TIGHT, Part
from ..estimate.grid import Cell
from ..language import N_, _, pgettext
from ..model.units import GIB, format_bytes
from ..report.text import format_share

VERDICTS = {
    FITS: N_("It fits"),
    TIGHT: N_("It fits, but leaves less than the headroom asked for"),
    NO: N_("It does not fit"),
}
REMARKS = {
    False: N_("~ less than the headroom asked for is left; x does not fit."),
    True: N_(
        "~ less than the headroom asked for is left, or some requests wait for room in the pool; x does not start."
    ),
}
"""Under the map, by whether the engine lets requests wait."""
_MARKS = {FITS: "", TIGHT: " ~", NO: " x"}


def headline(answer: Answer) -> str:
    """The answer in one sentence."""
    budget, settings = answer.budget, answer.settings
    if budget.verdict == TIGHT and budget.total_bytes > settings.limit_bytes:
        return _("It starts, but {binds}").format(binds=budget.binds)
    cards = (
        _(" on each of {cards} cards").format(cards=settings.tensor_parallel) if settings.tensor_parallel > 1 else ""
    )
    return _("{verdict}: {concurrency} x {context} tokens need {total} of {capacity}{cards}").format(
        verdict=_(VERDICTS[budget.verdict]),
        concurrency=settings.concurrency,
        context=f"{settings.context:,}",
        total=format_bytes(budget.total_bytes),
        capacity=format_bytes(settings.capacity_bytes),
        cards=cards,
    )


def outline(answer: Answer) -> tuple[Section, ...]:
    """The verdict first, then the budget, the map, and what the figures rest on."""
    sections = [
        Section(headline(answer), facts(answer)),
        Section(
            _("Budget of one card"),
            head=(pgettext("column", "part"), pgettext("column", "size"), _("of the card"), _("how known")),
            rows=budget_rows(answer),
        ),
        _table(answer),
    ]
    if answer.lengths is not None:
        sections.append(_lengths(answer))
    sections.append(Section(_("How the figures come about"), tuple(explained(part) for part in answer.budget.parts)))
    if answer.notes:
        sections.append(Section(_("What they rest on"), answer.notes))
    return tuple(sections)


def facts(answer: Answer) -> tuple[str, ...]:
    """What one asks first, a sentence each."""
    budget, settings = answer.budget, answer.settings
    left = (
        _("{size} of the card are left").format(size=format_bytes(budget.headroom_bytes))
        if budget.headroom_bytes >= 0
        else _("{size} are missing").format(size=format_bytes(-budget.headroom_bytes))
    )
    lines = [
        _("{left}; {share} % headroom was asked for").format(left=left, share=f"{100 * settings.headroom:.0f}"),
        _("what binds: {binds}").format(binds=budget.binds),
        _("largest context with {concurrency} at once: {tokens}").format(
            concurrency=settings.concurrency, tokens=_tokens(answer.max_context)
        ),
        _("most at once with {context} tokens each: {most}").format(
            context=f"{settings.context:,}", most=answer.max_concurrency or _("not even one")
        ),
        _("each further token of a sequence adds {size} (whole model)").format(
            size=format_bytes(budget.kv_bytes_per_token)
        ),
    ]
    if budget.kv_fixed_bytes_per_sequence:
        lines.append(
            _("windows, states and cross attention of a sequence: {size}").format(
                size=format_bytes(budget.kv_fixed_bytes_per_sequence)
            )
        )
    if budget.reserve_bytes is not None:
        lines.append(reserve_line(budget.reserve_bytes, budget.headroom_bytes))
    if answer.pool_tokens is not None:
        share = answer.pool_tokens / settings.context
        lines.append(
            _("the engine's pool: {pool}, {pool_tokens} tokens, {share} requests of {context}").format(
                pool=format_bytes(max(budget.pool_bytes, 0)),
                pool_tokens=f"{answer.pool_tokens:,}",
                share=f"{share:.2f}",
                context=f"{settings.context:,}",
            )
        )
    return tuple(lines)


def reserve_line(reserve_bytes: int, headroom_bytes: int) -> str:
    """What torch may hold beyond the total, and whether what is left has room for it."""
    said = (
        _("torch's allocator may hold up to {size} more for later (assumed); what is left has room for it")
        if reserve_bytes <= headroom_bytes
        else _(
            "torch's allocator may hold up to {size} more for later (assumed), more than is left: it gives that back"
            " before it fails"
        )
    )
    return said.format(size=format_bytes(reserve_bytes))


def budget_rows(answer: Answer) -> tuple[tuple[str, ...], ...]:
    """The parts, what is left, and the card."""
    capacity = answer.settings.capacity_bytes
    rows = [
        (_(part.name), format_bytes(part.bytes), format_share(part.bytes, capacity), _(part.known))
        for part in answer.budget.parts
    ]
    left = answer.budget.headroom_bytes
    rows.append(
        (_("headroom"), format_bytes(left), format_share(left, capacity) if left > 0 else "", _(answer.budget.known))
    )
    rows.append((_("the card"), format_bytes(capacity), "", pgettext("value", "given")))
    return tuple(rows)


def explained(part: Part) -> str:
    """A part's formula with its inputs."""
    inputs = _(", ").join(
        f"{_input(name)} {value:,}" if isinstance(value, int) else f"{_input(name)} {value}"
        for name, value in part.inputs
    )
    formula = _("{formula} ({inputs})").format(formula=part.formula, inputs=inputs) if inputs else part.formula
    source = f" [{part.source}]" if part.source else ""
    line = _("{name}: {formula}; {known}").format(name=_(part.name), formula=formula, known=_(part.known))
    return line + source


def _input(name: str) -> str:
    """What goes into a formula: words that stand for other things elsewhere, and names that stand alone."""
    return {
        "hidden": pgettext("input", "hidden"),
        "intermediate": pgettext("input", "intermediate"),
        "layers": pgettext("input", "layers"),
        "parameters": pgettext("input", "parameters"),
        "ranks": pgettext("input", "ranks"),
        "sequences": pgettext("input", "sequences"),
        "tokens": pgettext("input", "tokens"),
        "vocabulary": pgettext("input", "vocabulary"),
    }.get(name) or _(name)


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
    rows.append((pgettext("column", "most"), *(str(each or "-") for each in grid.max_concurrencies), ""))
    return Section(
        _("GiB of one card, by requests at once (rows) and context (columns)"),
        head=(_("at once"), *(short_tokens(each) for each in grid.contexts), pgettext("column", "longest")),
        rows=tuple(rows),
        remark=_(REMARKS[answer.settings.engine.queues]),
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
        _("{requests} requests, {mean} tokens on average").format(
            requests=f"{lengths.requests:,}", mean=f"{lengths.mean:,.0f}"
        ),
        head=("", pgettext("column", "tokens"), _("with {count} at once").format(count=count), _("most at once")),
        rows=rows,
        remark=_("The longest decides: one such request must fit beside the others, however rare it is."),
    )


def _tokens(count: int) -> str:
    return _("{count} tokens").format(count=f"{count:,}") if count else _("none fits")


def _short_largest(count: int) -> str:
    return f"{count:,}" if count else "-"
