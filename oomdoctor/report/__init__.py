"""A diagnosis as HTML, JSON, text for tickets (Markdown, Slack, Jira) or for a terminal."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ..model.diagnosis import Diagnosis

FORMATS = ("html", "json", "markdown", "slack", "jira", "terminal")


def render(diagnosis: Diagnosis, format: str) -> str:
    """The report as text that ends in a newline. Raises ValueError for a format outside FORMATS."""
    if format not in FORMATS:
        raise ValueError(f"no such report format: {format!r} (one of {', '.join(FORMATS)})")
    # A renderer's libraries are loaded when it is asked for: `--format json` needs neither jinja2 nor rich.
    renderer = cast("Callable[[Diagnosis], str]", import_module(f".{format}", __name__).render)
    return renderer(diagnosis)
