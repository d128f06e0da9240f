"""The report as one HTML file that needs nothing else: no network, readable without scripts, also in a mail preview."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup, escape

from ..language import _, chosen, ngettext, tidy
from ..model.diagnosis import Diagnosis
from . import svg, templates
from .compiled import TEMPLATES
from .interactive import page_data, scripts, words_data
from .map_svg import segment_map
from .reckoning import ESTIMATED, MISUSED, RECKONED
from .stacks_svg import stack_picture
from .text import UNIT
from .tones import PATTERNS, pattern_style
from .view import view_report
from .window_svg import stacked_areas, stacked_lines

LANGUAGE_TAGS = {"en": "en", "zh": "zh-Hans"}
"""The languages as HTML names them."""
_FONTS = {"zh": "chinese.css"}
"""Style sheets that a language needs besides."""


def render(diagnosis: Diagnosis) -> str:
    """The report as an HTML document."""
    view = view_report(diagnosis)
    data = page_data(view.charts, view.windows, view.holdings, view.stacks)
    code = scripts(charts=bool(data))
    style = "\n".join([style_sheet(), *([asset("vendor/uPlot.min.css"), asset("live.css")] if data else [])])
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            r=view,
            data=data or words_data(),
            language_tag=LANGUAGE_TAGS[chosen()],
            scripts=code,
            svg=svg,
            patterns=PATTERNS,
            segment_map=segment_map,
            stacked_areas=stacked_areas,
            stack_picture=stack_picture,
            stacked_lines=stacked_lines,
            misused=_(MISUSED),
            reckoned=_(RECKONED),
            estimated=_(ESTIMATED),
            # Ours, not the input's: besides the pictures and the scripts the one text that is not escaped.
            style=Markup(style),
            policy=content_security_policy(style, code),
        )
        + "\n"
    )


def style_sheet() -> str:
    """The look of every page: colours of both schemes, tables, bars, and what the language needs besides."""
    return "\n".join([asset("report.css"), pattern_style(), *([asset(_FONTS[chosen()])] if chosen() in _FONTS else [])])


def content_security_policy(style: str, scripts: Sequence[str]) -> str:
    """The policy that lets a viewer apply just this style sheet, run just these scripts, and load or send nothing."""
    run = f" script-src {' '.join(map(_digest, scripts))};" if scripts else ""
    return f"default-src 'none'; style-src {_digest(style)};{run} img-src data:; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def environment() -> Environment:
    """The report's templates with what they use."""
    made = templates.environment(asset, TEMPLATES)
    made.filters["prose"] = _prose
    made.filters["sentences"] = lambda texts: _prose(tidy(" ".join(filter(None, texts))))
    made.filters["sentence"] = lambda text: text + _(".")
    # Old texts are escaped by the template like any other; these are ours, and may hold markup.
    made.install_gettext_callables(_, ngettext, newstyle=True)  # type: ignore[attr-defined]
    return made


def _prose(text: str) -> Markup:
    """Text with `names in backticks` as code, and each number on one line with its unit. Everything is escaped."""
    pieces = UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", text).split("`")
    if len(pieces) % 2 == 0:
        # An odd backtick is only a character.
        pieces = ["`".join(pieces)]
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece) for place, piece in enumerate(pieces)
    )


def asset(name: str) -> str:
    """The text of a file in the folder of assets."""
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8").strip()
