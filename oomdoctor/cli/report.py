"""`oomdoctor report`: make the reports of an incident folder again. `oomdoctor open`: show a report in a browser.

Both take what `oomdoctor analyze` reads as well; then nothing is written beside it.
"""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InputRefused, UsageError
from ..language import _
from .bundle_reports import NAMES, is_in_language, write_reports
from .command import SpokenCommand
from .options import NamedPath, language_option, redact_options, redacted
from .output import REPORT_FORMATS, FormName, default_format, deliver_report, say
from .progress import progress_bar

if TYPE_CHECKING:
    from ..model.diagnosis import Diagnosis

_PATH = NamedPath(path_type=Path, exists=True)
_FOLDER = NamedPath(path_type=Path, exists=True, file_okay=False)


@click.command(cls=SpokenCommand)
@click.argument("path", type=_PATH)
@click.option(
    "--format",
    "form",
    type=FormName(REPORT_FORMATS),
    help="Print one form instead of writing all three into the folder.",
)
@click.option("--rules", "directories", multiple=True, type=_FOLDER, metavar="DIR", help="Rules of yours.")
@redact_options
@language_option
def report(path: Path, form: str | None, directories: tuple[Path, ...], redact: bool, pseudonyms: Path | None) -> None:
    """Make the reports of an incident folder again: with newer rules, or after the run was cut short.

    PATH is such a folder, or what `oomdoctor analyze` reads, like a snapshot; of that the report is printed.

    Exit status: 0 made; 2 wrong usage or not to be written; 3 it could not be read.
    """
    from ..readers.bundle import is_bundle

    if form is not None or not is_bundle(path):
        diagnosis = redacted(_diagnosis(path, directories), redact, pseudonyms)
        deliver_report(diagnosis, form or default_format(None), None)
        return
    summary = _written(path, directories, redact, pseudonyms)
    say(summary)
    say(_("report: {path}").format(path=path / NAMES["html"]))


@click.command("open", cls=SpokenCommand)
@click.argument("path", type=_PATH)
@redact_options
@language_option
def open_report(path: Path, redact: bool, pseudonyms: Path | None) -> None:
    """Show the report of an incident folder in a browser, or of what `oomdoctor analyze` reads, like a snapshot.

    It is made first where there is none, where it is in another language than the one asked for, or with pseudonyms;
    of what is no incident folder it is made in the folder for temporary files.
    """
    from ..readers.bundle import is_bundle

    if is_bundle(path):
        page = path / NAMES["html"]
        if not page.is_file() or not is_in_language(page) or redact or pseudonyms is not None:
            _written(path, redact=redact, pseudonyms=pseudonyms)
    else:
        from ..report import render

        text = render(redacted(_diagnosis(path), redact, pseudonyms), "html")
        page = Path(tempfile.mkdtemp(prefix="oomdoctor-")) / NAMES["html"]
        page.write_text(text, encoding="utf-8")
    if not webbrowser.open(page.absolute().as_uri()):
        raise UsageError(_("no browser could be started here; the report is {page}").format(page=page))
    say(_("opened {path}").format(path=page))


def _diagnosis(path: Path, directories: tuple[Path, ...] = ()) -> Diagnosis:
    """Raises InputRefused where nothing could be read."""
    from ..diagnose import diagnose

    with progress_bar() as bar:
        diagnosis = diagnose([path], rules=directories, progress=bar.reading, simulating=bar.simulating)
    refused = [record for record in diagnosis.inputs if record.status == "refused"]
    if len(refused) == len(diagnosis.inputs):
        raise InputRefused(
            f"{refused[0].path}: {refused[0].why}"
            if refused
            else _("{path} holds nothing that could be read").format(path=path)
        )
    return diagnosis


def _written(
    folder: Path, directories: tuple[Path, ...] = (), redact: bool = False, pseudonyms: Path | None = None
) -> str:
    try:
        return write_reports(folder, rules=directories, redact=redact, pseudonyms=pseudonyms)
    except OSError as error:
        raise UsageError(
            _("cannot write into {folder}: {why}; `--format html` prints the report instead").format(
                folder=folder, why=error.strerror or error
            )
        ) from error
