"""The outlook for a terminal and for a ticket: what needs attention first, one line for each that is fine."""

from __future__ import annotations

import io

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..language import N_, _, ngettext, tidy
from ..language.wrapping import broken
from ..model.printable import one_line
from ..model.units import format_bytes
from ..report.markup import text_of
from .finding import Finding, Level
from .look import Outlook

MARKS = {Level.FAIL: "✗", Level.WARN: "!", Level.UNSEEN: "?", Level.FINE: "✓"}
_STYLES = {Level.FAIL: "bold red", Level.WARN: "bold yellow", Level.UNSEEN: "dim", Level.FINE: "green"}
_INDENT = 4
_ENDS = (".", "!", "?", "…", ":", "。", "！", "？", "：")
HEADS = {
    Level.FAIL: N_("Stands in the way"),
    Level.WARN: N_("Worth a look"),
    Level.UNSEEN: N_("Not seen"),
    Level.FINE: N_("Fine"),
}


def as_terminal(outlook: Outlook, colour: bool = False, width: int = 80) -> str:
    """Text of so many columns, in colour where somebody looks."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
    )
    console.print()
    worst = next((level for level in MARKS if outlook.of(level)), Level.FINE)
    console.print(Text(headline(outlook), style=_STYLES[worst] if worst is not Level.UNSEEN else "bold"))
    for level in MARKS:
        found = outlook.of(level)
        if not found:
            continue
        console.print()
        console.print(Text(_(HEADS[level]), style="bold"))
        for finding in found:
            _print(console, finding)
    _print_measured(console, outlook)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def headline(outlook: Outlook) -> str:
    """How many of each, in a sentence."""
    counts = {level: len(outlook.of(level)) for level in MARKS}
    fails, warns, unseen = counts[Level.FAIL], counts[Level.WARN], counts[Level.UNSEEN]
    first = _("Nothing that was seen stands in the way")
    if fails:
        first = ngettext("{number} thing will fail", "{number} things will fail", fails).format(number=fails)
    rest = [_("{number} worth a look").format(number=warns)] if warns else []
    rest += [_("{number} not seen").format(number=unseen)] if unseen else []
    rest += [_("{number} fine").format(number=counts[Level.FINE])] if counts[Level.FINE] else []
    return _("{first}; {rest}.").format(first=first, rest=_(", ").join(rest)) if rest else sentence(first)


def _print(console: Console, finding: Finding) -> None:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    attention = finding.level in (Level.FAIL, Level.WARN)
    width = console.width - _INDENT
    seen = told(finding)
    mark = Text(MARKS[finding.level], style=_STYLES[finding.level])
    grid.add_row(mark, Text(broken(seen, width), style="bold" if attention else ""))
    if finding.why and finding.level is not Level.UNSEEN:
        grid.add_row("", Text(broken(sentence(one_line(finding.why)), width)))
    if finding.do:
        do = one_line(finding.do)
        do = _("{text}:").format(text=do) if finding.lines else sentence(do)
        grid.add_row("", Text(broken(do, width)))
    console.print(Padding(grid, (0, 0, 0, 2)))
    for line in finding.lines:
        # Not wrapped: a line that the terminal breaks is still one line when it is copied.
        console.print(Text("      " + one_line(line), style="green"), soft_wrap=True)


def _print_measured(console: Console, outlook: Outlook) -> None:
    width = console.width
    lines = measured_lines(outlook)
    if not lines:
        return
    console.print()
    console.print(Text(_("Measured"), style="bold"))
    for line in lines:
        console.print(Padding(Text(broken(one_line(line), width - 2), overflow="fold"), (0, 0, 0, 2)))


def measured_lines(outlook: Outlook) -> list[str]:
    """What an empty process takes of each card, and of which card nobody knows."""
    lines = [
        _(
            "An empty process takes {size} of {gpu} ({torch}, driver {driver}): context {context}, libraries"
            " {libraries}; torch's allocator keeps {kept} more. Estimates count with it from now on."
        ).format(
            size=format_bytes(one.bytes),
            gpu=one.gpu,
            torch=f"torch {one.torch}" if one.torch else _("the driver alone, without torch"),
            driver=one.driver,
            context=format_bytes(one.context_bytes),
            libraries=format_bytes(one.libraries_bytes),
            kept=format_bytes(one.allocator_bytes),
        )
        for one in outlook.measured
    ]
    for missing in outlook.not_measured:
        where = _("card {number}").format(number=missing.card) if missing.card is not None else _("any card")
        lines.append(
            _("What an empty process takes of {where} was not measured: {why}").format(where=where, why=missing.why)
        )
    return lines


def as_markdown(outlook: Outlook) -> str:
    """What one pastes into a ticket."""
    blocks = [f"## {text_of(headline(outlook))}"]
    for level in MARKS:
        found = outlook.of(level)
        if found:
            blocks.append(f"### {_(HEADS[level])}")
            blocks.append("\n".join(_item(finding) for finding in found))
    lines = measured_lines(outlook)
    if lines:
        blocks.append(f"### {_('Measured')}")
        blocks.append("\n".join(f"- {text_of(one_line(line))}" for line in lines))
    return "\n\n".join(blocks) + "\n"


def _item(finding: Finding) -> str:
    parts = [f"- {_bold(finding)}"]
    parts += [text_of(sentence(one_line(each))) for each in (finding.why, finding.do) if each]
    text = " ".join(parts)
    if finding.lines:
        code = "\n".join(f"  {one_line(line).replace('```', '` ` `')}" for line in finding.lines)
        text += f"\n  ```\n{code}\n  ```"
    return text


def _bold(finding: Finding) -> str:
    text = text_of(sentence(one_line(finding.seen)))
    return f"**{text}**" if finding.level in (Level.FAIL, Level.WARN) else text


def sentence(text: str) -> str:
    """With a full stop."""
    text = tidy(text)
    return text if text.endswith(_ENDS) else _("{sentence}.").format(sentence=text)


def told(finding: Finding) -> str:
    """What was seen; of what was not seen also why, in one line."""
    if finding.level is not Level.UNSEEN or not finding.why:
        return one_line(finding.seen)
    return _("{what}: {why}").format(what=one_line(finding.seen), why=_lower(one_line(finding.why)))


def _lower(text: str) -> str:
    """As the end of a sentence that began before; a name in capitals stays."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
