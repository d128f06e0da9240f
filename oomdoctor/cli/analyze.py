"""`oomdoctor analyze`: read what is left of a crash."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ..errors import UsageError
from ..model.units import format_bytes
from .output import is_terminal, print_report, say

FORMATS = ("terminal", "html", "json", "markdown")
_BY_SUFFIX = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown", ".txt": "terminal"}
EXIT_LEVEL_REACHED, EXIT_NOTHING_READ = 1, 3


@click.command(context_settings={"max_content_width": 80})
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(FORMATS),
    help="Form of the report. Default: by the suffix of --output; terminal on a terminal; markdown in a pipe.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@click.option("--command", help="The launch line, when the log does not show it.")
@click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True),
    help="The model's directory or its config.json: its dimensions help to explain a size.",
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
def analyze(
    paths: tuple[str, ...],
    output_format: str | None,
    output: Path | None,
    command: str | None,
    model: Path | None,
    rule_directories: tuple[Path, ...],
    fail_on: str | None,
) -> None:
    """Read logs, PyTorch memory snapshots, nvidia-smi output, incident bundles and folders of these.

    What each PATH is shows in its content, not in its name; '-' is standard input.

    Exit status: 0 analysed; 1 with --fail-on when a diagnosis reaches that level; 2 wrong usage; 3 nothing could be
    read (the report says why).
    """
    from ..diagnose import diagnose
    from ..model.diagnosis import Confidence
    from ..report import render

    chosen = output_format or _default_format(output)
    if model is not None:
        paths = (*paths, str(_configuration(model)))
    _spare_inputs(output, paths)
    stdin = sys.stdin.buffer if "-" in paths and sys.stdin is not None else None
    with _progress() as progress:
        diagnosis = diagnose(paths, command=command, rules=rule_directories, stdin=stdin, progress=progress)
    text = render(diagnosis, chosen)
    if output is None:
        print_report(text)
    else:
        _write(output, text)
    for note in diagnosis.notes:
        say(note)
    refused = [record for record in diagnosis.inputs if record.status == "refused"]
    for record in refused:
        say(f"{record.path or repr(record.path)}: {record.why}")
    if len(refused) == len(diagnosis.inputs):
        sys.exit(EXIT_NOTHING_READ)
    if fail_on and any(finding.confidence.rank <= Confidence(fail_on).rank for finding in diagnosis.findings):
        sys.exit(EXIT_LEVEL_REACHED)


def _configuration(model: Path) -> Path:
    """The file with the model's dimensions: of a directory its config.json."""
    found = model / "config.json" if model.is_dir() else model
    if not found.is_file():
        raise UsageError(f"{model} holds no config.json; name the model's directory or its configuration with --model")
    return found


def _default_format(output: Path | None) -> str:
    if output is not None:
        return _BY_SUFFIX.get(output.suffix.lower(), "html")
    return "terminal" if is_terminal(sys.stdout) else "markdown"


def _spare_inputs(output: Path | None, paths: tuple[str, ...]) -> None:
    """Refuse to write the report over what it is about: a crash leaves its log only once."""
    for path in paths:
        with contextlib.suppress(OSError, ValueError):  # a name that is no file is told of elsewhere
            if output is not None and path != "-" and output.is_file() and os.path.samefile(path, output):
                raise UsageError(f"{output} is an input; name another file with --output")


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from error


@contextmanager
def _progress() -> Iterator[Callable[[str, int], None] | None]:
    """Tells on a terminal how far the reading is, once it has taken more than a second; nothing elsewhere."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from ..report.text import one_line

    started, told = time.monotonic(), 0.0

    def tell(path: str, done_bytes: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - started > 1 and now - told > 0.1:
            told = now
            sys.stderr.write(f"\r\x1b[Kreading {one_line(path[-50:])}: {format_bytes(done_bytes)}")
            sys.stderr.flush()

    yield tell
    if told:
        sys.stderr.write("\r\x1b[K")
