"""The `oomdoctor` command: a group that imports a command only when it is called.

`--help` and `--version` are asked for most often and must not wait for numpy, jinja2 or NVML.
"""

from __future__ import annotations

import errno
import signal
import sys
from importlib import import_module

import click

from .. import __version__
from ..errors import OomdoctorError, UsageError
from .output import say, soften_streams

COMMANDS = {
    "run": ("run:run", "Run a command under watch and report if it dies of memory."),
    "analyze": ("analyze:analyze", "Read what is left of a crash: logs, snapshots, nvidia-smi, bundles."),
    "report": ("report:report", "Make the reports of an incident folder again."),
    "open": ("report:open_report", "Show the report of an incident folder in a browser."),
    "check": ("check:check", "Say what stands in the way of a command before it runs."),
    "estimate": ("estimate:estimate", "Say what a model needs before it runs, and what fits."),
    "sweep": ("sweep:sweep", "Measure what fits: one watched run a setting, and the map of it."),
    "diff": ("diff:diff", "Compare two incidents, or the ranks of one: what grew, and with what."),
    "export": ("export:export", "Write a snapshot in a form that other tools read."),
    "whatif": ("whatif:whatif", "Replay the requests under another setting, or on another card."),
    "explain": ("explain:explain", "Print the playbook's page of one rule."),
    "rules": ("rules:rules", "Check, test and list rules, yours or the shipped ones."),
}
"""Command name → (module:object below this package, one-line help)."""


_OUTPUT_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE}
"""What standard output can fail with; trouble with inputs is told where they are read."""


class LazyGroup(click.Group):
    """A group whose commands live in modules that are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table: the order in which people need them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f".{module}", __package__), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list for `--help`, from the table, without importing a command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="oomdoctor")
def oomdoctor() -> None:
    """Say what ran out of memory, who held it, and what to change."""


def main() -> None:
    """Entry point: turns the errors a user can act on into a sentence and an exit status."""
    if sys.argv[1:2] == ["run"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # who waits for the command wants to see it end by ^C
    soften_streams()
    try:
        oomdoctor(prog_name="oomdoctor")
    except OomdoctorError as error:
        say(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        say(f"cannot write to standard output: {error.strerror or error}")
        sys.exit(UsageError.exit_code)
