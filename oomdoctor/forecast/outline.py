"""An estimate of inference as titles, sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence

from ..compare.outline import Section
from ..estimate.answer import Answer
from ..estimate.budget import FITS, GRAPHS, NO, OVERHEAD, TIGHT, headroom_inputs
from ..estimate.grid import Cell, Grid, Largest
from ..estimate.parts import ASSUMED, Part, assumed_bytes, weakest
from ..estimate.settings import Settings
from ..estimate.training import Training
from ..language import N_, _, pgettext
from ..model.units import GIB, format_bytes
from ..report.text import format_share

VERDICTS = {
    FITS: N_("It fits"),
    TIGHT: N_("It fits, but leaves less than the headroom asked for"),
    NO: N_("It does not fit"),
}
CLOSE, WAITS = "close", "waits"
"""Cells beside the verdicts: one that leaves only the least headroom, one that starts and lets requests wait."""
MARKS = {FITS: "", CLOSE: "'", TIGHT: "~", WAITS: "w", NO: "x"}


def headline(answer: Answer) -> str:
    """The answer in one sentence, and where the engine is not known to serve the family in a second one."""
    said = _of_memory(answer)
    return said if answer.not_served is None else _("{said}. But {why}").format(said=said, why=answer.not_served)


def _of_memory(answer: Answer) -> str:
    budget, settings = answer.budget, answer.settings
    if budget.waiting:
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
        what_fits(answer),
        Section(
            _("Budget of one card"),
            head=(pgettext("column", "part"), pgettext("column", "size"), _("of the card"), _("how known")),
            rows=budget_rows(answer),
            remark=_assumed(answer),
        ),
        _table(answer),
    ]
    if answer.lengths is not None:
        sections.append(_lengths(answer))
    sections.append(Section(_("How the figures come about"), explanations(answer)))
    if answer.notes:
        sections.append(Section(_("What they rest on"), answer.notes))
    return tuple(sections)


def facts(answer: Answer) -> tuple[str, ...]:
    """What one asks first, a sentence each."""
    budget, settings = answer.budget, answer.settings
    lines = [
        left_line(settings, budget.total_bytes),
        _("what binds: {binds}").format(binds=budget.binds),
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
            _(
                "the engine's pool, with {taken} of the card taken: {pool}, {pool_tokens} tokens, {share} requests of"
                " {context}"
            ).format(
                taken=f"{settings.limit_bytes / settings.capacity_bytes:.2f}",
                pool=format_bytes(max(budget.pool_bytes, 0)),
                pool_tokens=f"{answer.pool_tokens:,}",
                share=f"{share:.2f}",
                context=f"{settings.context:,}",
            )
        )
    return tuple(lines)


def left_line(settings: Settings | Training, total_bytes: int) -> str:
    """What is left of the card, and which of the headrooms asked for that is."""
    left = settings.capacity_bytes - total_bytes
    if left < 0:
        return _("{size} are missing").format(size=format_bytes(-left))
    kept = settings.leaves(total_bytes)
    if kept is None:
        wanted = _("less than the {share} asked for").format(share=share_text(settings.headroom))
    elif kept == settings.headrooms[-1]:
        wanted = _("at least the {share} asked for").format(share=share_text(kept))
    else:
        wanted = _("the {least} asked for, but not {most}").format(
            least=share_text(kept), most=share_text(settings.headrooms[-1])
        )
    return _("{size} of the card are left ({left}): {wanted}").format(
        size=format_bytes(left), left=share_text(left / settings.capacity_bytes), wanted=wanted
    )


def share_text(share: float) -> str:
    """`8 %`, `12.5 %`."""
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def what_fits(answer: Answer) -> Section:
    """The largest context and the most requests, for each headroom, and for all that the engine takes."""
    settings = answer.settings
    asked = len(settings.headrooms)
    taken = 1 - settings.limit_bytes / settings.capacity_bytes
    whole = (
        _("{share}: all that the engine takes")
        if settings.limit_bytes < settings.capacity_bytes
        else _("{share}: the whole card")
    )
    rows = [
        (
            share_text(each.headroom)
            if place < asked and taken <= each.headroom
            else whole.format(share=share_text(max(taken, each.headroom))),
            f"{each.max_context:,}" if each.max_context else _("none fits"),
            f"{each.max_concurrency:,}" if each.max_concurrency else _("not even one"),
        )
        for place, each in enumerate(answer.limits)
    ]  # fmt: skip
    # An engine that takes little leaves all headrooms alike.
    order = tuple(dict.fromkeys((*reversed(rows[:asked]), *rows[asked:])))
    return Section(
        _("What fits"),
        head=(
            _("left of the card"),
            _("longest with {count} at once").format(count=settings.concurrency),
            _("most of {context} tokens").format(context=f"{settings.context:,}"),
        ),
        rows=order,
    )


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
        (
            _("headroom"),
            format_bytes(left),
            format_share(left, capacity) if left > 0 else "",
            _(how_left_is_known(answer.budget.parts)),
        )
    )
    rows.append((_("the card"), format_bytes(capacity), "", pgettext("value", "given")))
    return tuple(rows)


def how_left_is_known(parts: Sequence[Part]) -> str:
    """How a difference to these parts is known, where some of them are assumed."""
    return N_("in part assumed") if assumed_bytes(parts) else weakest(parts)


def _assumed(answer: Answer) -> str:
    """How much of the sum is assumed, and how to know it."""
    size, options = assumed_bytes(answer.budget.parts), {OVERHEAD: "--overhead", GRAPHS: "--graphs"}
    if not size:
        return ""
    named = [
        options[part.name]
        for part in answer.budget.parts
        if part.known == ASSUMED and part.bytes and part.name in options
    ]
    said = _("{size} of it are assumed").format(size=format_bytes(size))
    measures = _("; what was measured goes into {options}").format(options=_(", ").join(named)) if named else ""
    return _("{sentence}.").format(sentence=said + measures)


def explanations(answer: Answer) -> tuple[str, ...]:
    """Each part, and what is left, with its formula."""
    budget, settings = answer.budget, answer.settings
    left = Part(
        N_("headroom"),
        budget.headroom_bytes,
        _("the card - all parts"),
        headroom_inputs(settings.capacity_bytes, budget.total_bytes),
        how_left_is_known(answer.budget.parts),
    )
    return tuple(explained(part) for part in (*budget.parts, left))


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
    """GiB, with a mark where it does not leave all headrooms asked for."""
    return size_text(cell.total_bytes) + MARKS[kind_of(cell)]


def kind_of(cell: Cell) -> str:
    """Its verdict, or CLOSE or WAITS where that says more."""
    if cell.waiting:
        return WAITS
    return CLOSE if cell.close else cell.verdict


def legend(settings: Settings) -> str:
    """What the marks mean."""
    least, most = share_text(settings.headroom), share_text(settings.headrooms[-1])
    words = [_("no mark: {share} of the card and more are left").format(share=most)]
    if settings.comfort is not None:
        words.append(_("' {least} to {most}").format(least=least, most=most))
    words.append(_("~ less than {least}").format(least=least))
    if settings.engine.queues:
        words.append(_("w it starts, but requests wait for room in the pool"))
    words.append(_("x does not start") if settings.engine.queues else _("x does not fit"))
    return _("{sentence}.").format(sentence=_("; ").join(words))


def size_text(size_bytes: int, unit: int = GIB) -> str:
    """The number of a cell of a map, in its unit."""
    size = size_bytes / unit
    return f"{size:.1f}" if size < 1000 else f"{size:.0f}"


def _table(answer: Answer) -> Section:
    grid = answer.grid
    rows = [
        (
            str(count),
            *(cell_text(cell) for cell in row),
            *(_short_largest(each.contexts[place]) for each in grid.largest),
        )
        for place, (count, row) in enumerate(zip(grid.concurrencies, grid.rows, strict=True))
    ]
    rows.extend(
        (most_name(each, grid), *(str(count or "-") for count in each.concurrencies), *("" for _each in grid.largest))
        for each in grid.largest
    )
    return Section(
        _("GiB of one card, by requests at once (rows) and context (columns)"),
        head=(
            _("at once"),
            *(short_tokens(each) for each in grid.contexts),
            *(longest_name(each, grid) for each in grid.largest),
        ),
        rows=tuple(rows),
        remark=legend(answer.settings) + (" " + _(_LARGEST) if len(grid.largest) > 1 else ""),
    )


_LARGEST = N_(
    "The last columns: the longest context that leaves that much; the last rows: the most requests at once that do."
)


def longest_name(each: Largest, grid: Grid) -> str:
    """The head of the column of largest contexts."""
    return pgettext("column", "longest") if len(grid.largest) == 1 else share_text(each.headroom)


def most_name(each: Largest, grid: Grid) -> str:
    """The head of the row of largest concurrencies."""
    return pgettext("column", "most") if len(grid.largest) == 1 else share_text(each.headroom)


def _lengths(answer: Answer) -> Section:
    lengths = answer.lengths
    assert lengths is not None
    rows = tuple(
        (
            each.name,
            f"{each.tokens:,}",
            format_bytes(each.total_bytes),
            *(str(most or "-") for most in each.max_concurrencies),
        )
        for each in answer.by_length
    )
    count = answer.settings.concurrency
    return Section(
        _("{requests} requests, {mean} tokens on average").format(
            requests=f"{lengths.requests:,}", mean=f"{lengths.mean:,.0f}"
        ),
        head=(
            "",
            pgettext("column", "tokens"),
            _("with {count} at once").format(count=count),
            *(
                _("most at once")
                if len(answer.grid.largest) == 1
                else _("most, {share} left").format(share=share_text(each.headroom))
                for each in answer.grid.largest
            ),
        ),
        rows=rows,
        remark=_("The longest decides: one such request must fit beside the others, however rare it is."),
    )


def _short_largest(count: int) -> str:
    return f"{count:,}" if count else "-"
