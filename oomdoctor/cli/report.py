"""`oomdoctor report`: make the reports of an incident folder again. `oomdoctor open`: show one in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from ..errors import UsageError
from ..language import _
from .bundle_reports import NAMES, checked_bundle, is_in_language, write_reports
from .command import SpokenCommand
from .options import NamedPath, language_option, redact_options, redacted
from .output import FormName, print_report, say

_BUNDLE = NamedPath(path_type=Path, exists=True, file_okay=False)


@click.command(cls=SpokenCommand)
@click.argument("bundle", type=_BUNDLE)
@click.option(
    "--format",
    "form",
    type=FormName(["terminal", *NAMES]),
    help="Print one form instead of writing all three into the folder.",
)
@click.option("--rules", "directories", multiple=True, type=_BUNDLE, metavar="DIR", help="Rules of yours.")
@redact_options
@language_option
def report(
    bundle: Path, form: str | None, directories: tuple[Path, ...], redact: bool, pseudonyms: Path | None
) -> None:
    """Make the reports of the incident folder BUNDLE again: with newer rules, or after the run was cut short.

    Exit status: 0 made; 2 wrong usage or not to be written; 3 it is no incident folder.
    """
    folder = checked_bundle(bundle)
    if form is not None:
        from ..diagnose import diagnose
        from ..report import render

        print_report(render(redacted(diagnose([folder], rules=directories), redact, pseudonyms), form))
        return
    summary = _written(folder, directories, redact, pseudonyms)
    say(summary)
    say(_("report: {path}").format(path=folder / NAMES["html"]))


@click.command("open", cls=SpokenCommand)
@click.argument("bundle", type=_BUNDLE)
@language_option
def open_report(bundle: Path) -> None:
    """Show the report of the incident folder BUNDLE in a browser.

    It is made first where there is none, or where it is in another language than the one asked for.
    """
    page = checked_bundle(bundle) / NAMES["html"]
    if not page.is_file() or not is_in_language(page):
        _written(bundle)
    if not webbrowser.open(page.absolute().as_uri()):
        raise UsageError(_("no browser could be started here; the report is {page}").format(page=page))
    say(_("opened {path}").format(path=page))


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
