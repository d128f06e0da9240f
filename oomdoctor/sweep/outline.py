"""A sweep as titles, sentences and tables: what the terminal and Markdown show alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..compare.outline import Section
from ..estimate.budget import FITS, NO, TIGHT
from ..forecast.outline import size_text
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
    How.MEASURED: "bare: measured",
    How.PREDICTED: "(): predicted, not run",
    How.OUT_OF_MEMORY: "OOM: ran out of memory",
    How.LARGER: ">: not run, larger than one that ran out",
    How.PEAK_UNKNOWN: "ran: what it held was not seen",
    How.FAILED: "fail: failed for another reason",
    How.TIMED_OUT: "late: had not ended in time",
    How.NOT_KNOWN: "·: not run, not predicted",
}
_FITS_LEGEND = {TIGHT: "~: less than the headroom is left", NO: "x: does not fit", UNSURE: "?: may or may not fit"}
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
        Section("What grows with what", growth_lines(found)) if found.growths else None,
        _predictions(found),
        runs_section(found) if found.known.outcomes else None,
        Section("What did not end well", troubles) if troubles else None,
    )
    return tuple(section for section in sections if section is not None)


def headline(found: Map) -> str:
    """The safe setting in one sentence."""
    share = f"{100 * found.headroom:g} %"
    where = "the host's memory" if found.wheres == (HOST,) else "the card"
    if not found.safe:
        hows = {entry.how for entry in found.entries.values()}
        if How.MEASURED not in hows:
            return "No setting that was tried fits" if How.OUT_OF_MEMORY in hows else "No setting was measured"
        if all(entry.fits is None for entry in found.entries.values() if entry.how is How.MEASURED):
            return "What fits is not known: how much there is was not seen"
        return f"No setting that was tried leaves {share} of {where}"
    several = len(found.safe) > 1
    cell = next(iter(found.safe.values()))
    if several:
        return f"The largest settings that were tried and leave {share} of {where}, one for each category"
    return f"{setting(found.variables, cell)} is the largest that was tried and leaves {share} of {where}"


def facts(swept: Swept) -> tuple[str, ...]:
    """What one asks first, a sentence each."""
    found = swept.map
    lines = [_safe_line(found, cell) for cell in found.safe.values()]
    if found.also_safe:
        lines.append(f"as safe, and larger in another way: {_settings(found, found.also_safe)}")
    if found.promising:
        lines.append(f"predicted to leave it too, not tried: {_settings(found, found.promising)}")
    if found.squeezed:
        lines.append(
            f"ran, but torch had to give memory back to go on: {_settings(found, found.squeezed)};"
            " these are no measure of what it needs"
        )
    for growth in found.growths:
        if growth.contradicted_by is not None:
            lines.append(
                f"{setting(found.variables, growth.contradicted_by)} ran out of memory although less was predicted than"
                " was free: another limit, or fragmentation; predictions end below it"
            )
    if found.known.falling:
        lines.append(f"more of it was seen to need less: {', '.join(found.known.falling)}; nothing was ruled out by it")
    missing = [entry for entry in found.entries.values() if entry.how is How.PEAK_UNKNOWN]
    if missing:
        lines.append(
            "of some runs it was not seen what they held of a device: there is no driver that tells (NVML), or they"
            " used none; --on host shows the host's memory"
        )
    if swept.stopped:
        lines.append(f"the sweep ended early: {swept.stopped}")
    lines.append(counts(found))
    return tuple(lines)


def counts(found: Map) -> str:
    """How many settings are known how."""
    entries = list(found.entries.values())
    names = {
        How.MEASURED: "measured",
        How.PEAK_UNKNOWN: "ran unseen",
        How.OUT_OF_MEMORY: "out of memory",
        How.LARGER: "larger than one of these",
        How.PREDICTED: "predicted",
        How.FAILED: "failed otherwise",
        How.TIMED_OUT: "too late",
        How.NOT_KNOWN: "not known",
    }
    told = [(sum(entry.how is how for entry in entries), name) for how, name in names.items()]
    return f"of {len(entries)} settings: " + ", ".join(f"{count} {name}" for count, name in told if count)


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
        left = "" if entry.left_bytes is None else f", {format_bytes(entry.left_bytes)} left"
        return f"measured {_peak_text(entry.peak)}{left}"
    if entry.how is How.PREDICTED and entry.bytes is not None and entry.error_bytes is not None:
        return f"predicted {format_bytes(entry.bytes)} ± {format_bytes(entry.error_bytes)}, not run"
    if entry.how is How.LARGER and entry.smaller is not None:
        return f"not run: {setting(variables, entry.smaller)}, which is smaller, ran out of memory"
    return {
        How.OUT_OF_MEMORY: "ran out of memory",
        How.PEAK_UNKNOWN: "ran; what it held was not seen",
        How.FAILED: "failed for another reason than memory",
        How.TIMED_OUT: "had not ended in time",
    }.get(entry.how, "not run, not predicted")


def value_text(variable: Variable, place: int) -> str:
    """The head of a column or row."""
    return one_line(variable.values[place], 12)


def legend(found: Map) -> str:
    """The marks that the map shows."""
    hows = {entry.how for entry in found.entries.values()}
    fits = {entry.fits for entry in found.entries.values() if entry.bytes is not None}
    words = [text for how, text in _LEGEND.items() if how in hows]
    return "; ".join([*words, *(text for mark, text in _FITS_LEGEND.items() if mark in fits)]) + "."


def title_of(found: Map, page: Page) -> str:
    """What the map shows."""
    where = "the host" if found.wheres == (HOST,) else "a card"
    over = page.columns.name if page.rows is None else f"{page.rows.name} (rows) and {page.columns.name} (columns)"
    return f"{unit_of(found)[0]} of {where}, by {over}" + (f", with {page.held}" if page.held else "")


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
        note = f"{peak.known}{'' if peak.where in (HOST, 'cuda:0') else f', {peak.where}'}"
        if note not in notes:
            notes.append(note)
        left = "" if entry.left_bytes is None else format_bytes(entry.left_bytes)
        rows.append((_values(found.variables, cell), _peak_text(peak), left, str(notes.index(note) + 1), took))
    return Section(
        "What was run",
        head=(_names(found), "peak", "left", "known", "took"),
        rows=tuple(rows),
        remark=" ".join(f"({number}) {note}." for number, note in enumerate(notes, 1)),
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
    words = {FITS: "fits", TIGHT: "tight", NO: "does not fit", UNSURE: "may or may not", None: "not known"}
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
        "What is predicted",
        head=(_names(found), "predicted", "error", "fits"),
        rows=rows,
        remark=f"and {more} smaller ones; --format json has all." if more else "",
    )


def growth_lines(found: Map) -> tuple[str, ...]:
    """What grows with what, a sentence each."""
    return tuple(line for growth in found.growths for line in _growth_lines(found, growth))


def troubles_of(found: Map) -> tuple[str, ...]:
    """What became of the runs that did not end well."""
    lines = []
    for cell, outcome in found.known.outcomes.items():
        if outcome.kind is not Kind.RAN:
            told = outcome.told_by
            report = f" [{told.folder}]" if told.folder else ""
            lines.append(f"{setting(found.variables, cell)}: {told.detail}{report}")
    return tuple(lines)


def attempt_text(attempt: Attempt, on: str | None) -> str:
    """One run in a phrase, as it ends."""
    words = {Kind.OUT_OF_MEMORY: "out of memory", Kind.FAILED: "failed", Kind.TIMED_OUT: "too late"}
    if attempt.kind is not Kind.RAN:
        return f"{words[attempt.kind]}: {attempt.detail}"
    devices = [peak for peak in attempt.peaks if peak.where != HOST]
    shown = [peak for peak in attempt.peaks if peak.where == HOST] if on == HOST or not devices else devices
    if on == "device" and not devices:
        return "ran; what it held of a device was not seen"
    return "ran, " + ", ".join(f"{format_bytes(peak.bytes)} of {peak.where}" for peak in shown)


def _safe_line(found: Map, cell: Cell) -> str:
    entry = found.entries[cell]
    peak = entry.peak
    assert peak is not None
    others = ""
    room = room_of(peak)
    if room is not None and peak.total_bytes is not None and room < peak.total_bytes:
        others = f"; others had {format_bytes(peak.total_bytes - room)} of it"
    left = "" if entry.left_bytes is None else f", {format_bytes(entry.left_bytes)} left"
    name = f" ({peak.name})" if peak.name else ""
    where = f"host memory{name}" if peak.where == HOST else f"{peak.where}{name}"
    of = "" if peak.total_bytes is None else f" of {format_bytes(peak.total_bytes)}"
    least = "" if peak.exact else " (a short peak was not seen if there was one)"
    return f"{setting(found.variables, cell)}: {_peak_text(peak)}{of}, {where}{left}{others}{least}"


def _peak_text(peak: Peak) -> str:
    return ("" if peak.exact else "≥ ") + format_bytes(peak.bytes)


def _settings(found: Map, cells: Sequence[Cell]) -> str:
    shown = [setting(found.variables, cell) for cell in cells[:_MOST_SETTINGS]]
    more = f" and {len(cells) - len(shown)} more" if len(cells) > len(shown) else ""
    return ", ".join(shown) + more


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
            title = title_of(found, page) + (f", part {place + 1} of {len(parts)}" if len(parts) > 1 else "")
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
    yield (
        f"{f'{place}: ' if place else ''}{' + '.join(terms).replace('+ -', '- ')}"
        f" (fitted to {points} settings, off by {format_bytes(growth.fit.largest_residual_bytes)} at most)"
    )


def _term_text(size: float, powers: Sequence[int], names: Sequence[str]) -> str:
    factors = [name if power == 1 else f"{name}^{power}" for name, power in zip(names, powers, strict=True) if power]
    if abs(size) < 10:
        return " x ".join([f"{size:.3g} bytes", *factors])
    return " x ".join([format_bytes(size), *factors])
