"""Templates of pages other than the report itself, which share one frame: title, answer, tables, footer."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from .. import __version__
from ..language import _, chosen, ngettext, pgettext
from . import svg, templates
from .compiled_pages import TEMPLATES as PAGES
from .html import LANGUAGE_TAGS, content_security_policy
from .tones import PATTERNS


def asset(package: str, name: str) -> str:
    """The text of a file in a package's folder of assets."""
    return (files(package) / "assets" / name).read_text(encoding="utf-8").strip()


def render_page(package: str, template: str, style: str, **shown: object) -> str:
    """The page that a template of the package makes of `shown`, with its look and nothing that may be loaded or run."""
    page = _templates(package).get_template(template)
    policy = content_security_policy(style, ())
    return (
        page.render(version=__version__, svg=svg, patterns=PATTERNS, style=Markup(style), policy=policy, **shown) + "\n"
    )


@cache
def _templates(package: str) -> Environment:
    """The package's own, and beside them `page.html.j2`, which they extend."""
    made = templates.environment(lambda name: asset(__package__ if name == "page.html.j2" else package, name), PAGES)
    made.install_gettext_callables(_, ngettext, newstyle=True, pgettext=pgettext)  # type: ignore[attr-defined]
    made.globals["language_tag"] = lambda: LANGUAGE_TAGS[chosen()]
    return made
