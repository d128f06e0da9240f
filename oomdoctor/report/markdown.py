"""The report as what one pastes into a ticket: verdict, budget, cause, change, fingerprint, what was not seen.

It keeps to what GitHub, GitLab, Jira and Slack read alike (headings, bold, tables that also read as raw text, fenced
lines), and text from the input stays text in each of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..model.diagnosis import Diagnosis, Misuse
from .bars import BudgetView, in_short
from .text import shorten
from .view import MISUSED, RECKONED, MissingView, ReportView, view_report

_MOST = 4
_OF_NUMBERS = ("size", "share", "reckoned with", "seen", "apart")
_CELL = 60
_SPECIAL = re.compile(r"[\\`*\[\]|~{}]|(?<![^\W_])_|_(?![^\W_])|!(?=\S)")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_MENTION = re.compile(r"(?<!\w)@(?=\w)")
_BLOCK_START = re.compile(r"^(?:[-+>=#]|\d+[.)](?=\s))")


def render(diagnosis: Diagnosis) -> str:
    """The summary as Markdown."""
    view = view_report(diagnosis)
    blocks = [f"## {view.tag}", f"**{_text(view.headline)}**"]
    if view.lead:
        blocks.append(_text(view.lead))
    if view.budget is not None:
        blocks.append(_budget(view.budget))
    if view.other_budgets:
        blocks.append("\n".join(f"- {_text(in_short(bar))}" for bar in view.other_budgets[:_MOST]))
    if len(view.other_budgets) > _MOST:
        blocks.append(f"… and {len(view.other_budgets) - _MOST} more in the report.")
    blocks.extend(_cause(view))
    blocks.extend(_change(view))
    if view.comparisons:
        rows_of = [(_cell(each.what), each.reckoned, each.seen, each.apart) for each in view.comparisons[:_MOST]]
        blocks.append(f"**{RECKONED}**\n\n{_table(('what', 'reckoned with', 'seen', 'apart'), rows_of)}")
    if view.misuses:
        rows = [_misuse(each) for each in view.misuses[:_MOST]]
        if len(view.misuses) > _MOST:
            rows.append(f"- and {len(view.misuses) - _MOST} more")
        blocks.append("\n".join([f"**{MISUSED}**", "", *rows]))
    if view.missing:
        rows = [_gap(each) for each in view.missing[:_MOST]]
        if len(view.missing) > _MOST:
            rows.append(f"- and {len(view.missing) - _MOST} more")
        blocks.append("\n".join(["**Not seen**", "", *rows]))
    blocks.append(f"Fingerprint: {_code(view.fingerprint)} · oomdoctor {view.version}")
    return "\n\n".join(blocks) + "\n"


def _misuse(misuse: Misuse) -> str:
    instead = " ".join(filter(None, (_text(misuse.instead), " or ".join(map(_code, misuse.lines)))))
    return f"- {_code(misuse.what)} ({misuse.outcome}): {_text(misuse.why)}. {instead}".rstrip()


def _gap(missing: MissingView) -> str:
    why = f": {_text(missing.why)}" if missing.why else ""
    how = f" → {_code(missing.how_to_get_it)}" if missing.how_to_get_it else ""
    return f"- {_text(missing.what)}{why}{how}"


def _budget(bar: BudgetView) -> str:
    rows = [(_cell(each.name), each.size, each.share, _cell(each.how_known)) for each in bar.segments]
    if not rows:
        rows.append(("parts not measured", "", "", ""))
    rows.append(("**in all**", f"**{bar.total}**", "", ""))
    if bar.request is not None:
        rows.append(("asked for, did not fit", bar.request.size, "", ""))
    table = _table((_cell(bar.where), "size", "share", "how known"), rows)
    return f"{table}\n\n{bar.over}" if bar.over else table


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table whose columns also line up as raw text, for places that show it so."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    numbers = [column for column, name in enumerate(head) if name in _OF_NUMBERS]

    def line(cells: tuple[str, ...]) -> str:
        padded = (
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = "".join("|" + "-" * (width + 1) + (":" if column in numbers else "-") for column, width in enumerate(widths))
    return "\n".join([line(head), rule + "|", *(line(row) for row in rows)])


def _cause(view: ReportView) -> list[str]:
    cause = view.cause
    if cause is None:
        return [f"**Cause:** {view.no_cause}"]
    scope = f" on {_text(cause.scope)}" if cause.scope else ""
    blocks = [
        f"**Cause ({cause.confidence}):** {_text(cause.title)}{scope} ({_text(cause.rule)}, {_text(cause.cause)})"
    ]
    if cause.owner:
        blocks.append(f"**Held by:** {_text(cause.owner)}")
    return blocks


def _change(view: ReportView) -> list[str]:
    change = view.change
    if change is None:
        return []
    blocks = [f"**Change this:** {_text(change.do)}"]
    for place, line in enumerate(change.lines):
        blocks.extend(["or"] if place else [])
        blocks.append(_fence(line))
    if change.effect:
        blocks.append(change.effect)
    if change.check_first:
        blocks.append(_text(change.check_first))
    if change.note:
        blocks.append(_text(change.note))
    return blocks


def _text(text: str) -> str:
    """Text from the input: nothing in it is markup, a mention or HTML."""
    escaped = _SPECIAL.sub(r"\\\g<0>", text)
    # `<` as an entity: HTML in GitHub and GitLab, and `<!channel>` in Slack, are told apart from text only so.
    escaped = _ENTITY.sub("&amp;", escaped).replace("<", "&lt;")
    # GitHub finds mentions after it has removed backslashes; a word joiner keeps a log line from calling people.
    escaped = _MENTION.sub("@\u2060", escaped)
    return _BLOCK_START.sub(r"\\\g<0>", escaped)


def _cell(text: str) -> str:
    return _text(shorten(text, _CELL))


def _code(text: str) -> str:
    """A code span; one that the text cannot close."""
    fence = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _fence(line: str) -> str:
    fence = "`" * max(3, _longest_run(line) + 1)
    return f"{fence}\n{line}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
