"""`oomdoctor analyze`: read what is left of a crash."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..errors import UsageError
from ..language import _, told
from .bundle_reports import configuration_of
from .command import SpokenCommand
from .options import NamedPath, language_option, redact_options, redacted, size_option
from .output import REPORT_FORMATS, FormName, default_format, deliver_report, is_terminal, say, spare_inputs
from .progress import progress_bar

EXIT_LEVEL_REACHED, EXIT_NOTHING_READ = 1, 3


@click.command(cls=SpokenCommand)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format",
    "output_format",
    type=FormName(REPORT_FORMATS),
    help="Form of the report. Default: by the suffix of --output; else terminal, which is plain text in a pipe.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@click.option("--command", help="The launch line, when the log does not show it.")
@click.option(
    "--gpu",
    "card_bytes",
    metavar="SIZE",
    callback=size_option,
    help="Memory of the card that failed, where the input does not show it, as a snapshot alone does not: 80GiB.",
)
@click.option(
    "--model",
    type=NamedPath(path_type=Path, exists=True),
    help="The model's directory or its config.json, or a GGUF file: what it was to need stands "
    "beside what was seen, and its dimensions explain a size.",
)
@click.option(
    "--rules",
    "rule_directories",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="A directory with rules of yours, beside the shipped ones. May be given several times.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["possible", "likely", "confirmed"]),
    help="Exit with status 1 when a diagnosis is at least this sure.",
)
@redact_options
@language_option
def analyze(
    paths: tuple[str, ...],
    output_format: str | None,
    output: Path | None,
    command: str | None,
    card_bytes: int | None,
    model: Path | None,
    rule_directories: tuple[Path, ...],
    fail_on: str | None,
    redact: bool,
    pseudonyms: Path | None,
) -> None:
    """Read logs, PyTorch memory snapshots, nvidia-smi output, incident bundles and folders of these.

    What each PATH is shows in its content, not in its name; '-' is standard input.

    Exit status: 0 analysed; 1 with --fail-on when a diagnosis reaches that level; 2 wrong usage; 3 nothing could be
    read (the report says why).
    """
    from ..diagnose import diagnose
    from ..model.diagnosis import Confidence

    if card_bytes == 0:
        raise UsageError(_("--gpu is the memory of a card, such as 80GiB"))
    spare_inputs(output, paths)
    chosen = output_format or default_format(output)
    configuration = None if model is None else configuration_of(model)
    if configuration is not None:
        paths = (*paths, str(configuration))
        spare_inputs(output, paths)
    stdin = sys.stdin.buffer if "-" in paths and sys.stdin is not None else None
    with progress_bar() as bar:
        diagnosis = diagnose(
            paths,
            command=command,
            card_bytes=card_bytes,
            rules=rule_directories,
            stdin=stdin,
            progress=bar.reading,
            simulating=bar.simulating,
            model=model,
        )
    deliver_report(redacted(diagnosis, redact, pseudonyms), chosen, output)
    for note in diagnosis.notes:
        say(told(note))
    if configuration is not None and not any(name.startswith("model.") for name in diagnosis.facts):
        say(_("{configuration} tells no dimension of a model that could be read").format(configuration=configuration))
    read_off = output is None and chosen == "terminal" and is_terminal(sys.stdout) and diagnosis.nothing_read
    for record in diagnosis.inputs:
        if record.status == "refused" and not read_off:
            say(_("{what}: {why}").format(what=record.path or repr(record.path), why=told(record.why or "")))
    if diagnosis.nothing_read:
        sys.exit(EXIT_NOTHING_READ)
    if fail_on and any(finding.confidence.rank <= Confidence(fail_on).rank for finding in diagnosis.findings):
        sys.exit(EXIT_LEVEL_REACHED)
