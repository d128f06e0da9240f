"""The table of misuses: what people write that does not do what it says, and what would."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import RuleError
from . import load as knobs_table
from .allocator_settings import ALLOCATOR_VALUES, takes_allocator_value
from .document import Node, Section, Sequence, as_scalar, as_section, read_document
from .load import FRAMEWORKS, Knobs, load_knobs
from .prepared import code, key_of, restored
from .versions import version_key, within

OUTCOMES = ("refused", "ignored", "unsafe")
"""The program does not start with it, nothing reads it, or it does something else than it says."""

TABLE = Path(__file__).with_name("misuses.yaml")
PREPARED = TABLE.with_suffix(".prepared")
"""The table as `scripts/make_prepared.py` leaves it."""
SOURCES = [
    *code("knobs/misuses", "knobs/allocator_settings"),
    *knobs_table.CODE,
    ("knobs.yaml", knobs_table.TABLE),
    ("misuses.yaml", TABLE),
]
"""All that decides what the table comes to."""
RECORDS = frozenset({"oomdoctor.knobs.misuses"})
_ID = re.compile(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)*")


@dataclass(frozen=True)
class KnownMisuse:
    """One thing that people write in vain. Exactly one of `option`, `call`, `assigns` and `variable` is set."""

    id: str
    framework: str
    outcome: str
    why: str
    evidence: tuple[str, ...]
    option: str = ""
    """An option of a launch line, without dashes."""
    call: str = ""
    """A function; with all of `keywords`, if there are any, among its arguments."""
    keywords: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Only with one of these values (of the option, or of the one keyword); with any where there are none."""
    assigns: str = ""
    """What code sets, from its last dots on: `config.max_seq_len`."""
    variable: str = ""
    """A variable of the environment."""
    since: str | None = None
    until: str | None = None
    knob: str = ""
    """What to set instead, and to which value."""
    value: str = ""

    def may_be(self, version: str | None) -> bool:
        """Whether it is so in this version; where the version is unknown, it may be."""
        return version is None or version_key(version) is None or within(version, self.since, self.until)

    @property
    def versions(self) -> str:
        """`up to 4.55`, `from 4.56`; empty for all versions."""
        parts = [f"from {self.since}" if self.since else "", f"up to {self.until}" if self.until else ""]
        return " ".join(filter(None, parts))


ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


@dataclass(frozen=True)
class AllocatorOption:
    """An option of PYTORCH_CUDA_ALLOC_CONF."""

    name: str
    since: str | None
    takes: str = ""
    """What torch demands of its value, one of ALLOCATOR_VALUES; empty where nothing is known of it."""

    def accepts(self, value: tuple[str, ...], least: int) -> bool:
        """False for a value, in words, that torch raises at; `least` is the smallest size of a block, in MiB."""
        return takes_allocator_value(self.takes, value, least)


@dataclass(frozen=True)
class AllocatorConflict:
    """Options without effect where another has a value."""

    options: tuple[str, ...]
    beside: str
    value: str
    why: str


@dataclass(frozen=True)
class Misuses:
    """The whole table."""

    known: tuple[KnownMisuse, ...]
    allocator_options: tuple[AllocatorOption, ...]
    allocator_conflicts: tuple[AllocatorConflict, ...]
    alike: tuple[tuple[str, ...], ...]
    """Knobs for one purpose, one of each framework."""
    variables: frozenset[str] = frozenset()
    """Names of variables that decide about memory or devices."""

    def counterpart(self, knob: str, framework: str, knobs: Knobs) -> str | None:
        """The knob of `framework` that serves the purpose of `knob`."""
        group = next((names for names in self.alike if knob in names), ())
        return next((name for name in group if knobs[name].framework == framework), None)


@lru_cache(maxsize=1)
def load_misuses() -> Misuses:
    """The misuses shipped with oomdoctor. Raises RuleError where the table is wrong."""
    found = restored(PREPARED, key_of(SOURCES), {}, RECORDS)
    return found if isinstance(found, Misuses) else read_misuses(TABLE, load_knobs())


