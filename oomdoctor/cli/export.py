"""`oomdoctor export`: a snapshot for those who want to dig on with other tools."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InputRefused, UsageError
from ..language import _, told
from .command import SpokenCommand
from .options import language_option
from .output import say, spare_inputs

if TYPE_CHECKING:
    from ..model.snapshot import Snapshot

_SUFFIX = {"perfetto": ".trace.json", "csv": ".csv", "parquet": ".parquet", "viewer": ".viewer.pickle"}
_TABLES = ("allocations", "events", "segments", "blocks", "stacks")
_LEAST = "64KiB"
_OF_TABLES = ("csv", "parquet")


@click.command(cls=SpokenCommand)
@click.argument("snapshot", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--to",
    "form",
    type=click.Choice(tuple(_SUFFIX)),
    required=True,
    help="perfetto: a trace for ui.perfetto.dev. csv, parquet: one table. viewer: a pickle that "
    "torch's own viewer (pytorch.org/memory_viz) opens, whatever protocol or compression the "
    "original has.",
)
@click.option("--table", type=click.Choice(_TABLES), show_default=_TABLES[0], help="For csv, parquet.")
@click.option(
    "--at-least",
    "least",
    show_default=_LEAST,
    metavar="SIZE",
    help="For perfetto: smaller allocations are counted, but get no slice of their own.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Default: named after the snapshot, in this folder.")
@language_option
def export(snapshot: Path, form: str, table: str | None, least: str | None, output: Path | None) -> None:
    """Write a PyTorch memory SNAPSHOT (or the one in a folder) in a form that other tools read.

    Exit status: 0 written; 2 wrong usage; 3 no snapshot could be read.
    """
    from ..model.units import parse_size

    if table is not None and form not in _OF_TABLES:
        raise UsageError(
            _("--table is for {forms}: {form} holds the whole snapshot").format(forms=", ".join(_OF_TABLES), form=form)
        )
    if least is not None and form != "perfetto":
        raise UsageError(_("--at-least is for perfetto: {form} holds allocations of every size").format(form=form))
    table, least = table or _TABLES[0], least or _LEAST
    try:
        least_bytes = parse_size(least)
    except ValueError:
        raise UsageError(
            _("--at-least {least} is no size; write it as 64KiB, 1MiB, 0").format(least=repr(least))
        ) from None
    if str(output) == "-":
        raise UsageError(_("export writes a file: name one with --output"))
    path = _snapshot_file(snapshot)
    _refuse_archive(path)
    name = path.name.removesuffix(".gz").removesuffix(".pickle").removesuffix(".pkl")
    part = f".{table}" if form in _OF_TABLES else ""
    target = output or Path(f"{name}{part}{_SUFFIX[form]}")
    spare_inputs(target, [path], _("is the snapshot itself"))
    try:
        _writer(form, path, table, least_bytes)(target)
    except InputRefused as error:
        raise InputRefused(_("{what}: {why}").format(what=path, why=told(str(error)))) from error
    except OSError as error:
        raise UsageError(_("cannot write {path}: {why}").format(path=target, why=error.strerror or error)) from error
    say(_("wrote {path}").format(path=target))


def _snapshot_file(path: Path) -> Path:
    """The file itself, or the one snapshot of an incident bundle or of any other folder."""
    if not path.is_dir():
        return path
    from ..readers.inputs import snapshots_below

    found = snapshots_below(path)
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputRefused(
            _("{path} holds no memory snapshot: give the file that `torch.cuda.memory` dumped").format(path=path)
        )
    raise UsageError(
        _("{path} holds several snapshots; name one of them: {found}").format(
            path=path, found=", ".join(str(each) for each in found)
        )
    )


def _refuse_archive(path: Path) -> None:
    """A zip or bzip2 file is no damaged pickle."""
    from ..readers.identify import HEAD_BYTES, InputKind, archive_name, identify

    with contextlib.suppress(OSError), path.open("rb") as file:  # trouble with the file is told where it is read
        head = file.read(HEAD_BYTES)
        if identify(head) is InputKind.ARCHIVE and (name := archive_name(head)):
            raise InputRefused(
                _("{path}: it is {name}: unpack it and give what is inside").format(path=path, name=name)
            )


def _writer(form: str, path: Path, table: str, least_bytes: int) -> Callable[[Path], None]:
    """What writes the snapshot at `path` in this form to a file; the snapshot is read here."""
    if form == "viewer":
        from ..export.viewer_pickle import write_viewer_pickle

        return lambda target: write_viewer_pickle(path, target)
    if form == "perfetto":
        from ..export.perfetto import write_perfetto

        snapshot = _read(path)
        return lambda target: write_perfetto(snapshot, target, least_bytes)
    from ..export.csv_file import write_csv
    from ..export.parquet_file import write_parquet
    from ..export.tables import TABLES

    rows = TABLES[table](_read(path))
    write = write_csv if form == "csv" else write_parquet
    return lambda target: write(rows, target)


def _read(path: Path) -> Snapshot:
    from ..readers.snapshot import read_snapshot

    return read_snapshot(path)
