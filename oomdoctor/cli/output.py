"""Where the words go: reports to standard output, sentences to standard error. Either may be closed, full or gone."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from ..errors import UsageError
from ..language import _
from ..language.wrapping import wrap
from ..model.printable import one_line

FORMATS = ("terminal", "html", "json", "markdown")
_DUMB = ("dumb", "unknown")
REPORT_FORMATS = (*FORMATS, "slack", "jira")
"""Those of a report, which is pasted into tickets and messages."""
_BY_SUFFIX = {
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "terminal",
}

if TYPE_CHECKING:
    from ..model.diagnosis import Diagnosis

    _Choice = click.Choice[str]
else:
    _Choice = click.Choice


class FormName(_Choice):
    """Forms of output by name: `markdown` may be called `md` and `terminal` `text`, or the other way round."""

    _SAME = (("markdown", "md"), ("terminal", "text"))

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name that the command itself uses."""
        for pair in self._SAME:
            if value in pair:
                value = next((each for each in pair if each in self.choices), value)
        return str(super().convert(value, param, ctx))


def default_format(output: Path | None, otherwise: str = "html") -> str:
    """One of FORMATS: by the suffix of the file; on standard output the summary, which is plain text in a pipe.

    Raises UsageError for a suffix that names no form of ours: HTML in a `.pdf` opens nowhere.
    """
    if output is None:
        return "terminal"
    suffix = output.suffix.lower()
    if suffix and suffix not in _BY_SUFFIX:
        known = ", ".join(_BY_SUFFIX)
        raise UsageError(
            _("{suffix} names no form of a report (known: {known}); choose one with --format").format(
                suffix=output.suffix, known=known
            )
        )
    return _BY_SUFFIX.get(suffix, otherwise)


def is_plain() -> bool:
    """Whether what goes to standard output has neither colours nor bold words: NO_COLOR, a dumb terminal, a pipe."""
    return not is_terminal(sys.stdout) or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in _DUMB


def soften_streams() -> None:
    """Let what the locale cannot spell become `?`: a page must not die of an arrow."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_report(text: str) -> None:
    """Standard output in UTF-8 whatever the locale says.

    A reader that left early (`| head -1`) has what it wanted, and that is no failure. Raises UsageError where the text
    cannot be written.
    """
    if sys.stdout is None:
        raise UsageError(_("standard output is closed; name a file with --output"))
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        if not text.endswith("\n"):
            sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()
    except OSError as error:
        _drop_output()
        if not isinstance(error, BrokenPipeError):
            raise UsageError(_("cannot write to standard output: {why}").format(why=error.strerror)) from error


def deliver_report(diagnosis: Diagnosis, form: str, output: Path | None) -> None:
    """As `deliver`; a terminal gets the summary as wide as it is, in its colours. Raises UsageError."""
    from ..report import render
    from ..report.terminal import render_plain

    if form != "terminal" or output is not None:
        deliver(render(diagnosis, form), output)
    elif is_plain():
        deliver(render_plain(diagnosis, text_width(None)), None)
    else:
        deliver(_for_terminal(diagnosis), None)


def _for_terminal(diagnosis: Diagnosis) -> str:
    from rich.console import Console

    from ..report.terminal import render_terminal

    told = io.StringIO()
    render_terminal(diagnosis, Console(file=told, force_terminal=True, width=text_width(None), legacy_windows=False))
    return told.getvalue()


def deliver(text: str, output: Path | None) -> None:
    """To the file; to standard output where that is `-` or none. Raises UsageError where it cannot be written."""
    if output is None or str(output) == "-":
        print_report(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(_("cannot write {path}: {why}").format(path=output, why=error.strerror)) from error


def spare_inputs(output: Path | None, inputs: Iterable[str | Path | None], what: str = "") -> None:
    """Refuse to write over what is read: a crash leaves its log only once. Raises UsageError."""
    if output is None or not output.is_file():
        return
    for path in inputs:
        with contextlib.suppress(OSError, ValueError):  # a name that is no file is told of elsewhere
            if path is not None and str(path) != "-" and os.path.samefile(path, output):
                raise UsageError(
                    _("{output} {what}; name another file with --output").format(
                        output=output, what=what or _("is an input")
                    )
                )


def check_folder(output: Path | None) -> None:
    """Before work of hours: whether there is a folder for the file at all. Raises UsageError."""
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        why = _("it is a folder") if output.is_dir() else _("there is no folder {parent}").format(parent=output.parent)
        raise UsageError(_("cannot write {path}: {why}").format(path=output, why=why))


def say(sentence: str) -> None:
    """One line on standard error, broken where a terminal is narrower; a name in it cannot act on the terminal."""
    line = f"oomdoctor: {one_line(sentence)}"
    if is_terminal(sys.stderr):
        line = "\n".join(wrap(line, max(20, shutil.get_terminal_size().columns), "", "  "))
    with contextlib.suppress(OSError):  # nobody listens; the exit status still tells
        click.echo(line, err=True)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody looks at this stream; a closed one is None."""
    return stream is not None and stream.isatty()


def text_width(output: Path | None, most: int = 80) -> int:
    """Columns of a text: those of the terminal that it goes to, where that has fewer than usual."""
    narrow = output is None and is_terminal(sys.stdout)
    return max(20, min(most, shutil.get_terminal_size().columns)) if narrow else most


def _drop_output() -> None:
    """Let what is still buffered go nowhere, or Python would stumble over it again when it ends."""
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
