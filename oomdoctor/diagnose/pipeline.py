"""The one pipeline that `analyze` and `run` share."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from ..errors import OomdoctorError
from ..estimate.kept import kept_model
from ..estimate.model_input import Model, read_model
from ..facts import derive_all
from ..facts.activity import ended_of_something_else
from ..facts.budget import budgets, with_moments
from ..facts.chronology import BY_TIME, chronological
from ..facts.courses import all_courses
from ..facts.devices import device_looks
from ..facts.episodes import told_by_times
from ..facts.failed_requests import failed_requests
from ..facts.focus import focus
from ..facts.holdings import holdings
from ..facts.incidents import find_incidents
from ..facts.misuses import find_misuses
from ..facts.moments import moments
from ..facts.quoted import as_possible, as_quoted, without_documents
from ..facts.reconciliation import reconcile
from ..facts.recorded_window import recorded_windows
from ..facts.series import all_series
from ..facts.simulation import Tell
from ..facts.stack_trees import stack_trees
from ..facts.told import ONLY_TOLD, with_told_failure
from ..language import LANGUAGES, N_, _, chosen
from ..model.diagnosis import Diagnosis, Environment, Verdict
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..playbook.load import Playbook, load_playbook, rule_directories
from ..playbook.match import match_rules
from ..playbook.precedents import by_precedent
from ..readers.inputs import Progress, read_inputs
from .explained import explained, of_each_rank
from .figures import figures_are_set_aside, notes_on_figures
from .looks import notes_on_looks
from .masking import masked
from .missing import missing_evidence
from .own_command import missing_with_own_command, with_own_command
from .subject import told_of_one_place
from .verdict import decide, fingerprint, summarise, why

_NOTHING = N_("Nothing is estimated for the model: {why}")


def diagnose(
    paths: Sequence[str | Path],
    *,
    command: str | None = None,
    card_bytes: int | None = None,
    rules: Sequence[Path] = (),
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
    simulating: Tell | None = None,
    now_seconds: float | None = None,
    model: Path | None = None,
) -> Diagnosis:
    """Read the inputs and say what they mean.

    `command` is the launch line where the input lacks it, `card_bytes` the size of the card;
    `rules` are directories beside the shipped playbook;
    `stdin` is what `-` names; `progress` is told (input, bytes read so far, all its bytes where known), `simulating`
    (input, steps simulated so far, all steps);
    `model` is the model that ran: a directory, a config.json or a GGUF file.
    Never raises for a bad input: it is `refused` in the result, with the reason.
    """
    evidence = read_inputs(paths, stdin=stdin, command=command, card_bytes=card_bytes, progress=progress)
    not_needed = ("cases", *(language for language in LANGUAGES if language != chosen()))
    playbook = load_playbook(rule_directories(rules), without=not_needed)
    now = time.time() if now_seconds is None else now_seconds
    return diagnose_evidence(evidence, playbook, now, model, simulating)


def diagnose_evidence(
    evidence: Evidence,
    playbook: Playbook,
    now_seconds: float,
    model: Path | None = None,
    simulating: Tell | None = None,
) -> Diagnosis:
    """The diagnosis of evidence that is already read."""
    evidence, quoted = without_documents(evidence)
    evidence, order = chronological(evidence)
    if not order and told_by_times(evidence):
        order = (_(BY_TIME),)
    evidence, headline = with_told_failure(evidence)
    known, refused = _model(model, evidence)
    facts, reckoned = derive_all(evidence, known, simulating)
    told = focus(evidence)
    facts, findings = of_each_rank(told, facts, match_rules(playbook, facts), playbook)
    incidents, in_focus = find_incidents(evidence), find_incidents(told)
    in_focus = told_of_one_place(findings, in_focus, facts)[1]
    findings, incidents = told_of_one_place(findings, incidents, facts)
    if quoted:
        findings, incidents, in_focus = as_possible(findings), as_quoted(incidents), as_quoted(in_focus)
    device_budgets = () if quoted else with_moments(budgets(evidence, facts), in_focus)
    verdict = decide(findings, in_focus, facts, evidence.inputs)
    if not quoted:
        incidents = explained(evidence, incidents, in_focus, findings, verdict, playbook, decide)
    in_words = not (quoted or evidence.snapshots or evidence.runs)  # as the precedents are
    in_words = in_words and not figures_are_set_aside(evidence)
    unknown_end = verdict is Verdict.UNDETERMINED and not in_focus and not ended_of_something_else(told)
    if in_words and (verdict is Verdict.OUT_OF_MEMORY or unknown_end):
        findings = (*findings, *by_precedent(playbook, facts, findings))
    findings = with_own_command(findings, facts)
    windows = recorded_windows(evidence)
    diagnosis = Diagnosis(
        verdict=verdict,
        summary=summarise(verdict, findings, incidents, device_budgets, facts, evidence.inputs, in_focus),
        fingerprint=fingerprint(findings, incidents, facts),
        findings=findings,
        budgets=device_budgets,
        incidents=incidents,
        missing=missing_with_own_command(missing_evidence(told, facts), facts),
        facts=facts,
        inputs=evidence.inputs,
        environment=_environment(told, facts),
        series=all_series(evidence),
        courses=all_courses(evidence, windows, device_budgets),
        excerpts=evidence.excerpts,
        holdings=holdings(evidence, facts, device_budgets),
        misuses=find_misuses(told, facts),
        comparisons=() if quoted else reconcile(told, facts),
        estimated=None if quoted else reckoned.estimated,
        failed_requests=() if quoted else failed_requests(evidence, facts),
        windows=windows,
        stack_trees=stack_trees(evidence),
        moments=moments(evidence, in_focus),
        devices=device_looks(evidence),
        why=why(verdict, findings),
        notes=(
            *order,
            *refused,
            *(() if headline is None else (_(ONLY_TOLD).format(source=headline.source),)),
            *(() if reckoned.why_not is None or quoted else (_(_NOTHING).format(why=reckoned.why_not),)),
            *notes_on_looks(told, facts),
            *notes_on_figures(told, facts, findings),
            *(_("A rule was left out: {value}").format(value=each) for each in playbook.problems),
        ),
        made_seconds=now_seconds,
    )
    return masked(diagnosis)


def _model(path: Path | None, evidence: Evidence) -> tuple[Model | None, tuple[str, ...]]:
    """The model that is named, else the one that a run kept; or why it tells nothing to estimate with."""
    kept = next((run.model for run in evidence.runs if run.model is not None), None)
    try:
        if path is not None:
            return read_model(path), ()
        return (None if kept is None else kept_model(kept)), ()
    except OomdoctorError as error:
        return None, (_(_NOTHING).format(why=error),)


def _environment(evidence: Evidence, facts: FactSet) -> Environment:
    if not evidence.runs:
        versions = {
            name: str(facts.value(fact))
            for name, fact in (("torch", "torch.version"), (str(facts.value("engine.name")), "engine.version"))
            if facts.value(fact) is not None
        }
        return Environment(command=evidence.command, versions=versions)
    run = evidence.runs[0]
    return Environment(
        command=evidence.command,
        working_directory=run.working_directory,
        started_seconds=run.started_seconds,
        ended_seconds=run.ended_seconds,
        ended_how=_ended_how(run.exit_status, run.signal),
        versions=run.versions,
        host=run.host,
        variables=run.variables,
    )


def _ended_how(status: int | None, signal_number: int | None) -> str | None:
    if signal_number is not None:
        try:
            return _("killed by {name}").format(name=signal.Signals(signal_number).name)
        except ValueError:
            return _("killed by signal {signal_number}").format(signal_number=signal_number)
    return None if status is None else _("exit status {status}").format(status=status)
