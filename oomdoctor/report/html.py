"""The report as one HTML file that needs nothing else: no network, no script, readable in a mail preview."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from ..model.diagnosis import Diagnosis
from . import svg
from .view import view_report


def render(diagnosis: Diagnosis) -> str:
    """The report as an HTML document."""
    style = _asset("report.css")
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            r=view_report(diagnosis),
            svg=svg,
            # Ours, not the input's: the one text besides the pictures that is not escaped.
            style=Markup(style),
            policy=content_security_policy(style),
        )
        + "\n"
    )


def content_security_policy(style: str) -> str:
    """The policy that lets a viewer apply exactly this style sheet and load, run or send nothing."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


@cache
def _environment() -> Environment:
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(_asset),
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8").strip()
