"""The table of knobs: which option exists in which version, how it is spelled there, what it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import RuleError
from ..language import N_, _, pgettext
from ..model.diagnosis import Setting
from ..model.units import MIB
from .document import Section, as_section, read_document
from .prepared import code, key_of, restored
from .versions import version_key, within

FRAMEWORKS = (
    *("torch", "cuda", "nccl", "transformers", "deepspeed", "accelerate", "diffusers", "vllm", "sglang", "llama.cpp"),
    *("ollama", "tgi", "lmdeploy", "tensorrt-llm", "ray", "host", "docker", "kubernetes", "slurm", "jax", "tensorflow"),
    *("java", "node", "spark", "redis", "python", "nvidia", "bitsandbytes", "peft", "lm-studio", "mlc", "triton"),
)
COMPONENTS = (
    *("weights", "kv", "activations", "workspace", "fragmentation", "reserve", "optimizer", "gradients"),
    *("host-memory", "graphs", "limit", "diagnosis"),
)
VALUES = ("switch", "integer", "number", "choice", "text", "size")
TABLE = Path(__file__).with_name("knobs.yaml")
PREPARED = TABLE.with_suffix(".prepared")
"""The table as `scripts/make_prepared.py` leaves it."""
CODE = code("errors", "knobs/document", "knobs/load", "knobs/versions")
"""All that decides what the table comes to."""
RECORDS = frozenset({"oomdoctor.knobs.load"})
SYSTEMS = {
    "slurm": N_("Slurm"),
    "docker": N_("docker"),
    "kubernetes": N_("Kubernetes"),
    "systemd": N_("systemd"),
    "shell": N_("a shell"),
}
"""What starts a program and bounds it, with how it is called: `host.orchestrator` says which it was."""
_UNITS = {"G": ("M", "G"), "g": ("m", "g"), "Gi": ("Mi", "Gi"), "GB": ("MB", "GB")}
"""How a spelling writes MiB and GiB, by what it calls a GiB. The last is WSL's, whose GB is one of 2^30 bytes."""
WITHIN = {
    "at least 1": N_("It is at least 1"),
    "share": N_("It is a share of the card's memory, above 0 and up to 1"),
}
"""What a knob may demand of its number, in words."""
_OWN_CHOICE = ("auto", "all", "max", "none", "None", "-1", "")
"""By which programs take their own default, or what fits."""
_ANY_NUMBER = re.compile(r"[+-]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[kKmMgGtT]?")
_ID = re.compile(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)*")


