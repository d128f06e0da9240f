"""The outlook for a terminal and for a ticket: what needs attention first, one line for each that is fine."""

from __future__ import annotations

import io

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..model.printable import one_line
from ..model.units import format_bytes
from ..report.markup import text_of
from .finding import Finding, Level
from .look import Outlook

_MARKS = {Level.FAIL: "✗", Level.WARN: "!", Level.UNSEEN: "?", Level.FINE: "✓"}
_STYLES = {Level.FAIL: "bold red", Level.WARN: "bold yellow", Level.UNSEEN: "dim", Level.FINE: "green"}
_HEADS = {
    Level.FAIL: "Stands in the way",
    Level.WARN: "Worth a look",
    Level.UNSEEN: "Not seen",
    Level.FINE: "Fine",
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
    worst = next((level for level in _MARKS if outlook.of(level)), Level.FINE)
    console.print(Text(headline(outlook), style=_STYLES[worst] if worst is not Level.UNSEEN else "bold"))
    for level in _MARKS:
        found = outlook.of(level)
        if not found:
            continue
        console.print()
        console.print(Text(_HEADS[level], style="bold"))
        for finding in found:
            _print(console, finding)
    _print_measured(console, outlook)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def headline(outlook: Outlook) -> str:
    """How many of each, in a sentence."""
    counts = {level: len(outlook.of(level)) for level in _MARKS}
    fails, warns, unseen = counts[Level.FAIL], counts[Level.WARN], counts[Level.UNSEEN]
    first = (
        f"{fails} thing{'s' if fails != 1 else ''} will fail" if fails else "Nothing that was seen stands in the way"
    )
    rest = [f"{warns} worth a look"] if warns else []
    rest += [f"{unseen} not seen"] if unseen else []
    rest += [f"{counts[Level.FINE]} fine"] if counts[Level.FINE] else []
    return f"{first}{': ' if rest else '.'}{', '.join(rest)}{'.' if rest else ''}"


def _print(console: Console, finding: Finding) -> None:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    attention = finding.level in (Level.FAIL, Level.WARN)
    seen = Text(one_line(finding.seen), style="bold" if attention else "")
    if finding.level is Level.UNSEEN and finding.why:
        seen = Text(f"{one_line(finding.seen)}: {_lower(one_line(finding.why))}")
    grid.add_row(Text(_MARKS[finding.level], style=_STYLES[finding.level]), seen)
    if finding.why and finding.level is not Level.UNSEEN:
        grid.add_row("", Text(_sentence(one_line(finding.why))))
    if finding.do:
        grid.add_row("", Text(_sentence(one_line(finding.do)) if not finding.lines else f"{one_line(finding.do)}:"))
    console.print(Padding(grid, (0, 0, 0, 2)))
    for line in finding.lines:
        # Not wrapped: a line that the terminal breaks is still one line when it is copied.
        console.print(Text("      " + one_line(line), style="green"), soft_wrap=True)


def _print_measured(console: Console, outlook: Outlook) -> None:
    lines = measured_lines(outlook)
    if not lines:
        return
    console.print()
    console.print(Text("Measured", style="bold"))
    for line in lines:
        console.print(Padding(Text(one_line(line), overflow="fold"), (0, 0, 0, 2)))


def measured_lines(outlook: Outlook) -> list[str]:
    """What an empty process takes of each card, and of which card nobody knows."""
    lines = [
        f"An empty process takes {format_bytes(one.bytes)} of {one.gpu}"
        f" ({'torch ' + one.torch if one.torch else 'the driver alone, without torch'}, driver {one.driver}):"
        f" context {format_bytes(one.context_bytes)}, libraries {format_bytes(one.libraries_bytes)};"
        f" torch's allocator keeps {format_bytes(one.allocator_bytes)} more. Estimates count with it from now on."
        for one in outlook.measured
    ]
    for missing in outlook.not_measured:
        where = f"card {missing.card}" if missing.card is not None else "any card"
        lines.append(f"What an empty process takes of {where} was not measured: {missing.why}")
    return lines


def as_markdown(outlook: Outlook) -> str:
    """What one pastes into a ticket."""
    blocks = [f"## {text_of(headline(outlook))}"]
    for level in _MARKS:
        found = outlook.of(level)
        if found:
            blocks.append(f"### {_HEADS[level]}")
            blocks.append("\n".join(_item(finding) for finding in found))
    lines = measured_lines(outlook)
    if lines:
        blocks.append("### Measured")
        blocks.append("\n".join(f"- {text_of(one_line(line))}" for line in lines))
    return "\n\n".join(blocks) + "\n"


def _item(finding: Finding) -> str:
    parts = [f"- {_bold(finding)}"]
    parts += [text_of(_sentence(one_line(each))) for each in (finding.why, finding.do) if each]
    text = " ".join(parts)
    if finding.lines:
        code = "\n".join(f"  {one_line(line).replace('```', '` ` `')}" for line in finding.lines)
        text += f"\n  ```\n{code}\n  ```"
    return text


def _bold(finding: Finding) -> str:
    text = text_of(_sentence(one_line(finding.seen)))
    return f"**{text}**" if finding.level in (Level.FAIL, Level.WARN) else text


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…", ":")) else f"{text}."


def _lower(text: str) -> str:
    """As the end of a sentence that began before; a name in capitals stays."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
