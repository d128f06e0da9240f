"""What the model of the allocator says of a remedy that is a setting of it: the facts `simulated.*` in words."""

from __future__ import annotations

from dataclasses import dataclass

from ..language import N_, _
from ..model.diagnosis import NotRemedy, Setting
from ..model.facts import FactSet
from ..model.units import format_bytes

_FACTS_OF = {
    ("torch.expandable_segments", "True"): "simulated.expandable",
    ("torch.max_split_size_mb", "512"): "simulated.max_split",
}
"""The beginning of the facts' names, by knob and value. A value that nobody simulated says nothing."""

_WORDS = {
    "served": N_(
        "Simulated on this run: the request is served, {spare} to spare. What comes after it was not recorded: the run"
        " may fail later."
    ),
    "fails": N_("Simulated on this run: it fails at the same request, {missing} short."),
    "fails-earlier": N_("Simulated on this run: it fails even before that request, {missing} short."),
    "fails-by-then": N_("Simulated on this run: it fails at that request or before it."),
    "served-as-tried": N_(
        "Simulated on this run, it cannot be told for certain: how the memory would lie that stood when the recording"
        " began is not known; in both ways that were tried the request is served, {spare} to spare or more."
    ),
    "fails-as-tried": N_(
        "Simulated on this run, it cannot be told for certain: how the memory would lie that stood when the recording"
        " began is not known; in neither of the two ways that were tried is the request served."
    ),
    "depends": N_(
        "Simulated on this run: whether the request is served, {spare} to spare, depends on how the memory lay that"
        " stood when the recording began."
    ),
}


@dataclass(frozen=True)
class SimulatedEffect:
    """One setting on the recorded run."""

    setting: Setting
    outcome: str
    text: str

    @property
    def enough(self) -> bool | None:
        """Whether the request is served; None where that cannot be told from what was recorded."""
        return {"served": True, "depends": None, "served-as-tried": None, "fails-as-tried": None}.get(
            self.outcome, False
        )

    def not_remedy(self) -> NotRemedy:
        """The setting among what will not help."""
        return NotRemedy(f"{self.setting.knob.partition('.')[2]}:{self.setting.value}", self.text)


def simulated_effect(setting: Setting | None, facts: FactSet, member: str | None) -> SimulatedEffect | None:
    """None where the setting was not simulated on this run."""
    prefix = None if setting is None else _FACTS_OF.get((setting.knob, setting.value))
    if setting is None or prefix is None or member is None:
        return None
    outcome = facts.value(f"{prefix}_outcome", member)
    if outcome is None:
        return None
    sizes = {
        name: "?" if size is None else format_bytes(size)
        for name in ("spare", "missing")
        for size in (facts.size(f"{prefix}_{name}_bytes", member),)
    }
    return SimulatedEffect(setting, str(outcome), _(_WORDS[str(outcome)]).format(**sizes))
