"""`oomdoctor check`: what stands in the way of a run, before it begins."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..language import _
from .command import SpokenCommand
from .options import ENGINES, language_option, share, size_option
from .output import FORMATS, FormName, default_format, deliver, is_terminal, say, spare_inputs, text_width

if TYPE_CHECKING:
    from ..preflight.look import Outlook

EXIT_STANDS_IN_THE_WAY = 1
_COUNT = click.IntRange(min=1, max=1 << 30)


@click.command(cls=SpokenCommand, context_settings={"allow_interspersed_args": False})
@click.option(
    "--model",
    help="Whether it fits: a directory, config.json, safetensors or GGUF file, or a name in the hub's cache.",
)
@click.option("--gpu", callback=size_option, metavar="SIZE", help="Memory of a card, where none is seen here: 80GiB.")
@click.option("--context", type=_COUNT, help="Tokens of a request. Default: what the command says.")
@click.option("--concurrency", type=_COUNT, help="Requests at once. Default: what the command says, else one.")
@click.option("--engine", type=click.Choice(ENGINES), help="Default: the command's, else as estimate's.")
@click.option("--dtype", help="What weights are loaded in, where not as stored: bf16, fp16, fp32.")
@click.option("--kv-dtype", help="Of keys and values: fp8, q8_0 …; K,V for two.")
@click.option("--tp", type=click.IntRange(1, 1024), help="Tensor-parallel ranks. Default: what the command says.")
@click.option("--fraction", callback=share, metavar="SHARE", help="Of the card that the engine takes.")
@click.option(
    "--headroom",
    callback=share,
    metavar="SHARE",
    default="10%",
    show_default=True,
    help="What is to be left of the card.",
)
@click.option("--overhead", is_flag=True, help="Start an empty process on each card and measure what it takes.")
@click.option(
    "--format",
    "output_format",
    type=FormName(FORMATS),
    help="Default: by the suffix of --output, else terminal, without colour in a pipe.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@language_option
def check(
    command: tuple[str, ...],
    model: str | None,
    overhead: bool,
    output_format: str | None,
    output: Path | None,
    **asked: Any,
) -> None:
    """Say what stands in the way of COMMAND before it runs; it is not run.

    Looks at the cards and who is on them, host memory and limits, variables, and the words of the command by the
    versions that are installed for it. Nothing is started unless --overhead asks for it.

    Exit status: 0 nothing that was seen stands in the way; 1 something will fail; 2 wrong usage.
    """
    from ..estimate.model_input import model_files
    from ..preflight.look import check_all
    from ..preflight.setup import collect

    chosen = output_format or default_format(output, otherwise="terminal")
    outlook = check_all(collect(command, _asked(model, asked), dict(os.environ)))
    if overhead:
        outlook = _measured(outlook)
    if chosen == "json":
        from ..preflight.as_json import as_json

        text = as_json(outlook)
    elif chosen == "html":
        from ..preflight.html import as_html

        text = as_html(outlook)
    elif chosen == "markdown":
        from ..preflight.show import as_markdown

        text = as_markdown(outlook)
    else:
        from ..preflight.show import as_terminal

        colour = output is None and is_terminal(sys.stdout) and "NO_COLOR" not in os.environ
        text = as_terminal(outlook, colour, text_width(output))
    path = outlook.setup.asked.model
    spare_inputs(output, [*command, *(model_files(path) if path else ())], _("is the model or the command"))
    deliver(text, output)
    if outlook.stands_in_the_way:
        sys.exit(EXIT_STANDS_IN_THE_WAY)


def _asked(model: str | None, asked: dict[str, Any]) -> Any:
    from ..estimate.dtypes import element_type
    from ..preflight.checkpoint import find_model
    from ..preflight.setup import Asked

    path = None
    if model is not None:
        path = find_model(model)
        if path is None:
            raise UsageError(
                _("--model {model}: there is no such file or folder, and no such name in the hub's cache").format(
                    model=model
                )
            )
    if asked["gpu"] is not None and asked["gpu"] <= 0:
        raise UsageError(_("--gpu is the memory of a card, such as 80GiB"))
    kinds = [each.strip() for each in (asked["kv_dtype"] or "").split(",") if each.strip()]
    for kind in (*kinds, *([asked["dtype"]] if asked["dtype"] else [])):
        element_type(kind)
    if len(kinds) > 2:
        raise UsageError(_("--kv-dtype names more than keys and values: {kinds}").format(kinds=repr(asked["kv_dtype"])))
    return Asked(
        model=path,
        context=asked["context"],
        concurrency=asked["concurrency"],
        engine=asked["engine"],
        dtype=asked["dtype"],
        kv_dtype=asked["kv_dtype"],
        tensor_parallel=asked["tp"],
        fraction=asked["fraction"],
        headroom=asked["headroom"],
        gpu_bytes=asked["gpu"],
    )


def _measured(outlook: Outlook) -> Outlook:
    """With what empty processes took, which is kept for estimate."""
    from dataclasses import replace

    from ..preflight.measured import keep_measured
    from ..preflight.overhead import measure_overhead

    found, missing = measure_overhead(outlook.setup, say if is_terminal(sys.stderr) else lambda _sentence: None)
    if found:
        keep_measured(found)
    return replace(outlook, measured=tuple(found), not_measured=tuple(missing))
