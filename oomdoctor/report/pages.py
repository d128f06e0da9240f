"""Templates of pages other than the report itself, which share one frame: title, answer, tables, footer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from ..language import _, chosen, ngettext, pgettext
from .html import LANGUAGE_TAGS


@cache
def page_templates(load: Callable[[str], str]) -> Environment:
    """Templates that `load` reads, and beside them `page.html.j2`, which they extend."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(lambda name: _asset(name) if name == "page.html.j2" else load(name)),
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    environment.install_gettext_callables(_, ngettext, newstyle=True, pgettext=pgettext)  # type: ignore[attr-defined]
    environment.globals["language_tag"] = lambda: LANGUAGE_TAGS[chosen()]
    return environment


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8").strip()
