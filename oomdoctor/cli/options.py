"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..language import LANGUAGE_VARIABLE, LANGUAGES, default_language, speaking

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _speak(context: click.Context, _parameter: click.Parameter, language: str) -> str:
    context.with_resource(speaking(language))
    return language


def language_option(command: _Command) -> _Command:
    """Add `--lang`: all that the command says is in that language."""
    return click.option(
        "--lang",
        type=click.Choice(LANGUAGES),
        default=default_language,
        show_default=False,
        is_eager=True,
        expose_value=False,
        callback=_speak,
        help=f"Language of what is said (zh: Simplified Chinese). Default: {LANGUAGE_VARIABLE}, else en.",
    )(command)
