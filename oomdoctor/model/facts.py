"""A fact: one named, typed value with its source. What is not known has no fact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Union

from .source import Source

FactValue = Union[int, float, str, bool]


class FactType(str, Enum):
    """What a fact's value is; the type is also its unit. Values of different types never mix in arithmetic."""

    BYTES = "bytes"
    TOKENS = "tokens"
    SECONDS = "seconds"
    RATIO = "ratio"
    COUNT = "count"
    TEXT = "text"
    VERSION = "version"
    FLAG = "flag"
    NAME = "name"
    """One of a named set (FactSpec.names)."""


class Scope(str, Enum):
    """What a fact is about. A rule is tried for each member of its scope."""

    INCIDENT = "incident"
    DEVICE = "device"
    RANK = "rank"
    PROCESS = "process"


@dataclass(frozen=True)
class FactSpec:
    """The declaration of a fact: nothing outside the registry can be named in a rule."""

    name: str
    type: FactType
    scope: Scope
    meaning: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fact:
    """One value. `member` is `cuda:0`, `rank:3`, `pid:4711`; None in the incident's scope."""

    name: str
    value: FactValue
    source: Source
    member: str | None = None

    @property
    def key(self) -> str:
        """`name` or `name@member`, as in the report's JSON."""
        return self.name if self.member is None else f"{self.name}@{self.member}"


class FactSet(Mapping[str, Fact]):
    """Facts by key, in the order in which they became known. The first word on a fact stands."""

    def __init__(self, specs: Mapping[str, FactSpec]) -> None:
        self.specs = specs
        self._facts: dict[str, Fact] = {}

    def put(self, name: str, value: FactValue | None, source: Source, member: str | None = None) -> None:
        """Record a fact; None (unknown) and a fact already known are passed over.

        Raises KeyError for a name outside the registry and ValueError for a member where the scope has none
        (or none where it needs one), or a value of the wrong type.
        """
        spec = self.specs[name]
        if value is None:
            return
        if (member is None) != (spec.scope is Scope.INCIDENT):
            raise ValueError(f"{name} is about one {spec.scope.value}; member {member!r} does not fit")
        if spec.names and value not in spec.names:
            raise ValueError(f"{name} is one of {', '.join(spec.names)}, not {value!r}")
        if not isinstance(value, _PYTHON_TYPES[spec.type]) or (isinstance(value, bool) != (spec.type is FactType.FLAG)):
            raise ValueError(f"{name} is of type {spec.type.value}; {value!r} is not")
        fact = Fact(name, value, source, member)
        self._facts.setdefault(fact.key, fact)

    def value(self, name: str, member: str | None = None) -> FactValue | None:
        """The value, or None where it is unknown. A member falls back to nothing: facts do not leak between members."""
        fact = self.find(name, member)
        return None if fact is None else fact.value

    def size(self, name: str, member: str | None = None) -> int | None:
        """The value of a fact that is a whole number; None where it is unknown, or is none."""
        value = self.value(name, member)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def find(self, name: str, member: str | None = None) -> Fact | None:
        """The fact, or None where it is unknown."""
        spec = self.specs[name]
        return self._facts.get(name if spec.scope is Scope.INCIDENT else f"{name}@{member}")

    def members(self, scope: Scope) -> tuple[str, ...]:
        """The members that any fact of this scope speaks about, in order of appearance."""
        seen: dict[str, None] = {}
        for fact in self._facts.values():
            if fact.member is not None and self.specs[fact.name].scope is scope:
                seen[fact.member] = None
        return tuple(seen)

    def with_texts(self, change: Callable[[str], str]) -> FactSet:
        """The same facts with `change` made to the values of free text and to the names of inputs."""
        changed = FactSet(self.specs)
        for key, fact in self._facts.items():
            value, path = fact.value, fact.source.path
            if isinstance(value, str) and self.specs[fact.name].type is FactType.TEXT:
                value = change(value)
            source = fact.source if path is None else replace(fact.source, path=change(path))
            changed._facts[key] = replace(fact, value=value, source=source)
        return changed

    def __getitem__(self, key: str) -> Fact:
        return self._facts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


_PYTHON_TYPES: dict[FactType, tuple[type, ...]] = {
    FactType.BYTES: (int,),
    FactType.TOKENS: (int,),
    FactType.SECONDS: (int, float),
    FactType.RATIO: (int, float),
    FactType.COUNT: (int, float),
    FactType.TEXT: (str,),
    FactType.VERSION: (str,),
    FactType.NAME: (str,),
    FactType.FLAG: (bool,),
}
