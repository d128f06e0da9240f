"""The report as what one pastes into a ticket: verdict, budget, cause, change, fingerprint, what was not seen.

It keeps to what GitHub, GitLab, Jira and Slack all have: bold words, code, items, and lines of one width, in which
figures stand aligned, at most 80 columns wide. How each writes them is told in `dialects`; this module's own `render`
is for GitHub and GitLab.
"""

from __future__ import annotations

from ..language import _
from ..model.diagnosis import Diagnosis, Misuse
from .bars import BudgetView
from .dialects import MARKDOWN, Dialect
from .loose import LooseView
from .reckoning import ESTIMATED, MISUSED, RECKONED
from .view import MissingView, ReportView, view_report

_MOST = 4


def render(diagnosis: Diagnosis) -> str:
    """The summary as Markdown."""
    return render_as(MARKDOWN, diagnosis)


def render_as(write: Dialect, diagnosis: Diagnosis) -> str:
    """The summary in the markup of one place."""
    view = view_report(diagnosis)
    blocks = [write.strong(write.text(view.tag)), write.prose(view.headline)]
    if view.lead:
        blocks.append(write.prose(view.lead))
    if view.budget is not None:
        blocks.append(_budget(write, view.budget))
    elif view.loose is not None:
        blocks.extend(_loose(write, view.loose))
    if view.others_alike:
        blocks.append("\n".join(f"- {write.text(each.in_short)}" for each in view.others_alike[:_MOST]))
    if len(view.others_alike) > _MOST:
        blocks.append(_("… and {number} more in the report.").format(number=len(view.others_alike) - _MOST))
    blocks.extend(_cause(write, view))
    blocks.extend(_change(write, view))
    if view.estimated is not None:
        estimate = view.estimated
        parts = [(each.what, each.estimated, each.observed or _("not known"), each.apart) for each in estimate.rows]
        blocks.append(f"{write.strong(_(ESTIMATED))} ({write.text(estimate.settings)})")
        blocks.append("\n".join(f"- {write.text(each)}" for each in estimate.sentences))
        blocks.append(write.figures((_("part"), _("estimated"), _("found"), _("apart")), parts))
    if view.comparisons:
        head = (_("what"), _("reckoned with"), _("seen"), _("apart"))
        rows_of = [(each.what, each.reckoned, each.seen, each.apart) for each in view.comparisons[:_MOST]]
        blocks.append(f"{write.strong(_(RECKONED))}\n\n{write.figures(head, rows_of)}")
    if view.misuses:
        rows = [_misuse(write, each) for each in view.misuses[:_MOST]]
        if len(view.misuses) > _MOST:
            rows.append("- " + _("and {number} more").format(number=len(view.misuses) - _MOST))
        blocks.append("\n".join([write.strong(_(MISUSED)), "", *rows]))
    if view.missing:
        rows = [_gap(write, each) for each in view.missing[:_MOST]]
        if len(view.missing) > _MOST:
            rows.append("- " + _("and {number} more").format(number=len(view.missing) - _MOST))
        blocks.append("\n".join([write.strong(_("Not seen")), "", *rows]))
    blocks.append(
        _("Fingerprint: {code} · oomdoctor {version}").format(code=write.code(view.fingerprint), version=view.version)
    )
    return "\n\n".join(blocks) + "\n"


def _misuse(write: Dialect, misuse: Misuse) -> str:
    instead = " ".join(filter(None, (write.prose(misuse.instead), _(" or ").join(map(write.code, misuse.lines)))))
    return (
        "- "
        + _("{what} ({outcome}): {why}. {instead}")
        .format(what=write.code(misuse.what), outcome=misuse.outcome, why=write.prose(misuse.why), instead=instead)
        .rstrip()
    )


def _gap(write: Dialect, missing: MissingView) -> str:
    what = write.text(missing.what)
    if missing.why:
        what = _("{what}: {why}").format(what=what, why=write.text(missing.why))
    how = f" → {write.prose(missing.how_to_get_it)}" if missing.how_to_get_it else ""
    return f"- {what}{how}"


def _budget(write: Dialect, bar: BudgetView) -> str:
    rows = [(each.name, each.size, each.share) for each in bar.segments]
    if not rows:
        rows.append((_("parts not measured"), "", ""))
    rows.append((_("in all"), bar.total, ""))
    if bar.request is not None:
        rows.append((_("asked for, did not fit"), bar.request.size, ""))
        if bar.request.short:
            rows.append((_("short by"), bar.request.short, ""))
    parts = write.figures((bar.where, _("size"), _("share")), rows)
    return "\n\n".join(filter(None, (parts, bar.usable, bar.over)))


def _loose(write: Dialect, loose: LooseView) -> list[str]:
    rows = [(each.name, each.size) for each in loose.figures]
    figures = [write.figures((_("what was told"), _("size")), rows)] if rows else []
    return [*figures, *([write.prose(loose.said)] if loose.said else [])]


def _cause(write: Dialect, view: ReportView) -> list[str]:
    cause = view.cause
    if cause is None:
        return []
    words = _("**Cause ({confidence}):** {title} ({rule}, {cause})")
    if cause.scope:
        words = _("**Cause ({confidence}):** {title} on {place} ({rule}, {cause})")
    blocks = [
        write.sentence(words).format(
            confidence=cause.sureness,
            title=write.prose(cause.title),
            place=write.text(cause.scope),
            rule=write.text(cause.rule),
            cause=write.text(cause.cause),
        )
    ]
    if cause.owner:
        blocks.append(write.sentence(_("**Held by:** {owner}")).format(owner=write.prose(cause.owner)))
    return blocks


def _change(write: Dialect, view: ReportView) -> list[str]:
    change = view.change
    if change is None:
        return []
    blocks = [write.sentence(_("**Change this:** {what}")).format(what=write.prose(change.do))]
    for place, line in enumerate(change.lines):
        whose = [_("{name}:").format(name=change.systems[place])] if change.systems else []
        blocks.extend(whose or ([_("or")] if place else []))
        blocks.append(write.fence(line))
    if change.effect:
        blocks.append(write.prose(change.effect))
    if change.check_first:
        blocks.append(write.prose(change.check_first))
    if change.note:
        blocks.append(write.prose(change.note))
    return blocks
