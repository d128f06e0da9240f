"""Rules against facts: the findings, best first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..knobs.load import Knobs, load_knobs
from ..language import _, chosen, tidy
from ..model.diagnosis import Confidence, Effect, EvidenceItem, Finding, NotRemedy, Remedy, Setting, ToConfirm
from ..model.facts import FactSet, FactSpec, FactType, Scope
from .causes import FAMILY_OF
from .depends import depends_on
from .evaluate import Outcome, RuleOutcome, evaluate_rule, lookup_for
from .expression import Expression
from .going_on import cache_spared, known_now, next_value, peak_spared, share_left
from .load import Playbook
from .rule import KnobValue, Rule, RuleRemedy, Translation
from .simulated import SimulatedEffect, simulated_effect
from .template import Template, format_raw
from .terms import Lookup

HEADROOM = 1.1
"""A remedy is enough when it frees the shortfall and a tenth more."""
_ONE_REQUEST_DECIDES = frozenset(
    cause
    for cause, family in FAMILY_OF.items()
    if family in ("activation", "neighbour", "multi-gpu", "overhead", "limits", "host")
    and cause not in ("graph-capture", "lora-adapters", "greedy-reservation", "host-leak")
)
"""Causes of which the request that failed says how much is lacking."""
_MORE_TO_COME = ("load", "init", "kv-allocation", "graph-capture", "optimizer-step", "profile")
"""Phases in which further requests follow the one that failed, before anything is given back."""
_MEASURED_BY_BYTES = (Effect.FREES, Effect.SPARES, Effect.LEAVES)


def match_rules(playbook: Playbook, facts: FactSet) -> tuple[Finding, ...]:
    """Try every rule on every member of its scope; findings by confidence, then by the bytes they explain.

    A finding that another one masks comes right after it, or later. Texts are in the language in use, where the rule
    has them in it.
    """
    found = []
    for rule in playbook.rules:
        for outcome in outcomes(rule, facts):
            if outcome.outcome is Outcome.MATCHED:
                found.append((rule, finding_of(outcome, facts)))
    return _ranked(found)


def finding_of(outcome: RuleOutcome, facts: FactSet) -> Finding:
    """The texts of a rule that matched, filled. Raises ValueError where it did not match."""
    return _Writer(outcome, facts).finding()


def outcomes(rule: Rule, facts: FactSet) -> Iterator[RuleOutcome]:
    """How a rule fares on each member of its scope."""
    members = (None,) if rule.scope is Scope.INCIDENT else facts.members(rule.scope)
    for member in members:
        yield evaluate_rule(rule, facts, member)


def _ranked(found: Sequence[tuple[Rule, Finding]]) -> tuple[Finding, ...]:
    """Order by confidence and bytes, each finding after those that mask it and are no less sure.

    A guess at the cause does not push aside what is confirmed.
    """
    maskers: dict[str, list[int]] = {}
    waiting = sorted(found, key=lambda pair: (pair[1].confidence.rank, -(pair[1].explains_bytes or 0)))
    placed: list[Finding] = []
    visiting: set[int] = set()

    for number, waits in enumerate(waiting):
        for masked in waits[0].masks:
            maskers.setdefault(masked, []).append(number)

    def place(number: int) -> None:
        if number in visiting:
            return
        visiting.add(number)
        finding = waiting[number][1]
        for other in maskers.get(finding.rule, ()):
            masking = waiting[other][1]
            if _same_place(masking, finding) and masking.confidence.rank <= finding.confidence.rank:
                place(other)
        placed.append(finding)

    for number in range(len(waiting)):
        place(number)
    return tuple(placed)


def _same_place(one: Finding, other: Finding) -> bool:
    return not one.scope or not other.scope or one.scope == other.scope


def _works_on_the_largest_request(remedy: RuleRemedy) -> bool:
    """Whether, in a rule about the whole incident, it spares part of the failed request, or leaves room for it."""
    if remedy.frees is None:
        return remedy.set is not None and remedy.set.go == "down"
    return "oom.largest_request_bytes" in remedy.frees.names


def _order(each: tuple[Remedy, bool]) -> tuple[int, bool]:
    """What is enough comes first, what is not enough last, and what surely applies before what waits for evidence.

    Else the order of the rule, which is that of the effort.
    """
    remedy, waits = each
    return (1 if remedy.enough is None else 0 if remedy.enough else 2), waits


def _unmeasured(remedies: Sequence[Remedy]) -> bool:
    """Whether some change frees bytes of which neither the number is known nor whether they are enough."""
    return any(
        each.frees_bytes is None
        and each.enough is None
        and each.simulated is None
        and each.effect not in (Effect.COUNTS, Effect.FINDS_OUT)
        for each in remedies
    )


_WATCHED_RUN = "oomdoctor run -- <your command>"


def _watches(asked: Sequence[ToConfirm]) -> bool:
    return any("oomdoctor run" in item.command for item in asked)


class _Writer:
    """Fills the texts of one rule that matched."""

    def __init__(self, outcome: RuleOutcome, facts: FactSet) -> None:
        self.outcome, self.rule, self.member, self.facts = outcome, outcome.rule, outcome.member, facts
        self.words = self.rule.translations.get(chosen(), Translation())
        self.lookup: Lookup = lookup_for(facts, self.member)

    def finding(self) -> Finding:
        rule, words = self.rule, self.words
        if self.outcome.confidence is None:
            raise ValueError(f"{rule.id} did not match")
        owner = words.owner or rule.owner
        remedies = tuple(each for each, _waits in sorted(self._remedies(), key=_order))
        return Finding(
            rule=rule.id,
            cause=rule.cause,
            family=FAMILY_OF[rule.cause],
            title=words.title or rule.title,
            confidence=self.outcome.confidence,
            scope={} if self.member is None else {rule.scope.value: self.member},
            explain=self._fill(words.explain or rule.explain),
            owner=self._fill(owner) if owner is not None and owner.complete(self.lookup) else None,
            evidence=self._evidence(),
            remedies=remedies,
            not_remedies=(*self._simulated_in_vain(), *self._not_remedies()),
            to_confirm=self._to_confirm(remedies),
            explains_bytes=self._bytes(rule.explains),
            degraded=rule.degraded is not None and rule.degraded.value(self.lookup) is True,
        )

    def _to_confirm(self, remedies: Sequence[Remedy]) -> tuple[ToConfirm, ...]:
        """What would make it sure, unless it is, and what would tell the bytes; not a run that the input already is."""
        sure = self.outcome.confidence is Confidence.CONFIRMED
        asked = () if sure else self.words.to_confirm or self.rule.to_confirm
        found = [ToConfirm(item.what, item.command) for item in asked]
        if _unmeasured(remedies) and not _watches(found):
            found += self._what_would_tell()
        watched = self.facts.value("exit.recorded") is not None
        return tuple(item for item in found if not (watched and item.command == _WATCHED_RUN))

    def _what_would_tell(self) -> tuple[ToConfirm, ...]:
        """The evidence for the bytes of the changes of which they are not known."""
        if FAMILY_OF[self.rule.cause] == "not-oom":
            return ()
        what = _("How much each change frees: who holds the memory at its peak, and how much that is")
        return (ToConfirm(what, _WATCHED_RUN),)

    def _fill(self, template: Template) -> str:
        return tidy(template.fill(self.lookup, _("unknown")))

    def _bytes(self, expression: Expression | None) -> int | None:
        value = None if expression is None else expression.value(self.lookup)
        return None if value is None or isinstance(value, str) else round(value)

    def _evidence(self) -> tuple[EvidenceItem, ...]:
        """What the conditions stood on, each fact once; the strongest conditions first.

        Conditions of a list are alternatives, and those of a stronger one ask more of the same facts: a fact that one
        of them stands on falls short of another, and does not speak against the finding. Nor does one of a
        condition beside which another of its list holds.
        """
        found: dict[str, EvidenceItem] = {}
        strength = ("confirms", "supports", "when")
        held = {step.role for step in self.outcome.trace if step.value}
        speaking = [
            step
            for step in self.outcome.trace
            if step.role in strength and step.value is not None and (step.value or step.role not in held)
        ]
        for step in sorted(speaking, key=lambda step: (not step.value, strength.index(step.role))):
            speaks = "for" if step.value else "against"
            for name in step.condition.evaluate(self.lookup).facts:
                fact, spec = self.facts.find(name, self.member), self.facts.specs[name]
                if fact is not None:
                    item = EvidenceItem(
                        name, fact.value, spec.type.value, str(fact.source), speaks, spec.meaning, step.condition.text
                    )
                    found.setdefault(name, item)
        return tuple(found.values())

    def _not_remedies(self) -> Iterator[NotRemedy]:
        """Those of which nothing that the reason needs is unknown."""
        for original, item in zip(
            self.rule.not_remedies, self.words.not_remedies or self.rule.not_remedies, strict=True
        ):
            applies = original.applies is None or original.applies.value(self.lookup) is not False
            if applies and item.why.complete(self.lookup):
                yield NotRemedy(item.what, self._fill(item.why))

    def _applying(self) -> Iterator[tuple[RuleRemedy, Setting | None, SimulatedEffect | None]]:
        """The remedies that may apply here, each with its setting and what the model says of it."""
        for remedy in self.rule.remedies:
            applies = True if remedy.applies is None else remedy.applies.value(self.lookup)
            setting = self._setting(remedy.set)
            if applies is not False and (setting is None or setting.lines):
                yield remedy, setting, simulated_effect(setting, self.facts, self.member)

    def _simulated_in_vain(self) -> Iterator[NotRemedy]:
        """Settings of which the model says that the request fails all the same."""
        for _remedy, _setting, effect in self._applying():
            if effect is not None and effect.enough is False:
                yield effect.not_remedy()

    def _remedies(self) -> Iterator[tuple[Remedy, bool]]:
        """Each with whether it depends on something that was not seen, a version aside."""
        for remedy, setting, effect in self._applying():
            if effect is not None and effect.enough is False:
                continue
            frees, does = self._bytes(remedy.frees), remedy.effect
            if frees is None and setting is not None:
                left = share_left(setting.knob, setting.value, self.facts)
                spared = cache_spared(setting.knob, setting.value, self.facts)
                peak = peak_spared(setting.knob, setting.value, self.facts)
                frees = next((found for found in (left, spared, peak) if found is not None), None)
                does = Effect.LEAVES if left is not None else Effect.SPARES if spared is not None else does
            unseen = self._undecided(remedy)
            enough = self._enough(remedy, frees) if effect is None else effect.enough
            made = Remedy(
                id=remedy.id,
                do=self._fill(self.words.do.get(remedy.id, remedy.do)),
                set=setting,
                frees_bytes=frees,
                enough=enough,
                cost=self.words.cost.get(remedy.id, remedy.cost),
                source=remedy.source,
                check_first=tuple(spec.meaning for spec in unseen),
                effect=does,
                needed_bytes=self._needed(remedy) if frees is None and enough is None else None,
                simulated=None if effect is None else effect.text,
                depends_on=depends_on(remedy, self.lookup, self.facts.specs)
                if frees is None and effect is None
                else (),
            )
            yield made, any(spec.type is not FactType.VERSION for spec in unseen)

    def _undecided(self, remedy: RuleRemedy) -> tuple[FactSpec, ...]:
        """The facts that would decide whether the remedy applies, and are not known."""
        if remedy.applies is None:
            return ()
        decided = remedy.applies.evaluate(self.lookup)
        if decided.value is not None:
            return ()
        return tuple(self.facts.specs[name] for name, value in decided.facts.items() if value is None)

    def _enough(self, remedy: RuleRemedy, frees: int | None) -> bool | None:
        if remedy.enough is not None:
            value = remedy.enough.value(self.lookup)
            return None if value is None else bool(value)
        shortfall = self.facts.value("oom.shortfall_bytes", self.member)
        if shortfall is None and _works_on_the_largest_request(remedy):
            shortfall = self.facts.value("oom.largest_shortfall_bytes")
        if frees is None or shortfall is None or isinstance(shortfall, str):
            return None
        return frees > 0 and frees >= HEADROOM * shortfall

    def _needed(self, remedy: RuleRemedy) -> int | None:
        """The least that a change must free, or not ask for, to be enough: what was lacking and the headroom.

        None where the failure is one of many requests still to come (loading, a store that grows), and for changes
        that lift a cap, join what is idle or serve an engine's pool: these are not measured by that.
        """
        if self.rule.cause not in _ONE_REQUEST_DECIDES or remedy.effect not in _MEASURED_BY_BYTES:
            return None
        if self.facts.value("activity.phase") in _MORE_TO_COME:
            return None
        named = [("oom.shortfall_bytes", self.member), ("oom.largest_shortfall_bytes", None)]
        if FAMILY_OF[self.rule.cause] == "host":
            named.insert(0, ("host.shortfall_bytes", None))
        known = (self.facts.value(name, member) for name, member in named)
        lacking = next((found for found in known if found is not None), None)
        return round(HEADROOM * lacking) if isinstance(lacking, int) and lacking > 0 else None

    def _setting(self, wanted: KnobValue | None) -> Setting | None:
        """The setting as the version seen spells it; one without lines does not exist there."""
        knobs = load_knobs()
        if wanted is None or wanted.knob not in knobs:
            return None
        asked = wanted.value.fill(self.lookup, "<N>", format_raw) or "<N>"
        value = next_value(asked, wanted.go, known_now(wanted.knob, self.facts))
        if value is None:
            return Setting(wanted.knob, asked, (), "")  # it is set so already, and there is no further step
        system = self.facts.value("host.orchestrator")
        return knobs.spell(
            wanted.knob, value, self._version(knobs, wanted.knob), None if system is None else str(system)
        )

    def _version(self, knobs: Knobs, knob: str) -> str | None:
        framework = knobs[knob].framework
        if framework == "torch":
            value = self.facts.value("torch.version")
        elif self.facts.value("engine.name") == framework:
            value = self.facts.value("engine.version")
        else:
            return None
        return None if value is None else str(value)
