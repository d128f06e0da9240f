"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..language import LANGUAGES, _, choose, chosen, default_language

if TYPE_CHECKING:
    from ..model.diagnosis import Diagnosis

ENGINES = ("transformers", "vllm", "sglang", "llama.cpp")

_CHOSEN = "oomdoctor.language"

_Command = TypeVar("_Command", bound=Callable[..., Any])


class NamedPath(click.Path):
    """A path that is named: an empty word, which an unset variable leaves, is not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Fails for an empty word."""
        if value == "":
            self.fail(_("an empty name, as a variable that is not set leaves it"), param, ctx)
        return super().convert(value, param, ctx)


def _speak(context: click.Context, _parameter: click.Parameter, language: str) -> str:
    # Not as a resource: a context that is refused is never closed, and a generator would switch back at any time.
    context.call_on_close(partial(choose, chosen()))
    choose(language)
    context.meta[_CHOSEN] = language
    return language


def _default() -> str:
    """What the whole line asks for (`main` has looked), else the environment."""
    context = click.get_current_context()
    return str(context.meta.get(_CHOSEN) or context.obj or default_language())


def language_option(command: _Command) -> _Command:
    """Add `--lang`: all that the command says is in that language."""
    return click.option(
        "--lang",
        type=click.Choice(LANGUAGES),
        default=_default,
        show_default=False,
        is_eager=True,
        expose_value=False,
        callback=_speak,
        help="Language of what is said (zh: Simplified Chinese). Default: OOMDOCTOR_LANG, else en.",
    )(command)


def redact_options(command: _Command) -> _Command:
    """Add `--redact` and `--pseudonyms`, given to the command as `redact` and `pseudonyms`."""
    flag = click.option(
        "--redact",
        is_flag=True,
        help="Put pseudonyms for users, hosts, addresses, paths and processes, the same in every report.",
    )
    file = click.option(
        "--pseudonyms",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Where the pseudonyms are kept, for your eyes only; means --redact. Default: "
        "oomdoctor/pseudonyms.json in $XDG_STATE_HOME or ~/.local/state.",
    )
    return flag(file(command))


def redacted(diagnosis: Diagnosis, redact: bool, pseudonyms: Path | None) -> Diagnosis:
    """The diagnosis as these options want it. Raises UsageError where the pseudonyms cannot be kept."""
    if not redact and pseudonyms is None:
        return diagnosis
    from ..diagnose.pseudonyms import default_file, kept_pseudonyms
    from ..diagnose.redaction import with_pseudonyms

    with kept_pseudonyms(pseudonyms or default_file()) as names:
        return with_pseudonyms(diagnosis, names)


def size_option(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Bytes of a size such as `80GiB`."""
    from ..model.units import MIB, parse_size

    if value is None:
        return None
    try:
        size = parse_size(value)
    except ValueError:
        size = -1
    if size < 0:
        raise click.BadParameter(_("{value} is not a size such as 80GiB").format(value=repr(value)), ctx, param)
    if 0 < size < MIB:
        raise click.BadParameter(
            _("{value} is {size} bytes; name the unit, as in 80GiB").format(value=repr(value), size=size), ctx, param
        )
    return size


def shares(ctx: click.Context, param: click.Parameter, value: str) -> tuple[float, float | None]:
    """One share, or two as in `10-20%` and `0.1,0.2`: the least first."""
    words = [word.strip() for word in value.replace(",", "-").split("-")]
    if len(words) == 1 or not all(words):
        return share(ctx, param, value) or 0.0, None
    if len(words) > 2:
        raise click.BadParameter(_("{value} is more than two shares").format(value=repr(value)), ctx, param)
    if words[-1].endswith("%"):
        words = [word if word.endswith("%") else f"{word}%" for word in words]
    least, *more = (share(ctx, param, word) or 0.0 for word in words)
    if more and more[0] <= least:
        raise click.BadParameter(_("{value}: the second share is the larger one").format(value=repr(value)), ctx, param)
    return least, more[0] if more else None


def share(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A number from 0 to 1, of a share such as `15%` or `0.15`."""
    if value is None:
        return None
    try:
        share = float(value.strip().removesuffix("%")) / (100 if value.strip().endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise click.BadParameter(_("{value} is not a share such as 15% or 0.15").format(value=repr(value)), ctx, param)
    if share == 1 and param.name == "headroom":
        raise click.BadParameter(_("a headroom of the whole memory leaves nothing to use"), ctx, param)
    if share == 0 and param.name == "fraction":
        raise click.BadParameter(_("an engine that may take nothing of the card cannot start"), ctx, param)
    return share
