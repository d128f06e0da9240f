"""The outlook as one HTML file: no network, no script, both colour schemes."""

from __future__ import annotations

from ..bundle.redact import mask_command
from ..compare.outline import Section
from ..forecast.html import map_style
from ..language import _
from ..model.printable import one_line
from ..report.pages import asset, render_page
from .finding import Level
from .look import Outlook
from .show import HEADS, MARKS, headline, measured_lines, sentence, told

_CLASSES = {Level.FAIL: "fail", Level.WARN: "warn", Level.UNSEEN: "not-seen", Level.FINE: "fine"}
_VERDICTS = {Level.FAIL: "no", Level.WARN: "warn", Level.UNSEEN: "warn", Level.FINE: "fits"}
_ATTENTION = (Level.FAIL, Level.WARN)


def as_html(outlook: Outlook) -> str:
    """The page."""
    worst = next((level for level in MARKS if outlook.of(level)), Level.FINE)
    measured = tuple(one_line(line) for line in measured_lines(outlook))
    command = " ".join(mask_command(outlook.setup.command.given))
    return render_page(
        __package__,
        "check.html.j2",
        f"{map_style()}\n{asset(__package__, 'check.css')}",
        title=one_line(headline(outlook)),
        subject=one_line(command, 160),
        verdict=_VERDICTS[worst],
        groups=[_group(outlook, level) for level in MARKS if outlook.of(level)],
        sections=(Section(_("Measured"), measured),) if measured else (),
    )


def _group(outlook: Outlook, level: Level) -> dict[str, object]:
    return {
        "head": _(HEADS[level]),
        "mark": MARKS[level],
        "class": _CLASSES[level],
        "attention": level in _ATTENTION,
        "found": [
            {
                "seen": told(each),
                "why": sentence(one_line(each.why)) if each.why and level is not Level.UNSEEN else "",
                "do": sentence(one_line(each.do)) if each.do else "",
                "lines": [one_line(line) for line in each.lines],
            }
            for each in outlook.of(level)
        ],
    }
