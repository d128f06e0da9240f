"""`oomdoctor run`: run a command under watch, and end as it did."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

import click

from ..language import N_, _, chosen, default_language, told
from ..model.units import parse_size
from ..run.child import CannotStart, end_like
from ..run.session import RunOptions, RunOutcome, run_command
from ..run.signals import FORWARDED
from .bundle_reports import configuration_of, write_reports
from .command import SpokenCommand
from .options import NamedPath, language_option, redact_options
from .output import say

_LATER = N_("to make it later: {command}")
_MOST_EVENTS = 10_000_000
_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT}
"""Signals that end the making of a report."""


def _bytes(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    """The number of bytes that `4M` or `512KiB` says."""
    try:
        size = parse_size(text)
    except ValueError:
        size = -1
    if size < 0:
        raise click.BadParameter(_("{text} is not a size; write 512K, 4M or 1G").format(text=repr(text)))
    return size


def _history(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """The number of events, or `off`, as the probe reads it."""
    if text is None or text == "off" or (text.isdecimal() and 0 < int(text) <= _MOST_EVENTS):
        return text
    raise click.BadParameter(
        _("{text} is neither 'off' nor a number of events up to {most}").format(text=repr(text), most=_MOST_EVENTS)
    )


@click.command(cls=SpokenCommand, context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The incident folder itself. Default: reports/<time>-<name>.",
)
@click.option("--name", help="Names the incident folder. Default: after the command.")
@click.option(
    "--report",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="auto: after a crash or an out-of-memory event.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.01, max=3600),
    default=0.5,
    show_default=True,
    help="Seconds between samples.",
)
@click.option("--no-probe", is_flag=True, help="Watch from outside only; add nothing to the command's environment.")
@click.option(
    "--stacks",
    type=click.Choice(["always", "adaptive", "never"]),
    help="When a Python stack is recorded with each allocation of device memory. adaptive, which is "
    "the default: while a device is more than 70 % full or will soon be full (before torch 2.6: "
    "always).",
)
@click.option(
    "--history",
    callback=_history,
    metavar="N|off",
    help="How many events of torch's allocator are kept.  [default: 100000]",
)
@click.option(
    "--keep-output",
    callback=_bytes,
    default="5M",
    show_default=True,
    metavar="SIZE",
    help="How much is kept of each stream of the command's output, the beginning and the end. 0: nothing, and the "
    "command prints to the very terminal, file or pipe that it is given.",
)
@click.option(
    "--model",
    type=NamedPath(path_type=Path, exists=True),
    help="The model's directory, its config.json or a GGUF file: the report says what it was to need.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND...")
@redact_options
@language_option
def run(
    command: tuple[str, ...],
    output: Path | None,
    name: str | None,
    report: str,
    interval: float,
    no_probe: bool,
    stacks: str | None,
    history: str | None,
    keep_output: int,
    model: Path | None,
    redact: bool,
    pseudonyms: Path | None,
) -> None:
    """Run COMMAND under watch, and report if it dies of memory.

    It behaves as if it were run alone: the same input, output, terminal, signals and end. What oomdoctor has to say
    goes to standard error when the command has ended.

    Exit status: as the command's; death by the same signal; 127 when it is not found, 126 when it cannot be started; 2
    wrong usage.
    """
    if not command:
        raise click.UsageError(_("Which command? oomdoctor run -- python train.py"))
    kept: dict[str, object] | None = None
    if model is not None:
        configuration_of(model)
        kept = _to_keep(model)
    settings = _settings_to_keep(command)
    options = RunOptions(
        output=output,
        name=name,
        interval_seconds=interval,
        probe=not no_probe,
        stacks=stacks,
        history=history,
        keep_output_bytes=keep_output,
        model=kept,
        launch_config=settings.get("launch_config"),
        trainer_settings=settings.get("trainer_settings"),
    )
    try:
        outcome = run_command(command, options)
    except CannotStart as error:
        say(str(error))
        sys.exit(error.status)
    try:
        _take_signals_to_conclude()
        _conclude(outcome, report, model, redact, pseudonyms)
    except KeyboardInterrupt:
        say(_("interrupted before the report was made"))
        if outcome.bundle is not None:
            say(_(_LATER).format(command=_report_command(outcome.bundle, redact, pseudonyms)))
    end_like(outcome.status, outcome.signal)


def _to_keep(model: Path) -> dict[str, object] | None:
    """None for a model that is not understood: the report says so, and the command runs all the same."""
    from ..errors import OomdoctorError
    from ..estimate.kept import model_to_keep

    try:
        return model_to_keep(model)
    except OomdoctorError:
        return None


def _settings_to_keep(command: tuple[str, ...]) -> dict[str, dict[str, object]]:
    """What to keep of the files of a launcher and of a trainer that the command reads, by the name of the option."""
    if not any(_may_name_settings(word) for word in command):
        return {}  # before anything is loaded, for the command waits
    from ..bundle.redact import mask_text
    from ..estimate.kept import launch_config_to_keep
    from ..estimate.launch_config import default_accelerate_file
    from ..facts.trainer_file import trainer_file_options, trainer_files
    from ..facts.trainer_options import trainer_options

    kept: dict[str, dict[str, object]] = {}
    try:
        line = shlex.join(command)
        files = trainer_files(command, trainer_options(line).files)
        by_file = trainer_file_options(files)
        if by_file:
            kept["trainer_settings"] = {"paths": [mask_text(str(path)) for path in files], "options": by_file}
        read = trainer_options(line, by_file)
        named = [Path(name) for name in read.files]
        if read.takes_accelerates_default:
            named.append(default_accelerate_file(os.environ))
        found = next((path for path in named if path.is_file()), None)
        if found is not None:
            kept["launch_config"] = launch_config_to_keep(found)
    except (OSError, ValueError):
        return kept  # it is the command's to complain of
    return kept


def _may_name_settings(word: str) -> bool:
    """Whether a word may be a file of settings, a folder with adapters, or a launcher that has a file of its own."""
    named = word.partition("=")[2] if word.startswith("-") else word
    if named.lower().endswith((".yaml", ".yml", ".json")) or Path(word).name == "accelerate" or word == "accelerate":
        return True
    try:
        return len(named) < 4000 and os.path.isfile(os.path.join(named, "adapter_config.json"))
    except ValueError:
        return False


def _take_signals_to_conclude() -> None:
    """The command has ended: no signal that was meant for it may change how the wrapper ends."""
    for number in FORWARDED - {signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH, signal.SIGURG}:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler if number in _ENDING else signal.SIG_IGN)


def _conclude(outcome: RunOutcome, report: str, model: Path | None, redact: bool, pseudonyms: Path | None) -> None:
    """Make the report if one is wanted, and say where things are; nothing here changes how the run ends."""
    for what, why, _how in outcome.unseen:
        if what.startswith(("the incident folder", "part of the evidence")):
            say(_("{what}: {why}").format(what=told(what), why=told(why)))
    if outcome.bundle is None:
        say(_("no folder for the evidence could be written; the command ran without being recorded"))
        return
    if not outcome.bundle.is_dir():
        say(_("the evidence is lost: {path} was removed while the command ran").format(path=_shown(outcome.bundle)))
        return
    if report == "never" or (report == "auto" and not outcome.deserves_report):
        say(_("evidence in {path}").format(path=_shown(outcome.bundle)))
        return
    try:
        summary = write_reports(outcome.bundle, model=model, redact=redact, pseudonyms=pseudonyms)
    except Exception as error:
        say(
            _("the report could not be made ({kind}: {why}); the evidence is kept").format(
                kind=type(error).__name__, why=error
            )
        )
        say(_(_LATER).format(command=_report_command(outcome.bundle, redact, pseudonyms)))
        return
    say(summary)
    say(_("report: {path}").format(path=_shown(outcome.bundle / "report.html")))
    if redact or pseudonyms is not None:
        say(_("pass the report on, not the folder: the evidence in it holds the true names"))


def _report_command(bundle: Path, redact: bool, pseudonyms: Path | None) -> str:
    """What makes the report as it was asked for: with pseudonyms where those were, and in the same language."""
    words = ["oomdoctor", "report", _shown(bundle)]
    if pseudonyms is not None:
        words += ["--pseudonyms", str(pseudonyms)]
    elif redact:
        words.append("--redact")
    if chosen() != default_language():
        words += ["--lang", chosen()]
    return shlex.join(words)


def _shown(path: Path) -> str:
    """The path from here, where that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