@dataclass(frozen=True)
class Spelling:
    """How a knob is written from one version to another; `{value}` in `form` is the value."""

    form: str
    since: str | None = None
    until: str | None = None
    system: str = ""
    """One of SYSTEMS, where only that one writes it so."""
    unit: str = ""
    """Of a size: how a GiB is written, or KiB for a bare number of them."""

    def lines(self, value: str) -> tuple[str, ...]:
        """What to copy, one line each. A size is given in bytes."""
        return tuple(self.form.replace("{value}", self._sized(value)).splitlines())

    def _sized(self, value: str) -> str:
        if not self.unit:
            return value
        if not value.isdecimal():
            return "<KiB>" if value == "<N>" and self.unit == "KiB" else value + self.unit.removeprefix("KiB")
        if self.unit == "KiB":
            return str(-(-int(value) // 1024))
        mebibytes = -(-int(value) // MIB)  # never below what is asked for
        small, large = _UNITS[self.unit]
        return f"{mebibytes // 1024}{large}" if mebibytes % 1024 == 0 else f"{mebibytes}{small}"

    @property
    def versions(self) -> str:
        """`from 0.11.1`, `up to 0.10.2`, …; empty for all versions."""
        return _span(self.since, self.until)


@dataclass(frozen=True)
class Choices:
    """The values that versions in a range accept."""

    values: tuple[str, ...]
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True)
class Knob:
    """One thing that can be set."""

    id: str
    framework: str
    component: str
    effect: str
    cost: str
    default: str
    takes: str
    """'switch' (no value), 'integer', 'number', 'choice', 'text' or 'size' (in bytes; each spelling has its unit)."""
    spellings: tuple[Spelling, ...]
    """Oldest first; where several serve one version, the first is the one to show."""
    choices: tuple[Choices, ...]
    never: tuple[str, ...]
    """Values that people try and no version accepts."""
    evidence: tuple[str, ...]
    note: str
    within: str = ""
    """What is demanded of its number, one of WITHIN; empty where that is not known."""

    def spelled(self, version: str | None, system: str | None = None) -> tuple[Spelling, ...]:
        """The spelling in a version (none where it does not exist there); all of them where it is unknown.

        Of spellings by system that of this one; all where none is for it, or it is unknown.
        """
        mine = tuple(item for item in self.spellings if item.system and item.system == system)
        if mine:
            return mine
        if version is None or version_key(version) is None:
            return self.spellings
        return tuple(item for item in self.spellings if within(version, item.since, item.until))[:1]

    def refusal(self, value: str, version: str | None) -> str | None:
        """Why the knob does not take a value in a version (in any, where that is None); None where it does.

        `<N>` and the like stand for a value that the reader chooses.
        """
        if value.startswith("<"):
            return None
        if value in self.never:
            return f"no version of {self.framework} accepts {value!r}"
        if self.takes in ("integer", "size") and not re.fullmatch(r"-?[0-9]+", value):
            return f"{value!r} is not a whole number"
        if self.takes == "number" and not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value):
            return f"{value!r} is not a number"
        fitting = [item for item in self.choices if version is None or within(version, item.since, item.until)]
        if fitting and not any(value in item.values for item in fitting):
            return f"{value!r} is not one of {', '.join(fitting[-1].values)}"
        return None

    def no_number(self, value: str) -> str | None:
        """Why a number is asked for and no version can take this for one; None where some may (`32k`, `auto`).

        What a shell still puts in place (`$N`) is not judged.
        """
        if self.takes not in ("integer", "number") or value in _OWN_CHOICE or re.search(r"[$<{]", value):
            return None
        words = value.split()
        if not all(_ANY_NUMBER.fullmatch(word) for word in words):
            kind = N_("It takes a whole number, and {value} is none")
            return (kind if self.takes == "integer" else N_("It takes a number, and {value} is none")).format(
                value=value
            )
        number = _plain_number(value)
        if number is None or not self.within:
            return None
        fits = number >= 1 if self.within == "at least 1" else 0 < number <= 1
        return None if fits else WITHIN[self.within]


def _plain_number(value: str) -> float | None:
    """None for several numbers, and for one with a unit."""
    try:
        return float(value)
    except ValueError:
        return None


class Knobs(Mapping[str, Knob]):
    """All knobs by id."""

    def __init__(self, knobs: Mapping[str, Knob]) -> None:
        self._knobs = dict(knobs)

    def spell(self, knob: str, value: str, version: str | None, system: str | None = None) -> Setting:
        """The setting as this version spells it, or this system where they differ by that.

        Where that is unknown and spellings differ, all of them, and which is for which. Where
        the version has no such option or does not take the value, no lines, and the note says so.
        Raises KeyError for a knob that is not in the table.
        """
        found = self._knobs[knob]
        known = version is not None and version_key(version) is not None
        spellings = found.spelled(version, system)
        if known and not spellings:
            spans = _(" or ").join(item.versions for item in found.spellings)
            said = _("{program} {version} has no such option; it exists {spans}")
            note = said.format(program=found.framework, version=version, spans=spans)
            return Setting(knob, value, (), note)
        if known and (refusal := found.refusal(value, version)):
            return Setting(knob, value, (), f"{found.framework} {version}: {refusal}")
        lines = tuple(dict.fromkeys(line for item in spellings for line in item.lines(value)))
        notes = [_(found.note)] if found.note else []
        systems: tuple[str, ...] = ()
        if len(spellings) > 1 and spellings[0].system:
            systems = tuple(_(SYSTEMS[item.system]) for item in spellings)
        elif not known and len(spellings) > 1:
            notes.insert(0, _("; ").join(_for_versions(found.framework, item, value) for item in spellings))
        elif not known and spellings[0].versions:
            notes.insert(
                0,
                _("For {framework} {versions}").format(framework=found.framework, versions=spellings[0].versions),
            )
        return Setting(knob, value, lines, _(". ").join(notes), systems)

    def __getitem__(self, knob: str) -> Knob:
        return self._knobs[knob]

    def __iter__(self) -> Iterator[str]:
        return iter(self._knobs)

    def __len__(self) -> int:
        return len(self._knobs)


@lru_cache(maxsize=1)
def load_knobs() -> Knobs:
    """The knobs shipped with oomdoctor. Raises RuleError where the table is wrong."""
    found = restored(PREPARED, key_of([*CODE, ("knobs.yaml", TABLE)]), {}, RECORDS)
    return found if isinstance(found, Knobs) else read_knobs(TABLE)


def read_knobs(path: Path) -> Knobs:
    """The knobs in a file. Raises RuleError at the place of the first fault."""
    document = read_document(path).only(("knobs",), "the table of knobs")
    knobs: dict[str, Knob] = {}
    for item in document.sequence("knobs"):
        section = as_section(item)
        knob = _knob(section)
        if knob.id in knobs:
            section.place.refuse(f"the knob {knob.id!r} stands here twice")
        knobs[knob.id] = knob
    if not knobs:
        raise RuleError("there are no knobs in it", path)
    return Knobs(knobs)


_KEYS = (
    *("id", "framework", "component", "effect", "cost", "default", "takes", "spellings", "choices", "never"),
    *("evidence", "note", "within"),
)


def _knob(section: Section) -> Knob:
    section.only(_KEYS, "a knob")
    name = section.text("id")
    if not _ID.fullmatch(name):
        section.entries["id"].place.refuse(f"an id is framework.name in lower case; not {name!r}")
    takes = _one_of(section, "takes", VALUES)
    spellings = tuple(_spelling(as_section(item), takes) for item in section.sequence("spellings"))
    choices = tuple(_choices(as_section(item)) for item in section.sequence("choices"))
    if not spellings:
        section.place.refuse("a knob needs at least one spelling")
    if bool(choices) != (takes == "choice"):
        section.place.refuse("choices belong to a knob that takes a choice, and only there")
    bounds = section.text("within", "")
    if bounds and (bounds not in WITHIN or takes not in ("integer", "number")):
        section.entries["within"].place.refuse(f"'within' is one of {', '.join(WITHIN)}, and of a number")
    return Knob(
        id=name,
        framework=_one_of(section, "framework", FRAMEWORKS),
        component=_one_of(section, "component", COMPONENTS),
        effect=_sentence(section, "effect"),
        cost=_sentence(section, "cost"),
        default=section.text("default", ""),
        takes=takes,
        spellings=spellings,
        choices=choices,
        never=section.texts("never"),
        evidence=section.texts("evidence"),
        note=" ".join(section.text("note", "").split()),
        within=bounds,
    )


def _spelling(section: Section, takes: str) -> Spelling:
    section.only(("form", "since", "until", "system", "unit"), "a spelling")
    form = section.text("form")
    if ("{value}" in form) == (takes == "switch"):
        section.place.refuse("a form holds {value} unless the knob is a switch")
    system, unit = section.text("system", ""), section.text("unit", "")
    if system and system not in SYSTEMS:
        section.entries["system"].place.refuse(f"'system' is one of {', '.join(SYSTEMS)}; not {system!r}")
    if (takes == "size") != (unit in (*_UNITS, "KiB")):
        section.place.refuse(f"the unit of a size is one of {', '.join((*_UNITS, 'KiB'))}, and only a size has one")
    return Spelling(form, *_bounds(section), system, unit)


def _choices(section: Section) -> Choices:
    section.only(("values", "since", "until"), "choices")
    return Choices(section.texts("values"), *_bounds(section))


def _bounds(section: Section) -> tuple[str | None, str | None]:
    since, until = section.text("since", "") or None, section.text("until", "") or None
    for key, bound in (("since", since), ("until", until)):
        if bound is not None and version_key(bound) is None:
            section.entries[key].place.refuse(f"{bound!r} is not a version")
    return since, until


def _one_of(section: Section, key: str, known: tuple[str, ...]) -> str:
    found = section.text(key)
    if found not in known:
        section.entries[key].place.refuse(f"{key!r} is one of {', '.join(known)}; not {found!r}")
    return found


def _sentence(section: Section, key: str) -> str:
    return " ".join(section.text(key).split())


def _for_versions(framework: str, spelling: Spelling, value: str) -> str:
    written = _(" and ").join(spelling.lines(value))
    versions = spelling.versions or _("of any version")
    return _("{lines}: {framework} {versions}").format(lines=written, framework=framework, versions=versions)


def _span(since: str | None, until: str | None) -> str:
    if since and until:
        return _("{since} to {until}").format(since=since, until=until)
    if since:
        return pgettext("versions", "from {since}").format(since=since)
    return _("up to {until}").format(until=until) if until else ""
