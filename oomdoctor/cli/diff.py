"""`oomdoctor diff`: what grew from one run to another, or what differs between ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ..language import _
from .command import SpokenCommand
from .options import language_option
from .output import FormName, default_format, deliver, spare_inputs, text_width
from .progress import progress_bar

if TYPE_CHECKING:
    from ..compare.change import Change
    from ..compare.spread import Spread

FORMATS = ("terminal", "json", "markdown", "html")


@click.command(cls=SpokenCommand)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--format",
    "output_format",
    type=FormName(FORMATS),
    help="Default: by the suffix of --output; else terminal, which is plain text in a pipe.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@language_option
def diff(paths: tuple[Path, ...], output_format: str | None, output: Path | None) -> None:
    """Compare memory snapshots or incident bundles.

    Two PATHs are a before and an after: what grew, by stack, owner and category, and which change in command, versions
    or environment came with it. One bundle of several ranks, or more than two PATHs, are set on one scale.

    Exit status: 0 compared; 2 wrong usage; 3 an input could not be read, or tells nothing of memory.
    """
    from ..compare.change import compare_sides
    from ..compare.html import change_as_html, spread_as_html
    from ..compare.outline import outline_change, outline_spread
    from ..compare.places import read_side
    from ..compare.render import as_markdown, as_terminal, change_as_json, spread_as_json
    from ..compare.spread import spread

    spare_inputs(output, paths)
    chosen = output_format or default_format(output, otherwise="terminal")
    with progress_bar() as bar:
        sides = tuple(read_side(path, bar.reading) for path in paths)
    as_text = partial(as_terminal, width=text_width(output)) if chosen == "terminal" else as_markdown
    whole: dict[str, tuple[Callable[[Change], str], Callable[[Spread], str]]] = {
        "json": (change_as_json, spread_as_json),
        "html": (change_as_html, spread_as_html),
    }
    of_change, of_spread = whole.get(
        chosen, (lambda change: as_text(outline_change(change)), lambda found: as_text(outline_spread(found)))
    )
    if len(sides) == 2:
        text = of_change(compare_sides(*sides))
    else:
        found = spread(sides)
        if len(found.places) < 2:
            raise UsageError(_("one process on one device leaves nothing to compare; give a second snapshot or bundle"))
        text = of_spread(found)
    deliver(text, output)
