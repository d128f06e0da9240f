"""`oomdoctor explain CODE`: one rule as a page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from ..errors import UsageError
from ..knobs.document import did_you_mean
from ..language import _
from ..language.wrapping import wrap
from ..playbook.load import load_playbook, rule_directories
from ..playbook.page import Page, page_of
from .command import SpokenCommand
from .options import language_option

WIDTH = 80


@click.command(cls=SpokenCommand)
@click.argument("code")
@click.option(
    "--rules",
    "directories",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A directory of rules beside the shipped ones.",
)
@language_option
def explain(code: str, directories: tuple[Path, ...]) -> None:
    """Explain the rule CODE: what it means, how it is recognised, what helps and what does not."""
    playbook = load_playbook(rule_directories(directories))
    wanted = code.upper()
    rule = playbook.find(wanted)
    if rule is None:
        known = sorted(found.id for found in playbook.rules)
        hint = did_you_mean(wanted, known) or _("; `oomdoctor rules list` shows them all")
        raise UsageError(_("there is no rule {code}{hint}").format(code=repr(code), hint=hint))
    _Printer(Console(highlight=False, soft_wrap=False)).show(page_of(rule), rule.place.path)


class _Printer:
    """Plain text where it is piped; never wider than 80 columns."""

    def __init__(self, console: Console) -> None:
        self.console = console
        console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH

    def show(self, page: Page, path: str) -> None:
        self._wrapped(f"{page.code}  {page.title}", "", " " * (len(page.code) + 2), "bold")
        cause = _("cause {cause}").format(cause=page.cause)
        self._lines([cause, _("tried for {scope}; written in {path}").format(scope=page.scope, path=path)], indent=0)
        for section in page.sections:
            self._title(section.title)
            self._lines([section.text], indent=2)
            for number, item in enumerate(section.items, 1):
                text = _("{what}: {code}").format(what=item.text, code=item.code) if item.text and item.code else ""
                text = text or item.text or item.code
                self._hanging(f"{number}." if section.numbered else "-", text)
                self._lines([*item.settings, *item.remarks], indent=5)

    def _title(self, title: str) -> None:
        self.console.print()
        self._print(title, "bold")

    def _lines(self, lines: Iterable[str], indent: int) -> None:
        for line in lines:
            self._wrapped(line, " " * indent, " " * indent)

    def _hanging(self, mark: str, text: str) -> None:
        self._wrapped(text, f"{mark:>4} ", "     ")

    def _wrapped(self, text: str, first: str, others: str, style: str = "") -> None:
        """Breaks between words only: a line to copy stays whole where it can."""
        for line in wrap(text, self.console.width, first, others):
            self._print(line, style)

    def _print(self, line: str, style: str = "") -> None:
        self.console.print(Text(line, style=style), soft_wrap=True)
