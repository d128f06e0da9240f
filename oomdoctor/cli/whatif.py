"""`oomdoctor whatif`: would the request that failed have been served under another setting, or on another card?"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..language import N_, _, ngettext
from ..language.wrapping import wrap
from .command import SpokenCommand
from .options import language_option
from .output import FormName, is_terminal, print_report, say, text_width
from .progress import progress_bar

if TYPE_CHECKING:
    from ..allocator.simulation.whatif import Answer, Simulation
    from ..facts.simulation import Question
    from ..model.evidence import Evidence
    from ..model.facts import FactSet

SCHEMA = "oomdoctor.whatif/1"
EXIT_NO_ANSWER = 3
_CONTEXT_BYTES = 717 << 20
"""What a context mostly takes at most: where less is to spare, the answer hangs on it."""
LATER = N_("Nothing after that request was recorded: the run may still run out of memory later.")


@click.command(cls=SpokenCommand)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of PYTORCH_CUDA_ALLOC_CONF, like expandable_segments=True. Several are taken together.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="The card's memory, like 40GiB; all else on the card stays as it was, where the input tells it.",
)
@click.option(
    "--device",
    type=click.IntRange(0),
    help="The device. Default: that of the last failure, the lowest of those that failed at once.",
)
@click.option("--format", "output_format", type=FormName(["text", "json"]), default="text", show_default=True)
@language_option
def whatif(
    paths: tuple[str, ...], assignments: tuple[str, ...], memory: str | None, device: int | None, output_format: str
) -> None:
    """Replay the recorded requests through a model of torch's allocator.

    PATH is a memory snapshot or an incident bundle; the log of the run beside it tells how large the card was, and so
    what others took of it. Without --set and --memory the settings are tried that people try most. The model answers
    only where it first reproduces the failure as it was recorded.

    Exit status: 0 answered; 2 wrong usage; 3 there is no answer (the output says why).
    """
    from ..allocator.simulation.settings import AllocatorSettings, split_assignment, with_settings
    from ..allocator.simulation.whatif import CannotSimulate
    from ..facts import derive_facts
    from ..facts.focus import focus
    from ..facts.simulation import SETTINGS
    from ..readers.inputs import read_inputs

    asked = [split_assignment(text) for text in assignments]
    with_settings(AllocatorSettings(), asked)  # what cannot be asked is said before anything is read
    total_bytes = None if memory is None else _size(memory)
    with progress_bar() as bar:
        evidence = read_inputs(paths, progress=bar.reading)
    for record in evidence.inputs:
        if record.status == "refused":
            say(_("{what}: {why}").format(what=record.path, why=record.why))
    evidence = focus(evidence)
    facts = derive_facts(evidence)
    told = _Told()
    try:
        question = _question(evidence, facts, device)
        told.question = question
        with progress_bar() as bar:
            simulation = question.simulation(bar.simulating)
            told.simulation = simulation
            groups = [asked] if asked or memory is not None else [[(name, value)] for _what, name, value in SETTINGS]
            for group in groups:
                settings = with_settings(simulation.settings, group)
                told.answers.append((_words(group, total_bytes), simulation.ask(settings, total_bytes)))
    except CannotSimulate as error:
        told.why_not = str(error)
    print_report(told.as_json() if output_format == "json" else _fitted(told.as_text()))
    if told.why_not:
        sys.exit(EXIT_NO_ANSWER)


def _fitted(text: str) -> str:
    """Within the columns of the terminal; what is piped stays one sentence a line."""
    if not is_terminal(sys.stdout):
        return text
    return "\n".join(row for line in text.split("\n") for row in wrap(line, text_width(None)) or [""])


def _size(text: str) -> int:
    from ..model.units import parse_size

    try:
        size = parse_size(text)
    except ValueError as error:
        raise UsageError(_("--memory is a size like 40GiB; not {text}").format(text=repr(text))) from error
    if size <= 0:
        raise UsageError(_("--memory is a size above 0; not {text}").format(text=repr(text)))
    return size


def _question(evidence: Evidence, facts: FactSet, device: int | None) -> Question:
    from ..allocator.simulation.whatif import CannotSimulate
    from ..facts.allocator import in_order
    from ..facts.simulation import question_of

    devices = sorted({one for snapshot in evidence.snapshots for one in snapshot.devices})
    if not devices:
        raise CannotSimulate(_("No memory snapshot could be read from what was given."))
    found = [question_of(evidence, facts, one) for one in devices if device in (None, one)]
    questions = [one for one in found if one is not None]
    if not questions:
        said = _(
            "No snapshot holds the request that failed: it must be taken when memory runs out, with the allocator's"
            " history on, as `oomdoctor run` does."
        )
        if device is not None:
            said = _(
                "No snapshot of device {device} holds the request that failed: it must be taken when memory runs out,"
                " with the allocator's history on, as `oomdoctor run` does."
            )
        raise CannotSimulate(said.format(device=device))
    by_snapshot = ([one.oom for one in questions if one.snapshot is snapshot] for snapshot in evidence.snapshots)
    last = in_order(by_snapshot)[-1]
    return next(one for one in questions if one.oom is last)


def _words(group: list[tuple[str, str]], total_bytes: int | None) -> str:
    """What was asked, in words."""
    from ..model.units import format_bytes

    settings = ", ".join(f"{name}={value}" for name, value in group)
    if total_bytes is None:
        return _("with {settings}").format(settings=settings)
    said = _("with {settings} on a card of {size}") if settings else _("on a card of {size}")
    return said.format(settings=settings, size=format_bytes(total_bytes))


@dataclass
class _Told:
    """What comes out."""

    question: Question | None = None
    simulation: Simulation | None = None
    answers: list[tuple[str, Answer]] = field(default_factory=list)
    why_not: str = ""

    def as_text(self) -> str:
        lines = []
        if self.question is not None:
            from ..model.units import format_bytes

            oom = self.question.oom
            lines += [
                _("{device}: a request of {size} failed (event {event} of {path}).").format(
                    device=self.question.member,
                    size=format_bytes(oom.requested_bytes),
                    event=f"{oom.event_index:,}",
                    path=self.question.snapshot.path,
                ),
                *self._other_failure(),
                "",
            ]
        if self.why_not:
            return "\n".join([*lines, _("No answer. {why}").format(why=self.why_not)])
        lines += [
            _("{asked}: {answer}").format(asked=words[:1].upper() + words[1:], answer=_sentence(answer))
            for words, answer in self.answers
        ]
        lines += ["", *self._trust(), _(LATER)]
        return "\n".join(lines)

    def _other_failure(self) -> list[str]:
        """That the log is of another failure, where it is."""
        told = None if self.question is None else self.question.told
        if told is None:
            return []
        from ..facts.deriver import device_member
        from ..model.units import format_bytes

        said = _(
            "The log tells of another failure ({size} on {device}, {source}): it does not belong to this snapshot, and"
            " nothing is taken from it; how large the card was is not known."
        )
        device = device_member(told.device, told.word("backend") or "cuda")
        size = format_bytes(told.size("requested_bytes") or 0)
        return [said.format(size=size, device=device, source=told.source)]

    def _trust(self) -> list[str]:
        if self.simulation is None:
            return []
        trust = self.simulation.trust
        if not trust.requests:
            said = _(
                "Under the recorded settings the model fails at the same request, with the same segments; no request"
                " before it was recorded."
            )
        elif trust.exact:
            said = ngettext(
                "Under the recorded settings the model fails at the same request, with the same segments; it serves the"
                " one request before it at the address at which torch did.",
                "Under the recorded settings the model fails at the same request, with the same segments; it serves all"
                " {number} requests before it at the addresses at which torch did.",
                trust.requests,
            )
        else:
            said = ngettext(
                "Under the recorded settings the model fails at the same request, with the same segments; of {number}"
                " request before it, it serves {alike} at the addresses of torch.",
                "Under the recorded settings the model fails at the same request, with the same segments; of {number}"
                " requests before it, it serves {alike} at the addresses of torch.",
                trust.requests,
            )
        check = said.format(number=f"{trust.requests:,}", alike=f"{trust.placed_alike:,}")
        return [check, *trust.notes]

    def as_json(self) -> str:
        oom = None if self.question is None else self.question.oom
        trust = None if self.simulation is None else self.simulation.trust
        told: dict[str, Any] = {
            "schema": SCHEMA,
            "device": None if self.question is None else self.question.member,
            "snapshot": None if self.question is None else self.question.snapshot.path,
            "request_bytes": None if oom is None else oom.requested_bytes,
            "event": None if oom is None else oom.event_index,
            "why_not": self.why_not or None,
            "reproduced": None if trust is None else trust.reproduced,
            "requests": None if trust is None else trust.requests,
            "placed_alike": None if trust is None else trust.placed_alike,
            "notes": [*self._other_failure(), *([] if trust is None else [*trust.notes, _(LATER)])],
            "answers": [
                {
                    "asked": words,
                    "outcome": answer.verdict.value,
                    "spare_bytes": answer.spare_bytes,
                    "missing_bytes": answer.missing_bytes,
                    "failed_request_bytes": answer.failed_request_bytes,
                    "requests_earlier": answer.requests_earlier,
                    "certain": answer.is_certain,
                    "sentence": _sentence(answer),
                }
                for words, answer in self.answers
            ],
        }
        return json.dumps(told, indent=2, ensure_ascii=True)


def _sentence(answer: Answer) -> str:
    from ..allocator.simulation.whatif import Verdict
    from ..model.units import format_bytes

    known, of = answer.missing_bytes is not None, answer.failed_request_bytes
    if answer.verdict is Verdict.SERVED:
        said = _("the request is served, {spare} to spare.")
    elif answer.verdict is Verdict.SERVED_BEFORE_OTHERS and (answer.spare_bytes or 0) >= _CONTEXT_BYTES:
        said = _(
            "the request is served, {spare} to spare for the context and everybody else on that card; if they take"
            " more, it fails."
        )
    elif answer.verdict is Verdict.SERVED_BEFORE_OTHERS:
        said = _(
            "it cannot be told: the request is served if the context and everybody else on that card take {spare} at"
            " most."
        )
    elif answer.verdict is Verdict.FAILS:
        said = _("fails at the same request, {missing} short.") if known else _("fails at the same request.")
    elif answer.verdict is Verdict.FAILS_EARLIER:
        said = _fails_earlier(answer)
    elif answer.verdict is Verdict.FAILS_BY_THEN:
        said = _(
            "the request is not served: the run fails there or earlier. Where, is not known, because the recording does"
            " not show how the memory came to lie that stood when it began."
        )
    elif answer.verdict is Verdict.SERVED_AS_TRIED:
        said = _(
            "it cannot be told for certain: the recording does not show how the memory came to lie that stood when it"
            " began. Left as it was and laid out anew under these settings, the request is served, {spare} to spare or"
            " more."
        )
    elif answer.verdict is Verdict.FAILS_AS_TRIED:
        said = _(
            "it cannot be told for certain: the recording does not show how the memory came to lie that stood when it"
            " began. Left as it was and laid out anew under these settings, the run fails there or earlier."
        )
    elif answer.served_anew:
        said = _(
            "it cannot be told, for it depends on how the memory lay that stood when the recording began: laid out anew"
            " under these settings the request is served, {spare} to spare; left as it was it fails."
        )
    else:
        said = _(
            "it cannot be told, for it depends on how the memory lay that stood when the recording began: left as it"
            " was the request is served, {spare} to spare; laid out anew under these settings it fails."
        )
    sentence = said.format(
        spare=format_bytes(answer.spare_bytes or 0),
        missing=format_bytes(answer.missing_bytes or 0),
        number=f"{answer.requests_earlier:,}",
        size=format_bytes(of or 0),
    )
    if answer.served_before:
        more = _(
            "Of the requests that failed before and were survived, {number} would be served: the program would have"
            " gone another way."
        )
        sentence += " " + more.format(number=answer.served_before)
    if answer.before_others:
        sentence += " " + _(
            "The context (mostly 0.2 to 0.7 GiB) and other processes are not taken off that card: the snapshot does not"
            " tell what they take."
        )
    return sentence


def _fails_earlier(answer: Answer) -> str:
    number, known = answer.requests_earlier, answer.missing_bytes is not None
    if answer.failed_request_bytes is not None and known:
        return ngettext(
            "fails {number} request earlier, at one of {size}, {missing} short.",
            "fails {number} requests earlier, at one of {size}, {missing} short.",
            number,
        )
    if answer.failed_request_bytes is not None:
        return ngettext(
            "fails {number} request earlier, at one of {size}.",
            "fails {number} requests earlier, at one of {size}.",
            number,
        )
    if known:
        return ngettext(
            "fails {number} request earlier, {missing} short.",
            "fails {number} requests earlier, {missing} short.",
            number,
        )
    return ngettext("fails {number} request earlier.", "fails {number} requests earlier.", number)
