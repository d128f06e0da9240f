"""The report as what one pastes into a ticket: verdict, budget, cause, change, fingerprint, what was not seen.

It keeps to what GitHub, GitLab, Jira and Slack show alike. Slack has neither tables nor headings, and Jira often loses
a table that is pasted: figures stand in fenced lines, aligned, at most 80 columns wide, and a title is a bold line.
Text from the input stays text in each of them.
"""

from __future__ import annotations

from ..language import _
from ..model.diagnosis import Diagnosis, Misuse
from .bars import BudgetView
from .markup import code, fence, fenced_table, prose, text_of
from .reckoning import ESTIMATED, MISUSED, RECKONED
from .view import MissingView, ReportView, view_report

_MOST = 4


def render(diagnosis: Diagnosis) -> str:
    """The summary as Markdown."""
    view = view_report(diagnosis)
    blocks = [f"**{text_of(view.tag)}**", prose(view.headline)]
    if view.lead:
        blocks.append(prose(view.lead))
    if view.budget is not None:
        blocks.append(_budget(view.budget))
    if view.others_alike:
        blocks.append("\n".join(f"- {text_of(each.in_short)}" for each in view.others_alike[:_MOST]))
    if len(view.others_alike) > _MOST:
        blocks.append(_("… and {number} more in the report.").format(number=len(view.others_alike) - _MOST))
    blocks.extend(_cause(view))
    blocks.extend(_change(view))
    if view.estimated is not None:
        estimate = view.estimated
        parts = [(each.what, each.estimated, each.observed or _("not known"), each.apart) for each in estimate.rows]
        blocks.append(f"**{_(ESTIMATED)}** ({text_of(estimate.settings)})")
        blocks.append("\n".join(f"- {text_of(each)}" for each in estimate.sentences))
        blocks.append(fenced_table((_("part"), _("estimated"), _("found"), _("apart")), parts))
    if view.comparisons:
        head = (_("what"), _("reckoned with"), _("seen"), _("apart"))
        rows_of = [(each.what, each.reckoned, each.seen, each.apart) for each in view.comparisons[:_MOST]]
        blocks.append(f"**{_(RECKONED)}**\n\n{fenced_table(head, rows_of)}")
    if view.misuses:
        rows = [_misuse(each) for each in view.misuses[:_MOST]]
        if len(view.misuses) > _MOST:
            rows.append("- " + _("and {number} more").format(number=len(view.misuses) - _MOST))
        blocks.append("\n".join([f"**{_(MISUSED)}**", "", *rows]))
    if view.missing:
        rows = [_gap(each) for each in view.missing[:_MOST]]
        if len(view.missing) > _MOST:
            rows.append("- " + _("and {number} more").format(number=len(view.missing) - _MOST))
        blocks.append("\n".join([f"**{_('Not seen')}**", "", *rows]))
    blocks.append(
        _("Fingerprint: {code} · oomdoctor {version}").format(code=code(view.fingerprint), version=view.version)
    )
    return "\n\n".join(blocks) + "\n"


def _misuse(misuse: Misuse) -> str:
    instead = " ".join(filter(None, (prose(misuse.instead), _(" or ").join(map(code, misuse.lines)))))
    return (
        "- "
        + _("{what} ({outcome}): {why}. {instead}")
        .format(what=code(misuse.what), outcome=misuse.outcome, why=prose(misuse.why), instead=instead)
        .rstrip()
    )


def _gap(missing: MissingView) -> str:
    what = text_of(missing.what)
    if missing.why:
        what = _("{what}: {why}").format(what=what, why=text_of(missing.why))
    how = f" → {prose(missing.how_to_get_it)}" if missing.how_to_get_it else ""
    return f"- {what}{how}"


def _budget(bar: BudgetView) -> str:
    rows = [(each.name, each.size, each.share) for each in bar.segments]
    if not rows:
        rows.append((_("parts not measured"), "", ""))
    rows.append((_("in all"), bar.total, ""))
    if bar.request is not None:
        rows.append((_("asked for, did not fit"), bar.request.size, ""))
        if bar.request.short:
            rows.append((_("short by"), bar.request.short, ""))
    parts = fenced_table((bar.where, _("size"), _("share")), rows)
    return f"{parts}\n\n{bar.over}" if bar.over else parts


def _cause(view: ReportView) -> list[str]:
    cause = view.cause
    if cause is None:
        return []
    words = _("**Cause ({confidence}):** {title} ({rule}, {cause})")
    if cause.scope:
        words = _("**Cause ({confidence}):** {title} on {place} ({rule}, {cause})")
    blocks = [
        words.format(
            confidence=cause.sureness,
            title=prose(cause.title),
            place=text_of(cause.scope),
            rule=text_of(cause.rule),
            cause=text_of(cause.cause),
        )
    ]
    if cause.owner:
        blocks.append(_("**Held by:** {owner}").format(owner=prose(cause.owner)))
    return blocks


def _change(view: ReportView) -> list[str]:
    change = view.change
    if change is None:
        return []
    blocks = [_("**Change this:** {what}").format(what=prose(change.do))]
    for place, line in enumerate(change.lines):
        blocks.extend([_("or")] if place else [])
        blocks.append(fence(line))
    if change.effect:
        blocks.append(prose(change.effect))
    if change.check_first:
        blocks.append(prose(change.check_first))
    if change.note:
        blocks.append(prose(change.note))
    return blocks
