"""The report for a terminal: the answer in 80 columns, in plain text where there is no terminal."""

from __future__ import annotations

import io

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..language import _
from ..language.wrapping import chopped, wrap
from ..model.diagnosis import Diagnosis
from .bars import BudgetView
from .loose import LooseView
from .reckoning import ESTIMATED, MISUSED, RECKONED
from .text import UNIT
from .view import ReportView, view_report

_BAR = 40
_MOST = 4
"""Other budgets and missing things named here; the HTML report has them all."""
_TONES = {"out-of-memory": "bold red", "degraded": "bold dark_orange3", "undetermined": "bold dark_orange3"}


def render(diagnosis: Diagnosis) -> str:
    """The summary as plain text, 80 columns wide."""
    return render_plain(diagnosis, 80)


def render_plain(diagnosis: Diagnosis, width: int) -> str:
    """The summary as plain text, so many columns wide: nothing in it acts on a terminal."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=False, color_system=None, legacy_windows=False)
    render_terminal(diagnosis, console)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def render_terminal(diagnosis: Diagnosis, console: Console) -> None:
    """Print the summary; the console decides on colour (NO_COLOR, a pipe) and width."""
    view = view_report(diagnosis)
    _verdict(view, console)
    if view.budget is not None:
        _budget(view.budget, console)
    elif view.loose is not None:
        _loose(view.loose, console)
    for each in view.others_alike[:_MOST]:
        _say(console, each.in_short)
    hidden = len(view.others_alike) - _MOST
    if hidden > 0:
        _say(console, _("… and {number} more in the report").format(number=hidden), style="dim")
    _cause(view, console)
    _change(view, console)
    _estimated(view, console)
    _comparisons(view, console)
    _misuses(view, console)
    _missing(view, console)
    _heading(console, _("Fingerprint"), view.fingerprint)


def _verdict(view: ReportView, console: Console) -> None:
    console.print()
    _say(console, view.tag.upper(), style=_TONES.get(view.verdict, "bold"))
    _say(console, view.headline, style="bold")
    if view.lead:
        _say(console, view.lead)


def _budget(bar: BudgetView, console: Console) -> None:
    console.print()
    _say(console, _("{place}, {total}").format(place=bar.where, total=bar.total), style="bold")
    if bar.usable:
        _say(console, bar.usable, style="dim")
    table = Table.grid(padding=(0, 1), expand=False)
    table.add_column(ratio=None, max_width=30, overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    room = max(min(_BAR, console.width - 60), 4)
    for each in bar.segments:
        blocks = round(each.width * room) if each.bytes > 0 else 0
        mark = Text("█" * max(blocks, 1 if each.bytes > 0 else 0), style=each.category.colour)
        table.add_row(Text(each.name), each.size, each.share, mark)
    if bar.request is not None:
        blocks = max(round(bar.request.width * room), 1)
        table.add_row(Text(_("asked for, did not fit")), bar.request.size, "", Text("░" * blocks, style="bold"))
        if bar.request.short:
            table.add_row(Text(_("short by")), bar.request.short, "", "")
    if not bar.segments:
        table.add_row(Text(_("parts not measured")), "", "", "")
    console.print(Padding(table, (0, 0, 0, 2)))
    if bar.over:
        _say(console, bar.over, style="dim")


def _loose(loose: LooseView, console: Console) -> None:
    console.print()
    for each in loose.figures:
        _say(console, _("{name}: {size}").format(name=each.name, size=each.size))
    if loose.said:
        for line in _lines(loose.said, console.width - 2, whole=True):
            console.print(Text("  " + line, style="dim"), soft_wrap=True, highlight=False)


def _cause(view: ReportView, console: Console) -> None:
    cause = view.cause
    if cause is None:
        return
    words = _("{title} ({confidence}; {rule}, {cause})").format(
        title=cause.title, confidence=cause.sureness, rule=cause.rule, cause=cause.cause
    )
    _heading(console, _("Cause"), words)
    if cause.owner:
        _heading(console, _("Who held it"), cause.owner)
    others = [
        _("{rule} {title} ({confidence})").format(rule=each.rule, title=each.title, confidence=each.sureness)
        for each in [one for one in view.findings[1:] if one.rule != cause.rule][:2]
    ]
    if others:
        _heading(console, _("Also"), _("; ").join(others))


def _change(view: ReportView, console: Console) -> None:
    change = view.change
    if change is None:
        return
    _heading(console, _("Change this"), change.do)
    for place, line in enumerate(change.lines):
        if change.systems:
            _say(console, _("{name}:").format(name=change.systems[place]), style="dim")
        # Not wrapped: a line that the terminal breaks is still one line when it is copied.
        console.print(Text("    " + line, style="bold green"), soft_wrap=True, highlight=False)
    if change.effect:
        _say(console, change.effect)
    if change.check_first:
        _say(console, change.check_first, style="dim")
    if change.note:
        _say(console, change.note, style="dim")


def _estimated(view: ReportView, console: Console) -> None:
    if view.estimated is None:
        return
    _heading(console, _(ESTIMATED), view.estimated.settings)
    for sentence in view.estimated.sentences:
        _say(console, sentence)
    for each in view.estimated.rows:
        if each.observed:
            words = _("{what}: {estimated} estimated; {observed}; {apart}").format(
                what=each.what, estimated=each.estimated, observed=each.observed, apart=each.apart
            )
            _say(console, "- " + words)


def _comparisons(view: ReportView, console: Console) -> None:
    if not view.comparisons:
        return
    _heading(console, _(RECKONED), "")
    for each in view.comparisons[:_MOST]:
        words = _("{what}: {reckoned} reckoned, {seen} seen, {apart}").format(
            what=each.what, reckoned=each.reckoned, seen=each.seen, apart=each.apart
        )
        _say(console, f"- {words}")


def _misuses(view: ReportView, console: Console) -> None:
    if not view.misuses:
        return
    _heading(console, _(MISUSED), "")
    for each in view.misuses[:_MOST]:
        words = _("{what}: {outcome}. {why}. {instead}").format(
            what=each.what, outcome=each.outcome, why=each.why, instead=each.instead
        )
        _say(console, f"- {words.rstrip()}")
        for line in each.lines:
            console.print(Text("    " + line, style="bold green"), soft_wrap=True, highlight=False)
    if len(view.misuses) > _MOST:
        _say(console, "- " + _("and {number} more in the report").format(number=len(view.misuses) - _MOST))


def _missing(view: ReportView, console: Console) -> None:
    if not view.missing:
        return
    _heading(console, _("Not seen"), "")
    for each in view.missing[:_MOST]:
        words = _("{what}: {why}").format(what=each.what, why=each.why) if each.why else each.what
        _item(console, "- ", words)
        if each.how_to_get_it:
            _item(console, "  ", each.how_to_get_it, whole=True)
    if len(view.missing) > _MOST:
        _item(console, "- ", _("and {number} more in the report").format(number=len(view.missing) - _MOST))


def _heading(console: Console, name: str, text: str) -> None:
    console.print()
    console.print(f"[bold]{escape(name)}[/bold]", highlight=False)
    if text:
        _say(console, text)


def _item(console: Console, mark: str, text: str, *, whole: bool = False) -> None:
    """A sentence behind a mark; its commands, in backticks, in green."""
    for place, line in enumerate(_lines(text, console.width - 4, whole=whole)):
        told = Text("  " + (mark if place == 0 else "  ") + line)
        told.highlight_regex(r"`[^`]+`", "green")
        console.print(told, soft_wrap=True, highlight=False)


def _say(console: Console, text: str, style: str = "") -> None:
    for line in _lines(text, console.width - 2):
        console.print(Text("  " + line, style=style), soft_wrap=True, highlight=False)


def _lines(text: str, width: int, *, whole: bool = False) -> list[str]:
    """Broken between words and beside Chinese characters, never between a number and its unit.

    `whole`: a command in backticks stays one line however long it is; a terminal breaks it, and it can be copied.
    """
    lines = wrap(UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", text), width)
    shown = (line.replace("\N{NO-BREAK SPACE}", " ") for line in lines)
    return [piece for line in shown for piece in ([line] if whole and "`" in line else chopped(line, width))]
