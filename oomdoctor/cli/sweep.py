"""`oomdoctor sweep`: measure what fits."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..language import _, ngettext
from .command import SpokenCommand
from .options import language_option, share
from .output import FORMATS, FormName, check_folder, default_format, deliver, say, spare_inputs, text_width

if TYPE_CHECKING:
    from ..sweep.conduct import Swept
    from ..sweep.measure import Recipe
    from ..sweep.state import Measured

_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def _seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Seconds of `90`, `90s`, `10min`, `2h`."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|)", text.strip())
    if not found or float(found[1]) <= 0:
        raise click.BadParameter(_("{text} is not a time such as 90s or 10min").format(text=repr(text)), ctx, param)
    return float(found[1]) * _UNITS[found[2]]


@click.command(cls=SpokenCommand, context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--vary", multiple=True, metavar="NAME=V,V…", help="A variable and its values; once for each variable.")
@click.option("--category", multiple=True, metavar="NAME", help="Its numbers have no order: never interpolated.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set for the command; VALUE may hold {NAME}.")
@click.option(
    "--headroom", callback=share, metavar="SHARE", default="10%", show_default=True, help="What is to be left."
)
@click.option(
    "--on", type=click.Choice(["device", "host"]), help="Whose memory counts. Default: device, where one is seen."
)
@click.option("--timeout", callback=_seconds, metavar="TIME", help="End a run after 90s, 10min, 2h.")
@click.option("--until", metavar="TEXT", help="End a run as ^C would once it prints TEXT: for servers.")
@click.option(
    "--repeat",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Runs of a setting; the most counts.",
)
@click.option("--all", "every", is_flag=True, help="Run also what can be predicted.")
@click.option("--runs", type=click.IntRange(0), metavar="N", help="At most so many runs now; 0: show what is there.")
@click.option("--fresh", is_flag=True, help="Runs of before do not count.")
@click.option(
    "--interval",
    type=click.FloatRange(0.01, 3600),
    default=0.1,
    show_default=True,
    help="Seconds between looks at a run.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where runs are kept; the same command goes on from there. Default: reports/sweep-<name>-<digest>.",
)
@click.option(
    "--format",
    "output_format",
    type=FormName(FORMATS),
    help="Default: by the suffix of --output, else terminal.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND...")
@language_option
def sweep(command: tuple[str, ...], output_format: str | None, output: Path | None, **asked: Any) -> None:
    """Run COMMAND with several settings and say which of them fit.

    {NAME} in COMMAND stands for a value of --vary; {{ and }} for the braces. It begins with the smallest, changes one
    variable at a time, and stops where memory runs out. COMMAND must end by itself (or see --until), and reads
    nothing from the terminal.

    Exit status: 0 the map is drawn, whatever fits; 1 nothing could be measured, or no more; 2 wrong usage; 3 the folder
    cannot be read or written; 130 interrupted.
    """
    from ..sweep.conduct import Wishes
    from ..sweep.conduct import sweep as conduct
    from ..sweep.map import How
    from ..sweep.measure import Recipe
    from ..sweep.state import State
    from ..sweep.variables import check_templates, parse_variables

    if not command or not asked["vary"]:
        raise UsageError(
            _(
                "which command, over what? oomdoctor sweep --vary context=512,1024 -- python serve_once.py "
                "--ctx {context}"
            )
        )
    variables, notes = parse_variables(asked["vary"], asked["category"])
    environment = tuple(_assignment(each) for each in asked["env"])
    check_templates([*command, *(value for _name, value in environment)], [each.name for each in variables])
    if asked["until"] == "":
        raise UsageError(_("--until needs a text"))
    recipe = Recipe(command, environment, asked["timeout"], asked["until"], asked["interval"])
    folder = asked["folder"] or Path("reports") / _name(recipe, tuple(each.name for each in variables))
    spare_inputs(output, [folder / "sweep.records", *command], _("is the sweep's record or of the command"))
    check_folder(output)
    chosen = output_format or default_format(output)
    for note in notes:
        say(note)
    state = State(folder, _measured(recipe, tuple(each.name for each in variables)), variables, asked["fresh"])
    progress = _Progress(variables, asked["on"])
    try:
        progress.resume(state.outcomes(), folder)
        wishes = Wishes(asked["headroom"], asked["on"], asked["repeat"], asked["every"], asked["runs"])
        swept = conduct(variables, recipe, wishes, state, say, progress.begins, progress.ended)
    finally:
        state.close()
    deliver(_rendered(swept, recipe, folder, chosen, text_width(output)), output)
    say(_("runs in {folder}").format(folder=folder))
    if swept.signal is not None:
        sys.exit(128 + swept.signal)
    told = (How.MEASURED, How.OUT_OF_MEMORY)
    if swept.in_trouble or not any(entry.how in told for entry in swept.map.entries.values()):
        sys.exit(1)


def _rendered(swept: Swept, recipe: Recipe, folder: Path, chosen: str, width: int) -> str:
    if chosen == "json":
        from ..sweep.as_json import swept_as_json

        return swept_as_json(swept, recipe, str(folder))
    if chosen == "html":
        from ..sweep.html import swept_as_html

        return swept_as_html(swept, recipe)
    from ..compare.render import as_markdown, as_terminal
    from ..sweep.outline import outline

    found = outline(swept)
    return as_terminal(found, width) if chosen == "terminal" else as_markdown(found)


def _measured(recipe: Recipe, names: tuple[str, ...]) -> Measured:
    from ..collect.nvml_process import read_devices
    from ..sweep.state import Measured

    readings, _why = read_devices()
    cards = tuple((reading.name or "", reading.total_bytes or 0) for reading in readings)
    return Measured(*recipe.shown, names, recipe.until, cards, recipe.digest)


def _assignment(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not name or "\0" in written:
        raise UsageError(_("--env {written} is not NAME=VALUE").format(written=repr(written)))
    return name, value


def _name(recipe: Recipe, names: tuple[str, ...]) -> str:
    """The folder of this command over these variables: called again, it goes on there."""
    words = [word.rpartition("/")[2] for word in recipe.command]
    script = next((word for word in words[1:] if word.endswith((".py", ".sh"))), words[0])
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", script.removesuffix(".py").removesuffix(".sh")).strip("-.")[:40]
    told = hashlib.sha256(json.dumps([recipe.digest, names]).encode()).hexdigest()
    return f"sweep-{plain or 'run'}-{told[:8]}"


class _Progress:
    """A line on standard error for each run, as it ends."""

    def __init__(self, variables: Any, on: str | None) -> None:
        self._variables, self._on = variables, on
        self._run: list[Any] = []

    def resume(self, cells: Iterable[Any], folder: Path) -> None:
        self._run = list(cells)
        count = len(self._run)
        if count:
            before = ngettext(
                "{number} setting was measured before, in {folder}",
                "{number} settings were measured before, in {folder}",
                count,
            )
            say(before.format(number=count, folder=folder))

    def begins(self, cell: Any, number: int) -> None:
        from ..sweep.plan import step_from
        from ..sweep.variables import setting

        near = step_from(self._run, cell)
        self._run.append(cell)
        words = _("run {number}: {setting} …").format(number=number, setting=setting(self._variables, cell))
        for variable, before, now in zip(self._variables, near or cell, cell, strict=True):
            if before != now:
                words = _("run {number}, {variable} {before} -> {now}: {setting} …").format(
                    number=number, variable=variable.name, before=variable.values[before],
                    now=variable.values[now], setting=setting(self._variables, cell),
                )  # fmt: skip
        say(words)

    def ended(self, cell: Any, number: int, attempt: Any) -> None:
        from ..sweep.outline import attempt_text

        say(_("run {number}: {what}").format(number=number, what=attempt_text(attempt, self._on)))
