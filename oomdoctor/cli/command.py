"""Commands whose help and whose words about wrong usage are in the language in use.

Help texts need no mark: `scripts/make_catalogue.py` takes them from the commands, a paragraph each. click's own words
are listed here, for they are none of this package's source.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import click.core
import click.exceptions
import click.formatting
import click.parser
import click.types

from ..language import CHINESE, N_, _, chosen, ngettext
from ..language.wrapping import cells, padded, wrap

MOST_COLUMNS = 80
_NARROW = 56
_FIRST_COLUMN = 30

CLICK_TEXTS = (
    N_("Options"), N_("Commands"), N_("Show this message and exit."), N_("Show the version and exit."),
    N_("default: {default}"), N_("required"), N_("Error: {message}"), N_("Try '{command} {option}' for help."),
    N_("Invalid value: {message}"), N_("Invalid value for {param_hint}: {message}"),
    N_("Missing argument"), N_("Missing option"), N_("Missing command."), N_("Choose from:\n\t{choices}"),
    N_("No such option {name!r}."), N_("No such command {name!r}."), N_("Option {name!r} does not take a value."),
    N_("{value!r} is not a valid {number_type}."), N_("{value} is not in the range {range}."),
    N_("{name} {filename!r} does not exist."), N_("{name} {filename!r} is a file."),
    N_("{name} {filename!r} is a directory."), N_("{name} {filename!r} is not readable."),
)  # fmt: skip
CLICK_PLURALS = (
    ("{value!r} is not {choice}.", "{value!r} is not one of {choices}."),
    ("Option {name!r} requires an argument.", "Option {name!r} requires {nargs} arguments."),
    ("Got unexpected extra argument ({args})", "Got unexpected extra arguments ({args})"),
    ("Did you mean {possibility}?", "(Did you mean one of: {possibilities}?)"),
)


def speak_click() -> None:
    """Let click say its own words in the language in use: it knows gettext's global domain only."""
    for module in (click.core, click.exceptions, click.formatting, click.parser, click.types):
        for name, spoken in (("_", _), ("ngettext", ngettext)):
            if hasattr(module, name):
                setattr(module, name, spoken)


def paragraphs(text: str) -> list[str]:
    """A help text as it is translated: each paragraph in one line."""
    return [" ".join(each.split()) for each in inspect.cleandoc(text).split("\n\n")]


def help_texts(command: click.Command) -> Iterator[str]:
    """All that the help of a command, and of those below it, shows."""
    yield from paragraphs(command.help or "")
    for parameter in command.params:
        yield from paragraphs(getattr(parameter, "help", None) or "")
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from help_texts(each)


class SpokenFormatter(click.HelpFormatter):
    """As click's, but a Chinese character counts two cells, and a narrow terminal has texts below their options."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        if width is None:
            width = max(min(shutil.get_terminal_size().columns, max_width or MOST_COLUMNS) - 2, 30)
        super().__init__(indent_increment, width, max_width)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """How the command is called."""
        super().write_usage(prog, args, _("Usage: ") if prefix is None else prefix)

    def write_heading(self, heading: str) -> None:
        """The title of a list."""
        self.write(" " * self.current_indent + _("{text}:").format(text=heading) + "\n")

    def write_text(self, text: str) -> None:
        """Paragraphs, wrapped."""
        indent = " " * self.current_indent
        blocks = ("\n".join(wrap(each, self.width, indent, indent)) for each in paragraphs(text))
        self.write("\n\n".join(blocks) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = _FIRST_COLUMN, col_spacing: int = 2) -> None:
        """Options or commands, each with its text beside it or, where there is little room, below it."""
        rows = list(rows)
        beside = self.width >= _NARROW
        widest = max((cells(first) for first, _text in rows), default=0)
        column = self.current_indent + (min(widest, col_max) + col_spacing if beside else 4)
        for first, text in rows:
            head = " " * self.current_indent + first
            lines = wrap(" ".join(text.split()), max(self.width - column, 10)) if text else []
            if beside and lines and cells(head) + col_spacing <= column:
                self.write(padded(head, column) + lines.pop(0) + "\n")
            else:
                self.write(head + "\n")
            self.write("".join(f"{'':{column}}{line}\n" for line in lines))


class SpokenContext(click.Context):
    """With the formatter above."""

    formatter_class = SpokenFormatter


@contextmanager
def _translated(command: click.Command, context: click.Context) -> Iterator[None]:
    """The help texts of the command and its parameters, in the language in use, within the block."""
    holders: Sequence[Any] = [command, *command.get_params(context)]
    before = [(each, each.help) for each in holders if getattr(each, "help", None)]
    try:
        for each, text in before:
            each.help = "\n\n".join(_(one) for one in paragraphs(text))
        yield
    finally:
        for each, text in before:
            each.help = text


class SpokenCommand(click.Command):
    """A command with its help in the language in use."""

    context_class = SpokenContext

    def __init__(self, *arguments: Any, **named: Any) -> None:
        named["context_settings"] = {"max_content_width": MOST_COLUMNS, **(named.get("context_settings") or {})}
        super().__init__(*arguments, **named)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The page of `--help`."""
        if chosen() != CHINESE:
            super().format_help(ctx, formatter)
            return
        with _translated(self, ctx):
            super().format_help(ctx, formatter)


class SpokenGroup(SpokenCommand, click.Group):
    """A group with its help in the language in use."""

    command_class = SpokenCommand

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, each with the first sentence of its help."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section(_("Commands")):
            formatter.write_dl([(name, _(paragraphs(each.help or "")[0])) for name, each in found if each is not None])