def read_misuses(path: Path, knobs: Knobs) -> Misuses:
    """The misuses in a file. Raises RuleError at the place of the first fault."""
    document = read_document(path).only(_TABLES, "the table of misuses")
    found: dict[str, KnownMisuse] = {}
    for item in document.sequence("misuses"):
        section = as_section(item)
        misuse = _misuse(section, knobs)
        if misuse.id in found:
            section.place.refuse(f"the misuse {misuse.id!r} stands here twice")
        found[misuse.id] = misuse
    if not found:
        raise RuleError("there are no misuses in it", path)
    options = tuple(_allocator_option(as_section(item)) for item in document.sequence("allocator_options"))
    return Misuses(
        tuple(found.values()),
        options,
        tuple(_conflict(as_section(item), options) for item in document.sequence("allocator_conflicts")),
        tuple(_group(item, knobs) for item in document.sequence("alike")),
        frozenset(as_scalar(item).text for item in document.sequence("variables")),
    )


_TABLES = ("misuses", "allocator_options", "allocator_conflicts", "alike", "variables")
_SIGNS = ("option", "call", "assigns", "variable")
_KEYS = ("id", "framework", *_SIGNS, "keywords", "values", "since", "until", "outcome", "why", "instead", "evidence")


def _misuse(section: Section, knobs: Knobs) -> KnownMisuse:
    section.only(_KEYS, "a misuse")
    name, framework = section.text("id"), section.text("framework")
    if not _ID.fullmatch(name):
        section.entries["id"].place.refuse(f"an id is framework.name in lower case; not {name!r}")
    if framework not in FRAMEWORKS:
        section.entries["framework"].place.refuse(f"'framework' is one of {', '.join(FRAMEWORKS)}; not {framework!r}")
    outcome = section.text("outcome")
    if outcome not in OUTCOMES:
        section.entries["outcome"].place.refuse(f"'outcome' is one of {', '.join(OUTCOMES)}; not {outcome!r}")
    signs = {key: section.text(key) for key in _SIGNS if key in section.entries}
    if len(signs) != 1:
        section.place.refuse(f"a misuse is told by exactly one of {', '.join(_SIGNS)}")
    keywords = section.texts("keywords")
    if keywords and "call" not in signs:
        section.place.refuse("keywords belong to a call, and only there")
    evidence = section.texts("evidence")
    if not evidence:
        section.place.refuse("'evidence' says where it was read")
    knob, value = _instead(section.section("instead"), knobs)
    return KnownMisuse(
        id=name,
        framework=framework,
        outcome=outcome,
        why=" ".join(section.text("why").split()),
        evidence=evidence,
        keywords=keywords,
        values=section.texts("values"),
        since=_bound(section, "since"),
        until=_bound(section, "until"),
        knob=knob,
        value=value,
        **signs,
    )


def _instead(section: Section | None, knobs: Knobs) -> tuple[str, str]:
    if section is None:
        return "", ""
    section.only(("knob", "value"), "what to set instead")
    knob, value = section.text("knob"), section.text("value")
    if knob not in knobs:
        section.entries["knob"].place.refuse(f"there is no knob {knob!r}")
    if refusal := knobs[knob].refusal(value, None):
        section.entries["value"].place.refuse(refusal)
    return knob, value


def _bound(section: Section, key: str) -> str | None:
    bound = section.text(key, "") or None
    if bound is not None and version_key(bound) is None:
        section.entries[key].place.refuse(f"{bound!r} is not a version")
    return bound


def _allocator_option(section: Section) -> AllocatorOption:
    section.only(("name", "since", "takes"), "an option of the allocator")
    takes = section.text("takes", "")
    if takes and takes not in ALLOCATOR_VALUES:
        section.entries["takes"].place.refuse(f"'takes' is one of {', '.join(ALLOCATOR_VALUES)}; not {takes!r}")
    return AllocatorOption(section.text("name"), _bound(section, "since"), takes)


def _conflict(section: Section, known: tuple[AllocatorOption, ...]) -> AllocatorConflict:
    section.only(("options", "beside", "why"), "a conflict")
    beside = section.section("beside")
    if beside is None:
        section.place.refuse("'beside' is missing")
    beside.only(("name", "value"), "the option that stands beside it")
    conflict = AllocatorConflict(
        section.texts("options"), beside.text("name"), beside.text("value"), " ".join(section.text("why").split())
    )
    for name in (*conflict.options, conflict.beside):
        if name not in {option.name for option in known}:
            section.place.refuse(f"there is no allocator option {name!r}")
    return conflict


def _group(item: Node, knobs: Knobs) -> tuple[str, ...]:
    if not isinstance(item, Sequence):
        item.place.refuse("a group is a list of knobs")
    names = []
    for entry in item.items:
        scalar = as_scalar(entry)
        if scalar.text not in knobs:
            scalar.place.refuse(f"there is no knob {scalar.text!r}")
        names.append(scalar.text)
    return tuple(names)
