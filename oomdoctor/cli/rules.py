"""`oomdoctor rules`: check, test and list rules."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import RuleError
from ..language import _
from ..language.wrapping import wrap
from ..playbook.cases import run_cases
from ..playbook.causes import FAMILIES, FAMILY_OF
from ..playbook.lint import lint
from ..playbook.load import Playbook, default_rules_directory, load_playbook
from ..playbook.page import title_of
from .command import SpokenGroup
from .options import language_option
from .output import text_width

_DIRECTORY = click.argument(
    "directory", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="[DIR]"
)


@click.group(cls=SpokenGroup)
@language_option
def rules() -> None:
    """Check, test and list the rules that diagnoses come from.

    DIR is a directory of rules; without it, the rules shipped with oomdoctor.
    """


@rules.command()
@_DIRECTORY
@click.option("--strict", is_flag=True, help="Let warnings fail as well.")
@language_option
def check(directory: Path | None, strict: bool) -> None:
    """Say what is wrong with rules, by file and line.

    Of those in DIR, without it of the shipped ones.
    They are checked beside the shipped ones, whose codes are taken.
    Exit status 2 where a rule cannot be used.
    """
    wanted = directory.resolve() if directory else default_rules_directory()
    playbook = load_playbook(dict.fromkeys([default_rules_directory(), wanted]))
    problems = [problem for problem in lint(playbook) if Path(problem.path).is_relative_to(wanted)]
    checked = [rule for rule in playbook.rules if Path(rule.place.path).is_relative_to(wanted)]
    for problem in problems:
        click.echo(problem)
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    click.echo(f"{_count(len(checked), 'rule')}, {_count(errors, 'error')}, {_count(warnings, 'warning')}")
    if errors or (strict and warnings):
        raise click.exceptions.Exit(RuleError.exit_code)


@rules.command()
@_DIRECTORY
@language_option
def test(directory: Path | None) -> None:
    """Run the cases that the rules in DIR carry with them.

    Exit status 1 where one fails, 2 where a rule cannot be loaded.
    """
    playbook = _load(directory)
    for problem in playbook.problems:
        click.echo(f"error: {problem}")
    results = run_cases(playbook.rules)
    failed = [result for result in results if not result.passed]
    for result in failed:
        place, case = result.case.place, result.case
        click.echo(
            f"{place.path}:{place.line}: {result.rule.id}, {case.name}: expected {case.expect}, got {result.got}"
        )
        if result.why:
            click.echo(f"    decided by {result.why}")
    passed = len(results) - len(failed)
    click.echo(
        f"{_count(len(playbook.rules), 'rule')}, {_count(len(results), 'case')}: {passed} passed, {len(failed)} failed"
    )
    if playbook.problems:
        raise click.exceptions.Exit(RuleError.exit_code)
    if failed:
        raise click.exceptions.Exit(1)


@rules.command(name="list")
@_DIRECTORY
@language_option
def list_rules(directory: Path | None) -> None:
    """List the rules in DIR: code and title, by family."""
    playbook = _load(directory)
    width = text_width(None)
    for family, meaning in FAMILIES.items():
        members = sorted((rule.id, title_of(rule)) for rule in playbook.rules if FAMILY_OF[rule.cause] == family)
        if members:
            head = _("{family}: {meaning}").format(family=family, meaning=_(meaning))
            click.secho("\n".join(wrap(head, width)), bold=True)
        for code, title in members:
            click.echo("\n".join(wrap(title, width, f"  {code:<8} ", " " * 11)))
    for problem in playbook.problems:
        click.echo(f"error: {problem}", err=True)


def _load(directory: Path | None) -> Playbook:
    return load_playbook([directory or default_rules_directory()])


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
