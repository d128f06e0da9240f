"""`oomdoctor explain CODE`: one rule as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from ..errors import UsageError
from ..facts.registry import REGISTRY
from ..knobs.document import did_you_mean
from ..knobs.load import load_knobs
from ..model.facts import Scope
from ..playbook.causes import FAMILY_OF, MEANING_OF
from ..playbook.expression import Expression
from ..playbook.load import load_playbook, rule_directories
from ..playbook.rule import Rule, RuleRemedy
from ..playbook.terms import merged

WIDTH = 80

_LISTS = (
    ("when", "All of these must hold"),
    ("supports", "Any of these makes it likely"),
    ("confirms", "Any of these confirms it"),
    ("excludes", "Any of these rules it out"),
)


@click.command()
@click.argument("code")
@click.option(
    "--rules",
    "directories",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A directory of rules beside the shipped ones.",
)
def explain(code: str, directories: tuple[Path, ...]) -> None:
    """Explain the rule CODE: what it means, how it is recognised, what helps and what does not."""
    playbook = load_playbook(rule_directories(directories))
    wanted = code.upper()
    rule = playbook.find(wanted)
    if rule is None:
        known = sorted(found.id for found in playbook.rules)
        hint = did_you_mean(wanted, known) or "; `oomdoctor rules list` shows them all"
        raise UsageError(f"there is no rule {code!r}{hint}")
    _Page(Console(highlight=False, soft_wrap=False)).show(rule)


class _Page:
    """Plain text where it is piped; never wider than 80 columns."""

    def __init__(self, console: Console) -> None:
        self.console = console
        console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH

    def show(self, rule: Rule) -> None:
        self._heading(rule)
        self._section("What it means", [rule.explain.outline()])
        for name, title in _LISTS:
            conditions: tuple[Expression, ...] = getattr(rule, name)
            self._bullets(title, [condition.text for condition in conditions])
        self._facts(rule)
        if rule.remedies:
            self._title("What helps")
            for number, remedy in enumerate(rule.remedies, 1):
                self._remedy(number, remedy)
        self._bullets("What does not help", [f"{item.what}: {item.why.outline()}" for item in rule.not_remedies])
        self._bullets("How to be sure", [_joined(item.what, item.command) for item in rule.to_confirm])
        if rule.masks:
            self._section("It comes before", [f"{', '.join(rule.masks)}: these show only its symptoms"])

    def _heading(self, rule: Rule) -> None:
        self._wrapped(f"{rule.id}  {rule.title}", "", " " * (len(rule.id) + 2), "bold")
        whole = "the whole incident" if rule.scope is Scope.INCIDENT else f"each {rule.scope.value}"
        self._lines(
            [
                f"cause {rule.cause} ({FAMILY_OF[rule.cause]}): {MEANING_OF[rule.cause]}",
                f"tried for {whole}; written in {rule.place.path}",
            ],
            indent=0,
        )

    def _facts(self, rule: Rule) -> None:
        names = merged(*(condition.names for _, condition in rule.conditions))
        self._title("The facts it asks for")
        for name in names:
            spec = REGISTRY[name]
            self._hanging("-", f"{name} ({spec.type.value}): {spec.meaning}")

    def _remedy(self, number: int, remedy: RuleRemedy) -> None:
        self._hanging(f"{number}.", remedy.do.outline())
        details = [f"where {remedy.applies.text}"] if remedy.applies else []
        if remedy.set and remedy.set.knob in load_knobs():
            knob = load_knobs()[remedy.set.knob]
            for spelling in knob.spellings:
                span = f"   ({knob.framework} {spelling.versions})" if spelling.versions else ""
                details.extend(line + span for line in spelling.lines(remedy.set.value.outline()))
            details.extend([knob.note] if knob.note else [])
        details += [f"frees ‹{remedy.frees.text}›"] if remedy.frees else []
        details += [f"cost: {remedy.cost}"] if remedy.cost else []
        details += [f"source: {remedy.source}"] if remedy.source else []
        self._lines(details, indent=5)

    def _title(self, title: str) -> None:
        self.console.print()
        self._print(title, "bold")

    def _section(self, title: str, lines: Iterable[str]) -> None:
        self._title(title)
        self._lines(lines, indent=2)

    def _bullets(self, title: str, lines: list[str]) -> None:
        if lines:
            self._title(title)
            for line in lines:
                self._hanging("-", line)

    def _lines(self, lines: Iterable[str], indent: int) -> None:
        for line in lines:
            self._wrapped(line, " " * indent, " " * indent)

    def _hanging(self, mark: str, text: str) -> None:
        self._wrapped(text, f"{mark:>4} ", "     ")

    def _wrapped(self, text: str, first: str, others: str, style: str = "") -> None:
        """Breaks between words only: a line to copy stays whole where it can."""
        lines = textwrap.wrap(
            text,
            self.console.width,
            initial_indent=first,
            subsequent_indent=others,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines:
            self._print(line, style)

    def _print(self, line: str, style: str = "") -> None:
        self.console.print(Text(line, style=style), soft_wrap=True)


def _joined(what: str, command: str) -> str:
    return f"{what}: {command}" if command else what
