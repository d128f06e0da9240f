"""A sweep as titles, sentences and tables: what the terminal and Markdown show alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..compare.outline import Section
from ..estimate.budget import FITS, NO, TIGHT
from ..forecast.outline import size_text
from ..language import N_, _, ngettext, pgettext, tidy, told
from ..model.printable import one_line
from ..model.units import GIB, MIB, format_bytes, format_seconds
from .conduct import Swept
from .map import UNSURE, Entry, Growth, How, Map, room_of
from .outcomes import HOST, Attempt, Kind, Peak
from .variables import Cell, Variable, setting

_MOST_COLUMNS = 7
_MOST_SETTINGS = 5
_MOST_PREDICTED = 12
_LEGEND = {
    How.MEASURED: N_("a number alone: measured"),
    How.PREDICTED: N_("(): predicted, not run"),
    How.OUT_OF_MEMORY: N_("OOM: ran out of memory"),
    How.LARGER: N_(">: not run, larger than one that ran out"),
    How.PEAK_UNKNOWN: N_("ran: what it held was not seen"),
    How.FAILED: N_("fail: failed for another reason"),
    How.TIMED_OUT: N_("late: had not ended in time"),
    How.NOT_KNOWN: N_("·: not run, not predicted"),
}
_FITS_LEGEND = {
    TIGHT: N_("~: less than the headroom is left"),
    NO: N_("x: does not fit"),
    UNSURE: N_("?: may or may not fit"),
}
_MARKS = {TIGHT: "~", NO: "x", UNSURE: "?"}
_WORDS = {
    How.OUT_OF_MEMORY: "OOM",
    How.LARGER: ">",
    How.PEAK_UNKNOWN: "ran",
    How.FAILED: "fail",
    How.TIMED_OUT: "late",
    How.NOT_KNOWN: "·",
}


@dataclass(frozen=True)
class Page:
    """The map over two variables, all others held."""

    held: str
    """`dtype=fp16`; empty where there is no other variable."""
    columns: Variable
    rows: Variable | None
    cells: tuple[tuple[Cell, ...], ...]


def outline(swept: Swept) -> tuple[Section, ...]:
    """The answer first, then the map, what grows with what, the runs, and what one must know."""
    found = swept.map
    sections = [Section(headline(found), facts(swept)), *_tables(found)]
    return (*sections, *details(found))


def details(found: Map) -> tuple[Section, ...]:
    """What grows with what, what was predicted from it, what was run, and what did not end well."""
    troubles = troubles_of(found)
    sections = (
        Section(_("What grows with what"), growth_lines(found)) if found.growths else None,
        _predictions(found),
        runs_section(found) if found.known.outcomes else None,
        Section(_("What did not end well"), troubles) if troubles else None,
    )
    return tuple(section for section in sections if section is not None)


def headline(found: Map) -> str:
    """The safe setting in one sentence."""
    share = f"{100 * found.headroom:g} %"
    where = _("the host's memory") if found.wheres == (HOST,) else _("the card")
    if not found.safe:
        hows = {entry.how for entry in found.entries.values()}
        if How.MEASURED not in hows:
            return _("No setting that was tried fits") if How.OUT_OF_MEMORY in hows else _("No setting was measured")
        if all(entry.fits is None for entry in found.entries.values() if entry.how is How.MEASURED):
            return _("What fits is not known: how much there is was not seen")
        return _("No setting that was tried leaves at least {share} of {where}").format(share=share, where=where)
    several = len(found.safe) > 1
    cell = next(iter(found.safe.values()))
    if several:
        return _(
            "The largest settings that were tried and leave at least {share} of {where}, one for each category"
        ).format(share=share, where=where)
    return _("{setting} is the largest that was tried and leaves at least {share} of {where}").format(
        setting=setting(found.variables, cell), share=share, where=where
    )


def facts(swept: Swept) -> tuple[str, ...]:
    """What one asks first, a sentence each."""
    found = swept.map
    lines = [_safe_line(found, cell) for cell in found.safe.values()]
    if found.also_safe:
        lines.append(
            _("as safe, and larger in another way: {settings}").format(settings=_settings(found, found.also_safe))
        )
    if found.promising:
        lines.append(
            _("predicted to leave it too, not tried: {settings}").format(settings=_settings(found, found.promising))
        )
    open_still = [
        cell
        for cell, entry in found.entries.items()
        if found.safe and (entry.how is How.NOT_KNOWN or entry.fits == UNSURE)
    ]
    if open_still:
        lines.append(
            _("not tried, so that a larger one may be safe too: {settings}").format(
                settings=_settings(found, open_still)
            )
        )
    if found.squeezed:
        lines.append(
            _(
                "ran, but torch had to give memory back to go on: {settings}; these are no measure of what it needs"
            ).format(settings=_settings(found, found.squeezed))
        )
    for growth in found.growths:
        if growth.contradicted_by is not None:
            lines.append(
                _(
                    "{setting} ran out of memory although less was predicted than was free: another limit, or "
                    "fragmentation; predictions end below it"
                ).format(setting=setting(found.variables, growth.contradicted_by))
            )
    if found.known.falling:
        lines.append(
            _("more of it was seen to need less: {falling}; nothing was ruled out by it").format(
                falling=_(", ").join(found.known.falling)
            )
        )
    missing = [entry for entry in found.entries.values() if entry.how is How.PEAK_UNKNOWN]
    if missing:
        lines.append(
            _(
                "of some runs it was not seen what they held of a device: there is no driver that tells "
                "(NVML), or they used none; --on host shows the host's memory"
            )
        )
    if swept.stopped:
        lines.append(_("the sweep ended early: {stopped}").format(stopped=swept.stopped))
    lines.append(counts(found))
    return tuple(lines)


def counts(found: Map) -> str:
    """How many settings are known how."""
    entries = list(found.entries.values())
    names = {
        How.MEASURED: _("measured"),
        How.PEAK_UNKNOWN: _("ran unseen"),
        How.OUT_OF_MEMORY: _("out of memory"),
        How.LARGER: _("larger than one of these"),
        How.PREDICTED: pgettext("column", "predicted"),
        How.FAILED: _("failed otherwise"),
        How.TIMED_OUT: _("too late"),
        How.NOT_KNOWN: _("not known"),
    }
    numbers = [(sum(entry.how is how for entry in entries), name) for how, name in names.items()]
    listed = _(", ").join(_("{number} {what}").format(number=number, what=what) for number, what in numbers if number)
    return ngettext("of {number} setting: {listed}", "of {number} settings: {listed}", len(entries)).format(
        number=len(entries), listed=listed
    )


def pages(found: Map) -> Iterator[Page]:
    """The first two variables as columns and rows, a page for each choice of the others."""
    columns = found.variables[0]
    rows = found.variables[1] if len(found.variables) > 1 else None
    for rest in dict.fromkeys(cell[2:] for cell in found.entries):
        held = setting(found.variables[2:], rest)
        if rows is None:
            yield Page(held, columns, None, (tuple((column,) for column in range(len(columns.values))),))
        else:
            grid = tuple(
                tuple((column, row, *rest) for column in range(len(columns.values))) for row in range(len(rows.values))
            )
            yield Page(held, columns, rows, grid)


def unit_of(found: Map) -> tuple[str, int]:
    """What the map counts in: GiB, or MiB where all is small."""
    largest = max((entry.bytes for entry in found.entries.values() if entry.bytes is not None), default=GIB)
    return ("GiB", GIB) if largest >= GIB else ("MiB", MIB)


def cell_text(entry: Entry, unit: int) -> str:
    """The size with marks: bare is measured, in parentheses predicted."""
    if entry.bytes is None:
        return _WORDS[entry.how]
    text = size_text(entry.bytes, unit) + _MARKS.get(entry.fits or "", "")
    return f"({text})" if entry.how is How.PREDICTED else text


def cell_words(entry: Entry, variables: Sequence[Variable]) -> str:
    """The setting in a phrase, for those who cannot see the map or want to know more."""
    if entry.how is How.MEASURED and entry.peak is not None:
        left = "" if entry.left_bytes is None else _(", {left} left").format(left=format_bytes(entry.left_bytes))
        return _("measured {size}{left}").format(size=_peak_text(entry.peak), left=left)
    if entry.how is How.PREDICTED and entry.bytes is not None and entry.error_bytes is not None:
        return _("predicted {size} ± {error}, not run").format(
            size=format_bytes(entry.bytes), error=format_bytes(entry.error_bytes)
        )
    if entry.how is How.LARGER and entry.smaller is not None:
        return _("not run: {setting}, which is smaller, ran out of memory").format(
            setting=setting(variables, entry.smaller)
        )
    return {
        How.OUT_OF_MEMORY: _("ran out of memory"),
        How.PEAK_UNKNOWN: _("ran; what it held was not seen"),
        How.FAILED: _("failed for another reason than memory"),
        How.TIMED_OUT: _("had not ended in time"),
    }.get(entry.how, _("not run, not predicted"))


def value_text(variable: Variable, place: int) -> str:
    """The head of a column or row."""
    return one_line(variable.values[place], 12)


def legend(found: Map) -> str:
    """The marks that the map shows."""
    hows = {entry.how for entry in found.entries.values()}
    fits = {entry.fits for entry in found.entries.values() if entry.bytes is not None}
    words = [_(text) for how, text in _LEGEND.items() if how in hows]
    words += [_(text) for mark, text in _FITS_LEGEND.items() if mark in fits]
    return _("{sentence}.").format(sentence=_("; ").join(words))


def title_of(found: Map, page: Page) -> str:
    """What the map shows."""
    where = _("the host") if found.wheres == (HOST,) else _("a card")
    over = page.columns.name
    if page.rows is not None:
        over = _("{rows} (rows) and {columns} (columns)").format(rows=page.rows.name, columns=over)
    title = _("{unit} of {where}, by {over}, with {held}") if page.held else _("{unit} of {where}, by {over}")
    return title.format(unit=unit_of(found)[0], where=where, over=over, held=page.held)


def runs_section(found: Map) -> Section:
    """Each setting that was run: its peak, and how that is known."""
    rows, notes = [], []
    for cell, outcome in found.known.outcomes.items():
        entry = found.entries[cell]
        seconds = [attempt.seconds for attempt in outcome.attempts if attempt.seconds is not None]
        took = format_seconds(sum(seconds)) if seconds else ""
        peak = entry.peak
        if peak is None:
            rows.append((_values(found.variables, cell), cell_text(entry, 1), "", "", took))
            continue
        note = told(peak.known)
        if peak.where not in (HOST, "cuda:0"):
            note = _("{known}, {where}").format(known=note, where=peak.where)
        if note not in notes:
            notes.append(note)
        left = "" if entry.left_bytes is None else format_bytes(entry.left_bytes)
        rows.append((_values(found.variables, cell), _peak_text(peak), left, str(notes.index(note) + 1), took))
    return Section(
        _("What was run"),
        head=(
            _names(found),
            pgettext("column", "peak"),
            pgettext("column", "left"),
            pgettext("column", "known"),
            pgettext("column", "took"),
        ),
        rows=tuple(rows),
        remark=tidy(" ".join(_("({number}) {note}.").format(number=n, note=note) for n, note in enumerate(notes, 1))),
    )


def _predictions(found: Map) -> Section | None:
    """The largest of what was predicted, each with its error."""
    predicted = [
        (entry, entry.bytes, entry.error_bytes)
        for entry in found.entries.values()
        if entry.how is How.PREDICTED and entry.bytes is not None and entry.error_bytes is not None
    ]
    if not predicted:
        return None
    shown = sorted(predicted, key=lambda one: -one[1])[:_MOST_PREDICTED]
    words = {
        FITS: pgettext("column", "fits"),
        TIGHT: _("tight"),
        NO: _("does not fit"),
        UNSURE: _("may or may not"),
        None: _("not known"),
    }
    rows = tuple(
        (
            _values(found.variables, entry.cell),
            format_bytes(size),
            f"± {format_bytes(error)}",
            words[entry.fits],
        )
        for entry, size, error in shown
    )
    more = len(predicted) - len(shown)
    return Section(
        _("What is predicted"),
        head=(_names(found), pgettext("column", "predicted"), pgettext("column", "error"), pgettext("column", "fits")),
        rows=rows,
        remark=_("and {more} smaller ones; --format json has all.").format(more=more) if more else "",
    )


def growth_lines(found: Map) -> tuple[str, ...]:
    """What grows with what, a sentence each."""
    return tuple(line for growth in found.growths for line in _growth_lines(found, growth))


def troubles_of(found: Map) -> tuple[str, ...]:
    """What became of the runs that did not end well."""
    lines = []
    for cell, outcome in found.known.outcomes.items():
        if outcome.kind is not Kind.RAN:
            attempt = outcome.told_by
            report = f" [{attempt.folder}]" if attempt.folder else ""
            what = _("{what}: {why}").format(what=setting(found.variables, cell), why=told(attempt.detail))
            lines.append(what + report)
    return tuple(lines)


def attempt_text(attempt: Attempt, on: str | None) -> str:
    """One run in a phrase, as it ends."""
    words = {
        Kind.OUT_OF_MEMORY: _("out of memory"),
        Kind.FAILED: pgettext("run", "failed"),
        Kind.TIMED_OUT: _("too late"),
    }
    if attempt.kind is not Kind.RAN:
        return _("{what}: {why}").format(what=words[attempt.kind], why=told(attempt.detail))
    devices = [peak for peak in attempt.peaks if peak.where != HOST]
    shown = [peak for peak in attempt.peaks if peak.where == HOST] if on == HOST or not devices else devices
    if on == "device" and not devices:
        return _("ran; what it held of a device was not seen")
    held = _(", ").join(
        _("{size} of {place}").format(size=format_bytes(peak.bytes), place=_place(peak.where)) for peak in shown
    )
    return _("ran, {held}").format(held=held) if held else _("ran; what it held was not seen")


def _place(where: str) -> str:
    return _("the host") if where == HOST else where


def _safe_line(found: Map, cell: Cell) -> str:
    entry = found.entries[cell]
    peak = entry.peak
    assert peak is not None
    others = ""
    room = room_of(peak)
    if room is not None and peak.total_bytes is not None and room < peak.total_bytes:
        others = _("; others had {size} of it").format(size=format_bytes(peak.total_bytes - room))
    left = "" if entry.left_bytes is None else _(", {left} left").format(left=format_bytes(entry.left_bytes))
    name = _(" ({name})").format(name=told(peak.name)) if peak.name else ""
    where = _("host memory{name}").format(name=name) if peak.where == HOST else f"{peak.where}{name}"
    held = _peak_text(peak)
    if peak.total_bytes is not None:
        held = _("{size} of {total}").format(size=held, total=format_bytes(peak.total_bytes))
    least = "" if peak.exact else _(" (a short peak was not seen if there was one)")
    return _("{setting}: {held}, {where}{left}{others}{least}").format(
        setting=setting(found.variables, cell), held=held, where=where, left=left, others=others, least=least
    )


def _peak_text(peak: Peak) -> str:
    return ("" if peak.exact else "≥ ") + format_bytes(peak.bytes)


def _settings(found: Map, cells: Sequence[Cell]) -> str:
    shown = [setting(found.variables, cell) for cell in cells[:_MOST_SETTINGS]]
    more = _(" and {number} more").format(number=len(cells) - len(shown)) if len(cells) > len(shown) else ""
    return _(", ").join(shown) + more


def _names(found: Map) -> str:
    return ", ".join(one_line(variable.name, 20) for variable in found.variables)


def _values(variables: Sequence[Variable], cell: Cell) -> str:
    return ", ".join(one_line(v.values[place], 16) for v, place in zip(variables, cell, strict=True))


def _tables(found: Map) -> Iterator[Section]:
    drawn = list(pages(found))
    for number, page in enumerate(drawn):
        parts = list(_parts(found, page))
        for place, (head, rows) in enumerate(parts):
            last = number == len(drawn) - 1 and place == len(parts) - 1
            title = title_of(found, page)
            if len(parts) > 1:
                title = _("{title}, part {number} of {parts}").format(title=title, number=place + 1, parts=len(parts))
            yield Section(title, head=head, rows=rows, remark=legend(found) if last else "")


def _parts(found: Map, page: Page) -> Iterator[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]]:
    """The page in pieces that are narrow enough for a terminal; a single variable goes down instead."""
    name, unit = unit_of(found)
    if page.rows is None:
        down = [(value_text(page.columns, place), cell) for place, cell in enumerate(page.cells[0])]
        yield (page.columns.name, name), tuple((value, cell_text(found.entries[cell], unit)) for value, cell in down)
        return
    places = range(len(page.columns.values))
    for begin in range(0, len(places), _MOST_COLUMNS):
        shown = places[begin : begin + _MOST_COLUMNS]
        head = (page.rows.name, *(value_text(page.columns, place) for place in shown))
        rows = tuple(
            (value_text(page.rows, row), *(cell_text(found.entries[cells[place]], unit) for place in shown))
            for row, cells in enumerate(page.cells)
        )
        yield head, rows


def _growth_lines(found: Map, growth: Growth) -> Iterator[str]:
    planes = [variable for variable in found.variables if variable.numbers is None]
    held = setting(planes, growth.plane)
    several = len({each.where for each in found.growths}) > 1
    place = ", ".join(word for word in (held, growth.where if several else "") if word)
    terms = [
        _term_text(size, powers, growth.variables)
        for size, powers in zip(growth.fit.coefficients, growth.fit.terms, strict=True)
    ]
    points = len(growth.fit.points)
    line = ngettext(
        "{terms} (fitted to {number} setting, off by {size} at most)",
        "{terms} (fitted to {number} settings, off by {size} at most)",
        points,
    ).format(
        terms=" + ".join(terms).replace("+ -", "- "),
        number=points,
        size=format_bytes(growth.fit.largest_residual_bytes),
    )
    yield _("{what}: {why}").format(what=place, why=line) if place else line


def _term_text(size: float, powers: Sequence[int], names: Sequence[str]) -> str:
    factors = [name if power == 1 else f"{name}^{power}" for name, power in zip(names, powers, strict=True) if power]
    if abs(size) < 10:
        return " x ".join([_("{number} bytes").format(number=f"{size:.3g}"), *factors])
    return " x ".join([format_bytes(size), *factors])
