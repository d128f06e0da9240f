# ruff: noqa: D102 (Term documents what each class does)
"""The terms an expression is made of, and their three-valued evaluation.

None stands for unknown throughout. A term also says which facts decided its value, so that a report can show
just those: of `a or b` with `a` true, the facts in `a`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..knobs.versions import version_key
from ..model.facts import FactValue

Lookup = Callable[[str], "FactValue | None"]
"""The value of a fact by name; None where it is unknown."""


class Term(Protocol):
    """A node of an expression."""

    def value(self, lookup: Lookup) -> FactValue | None:
        """The value, or None for unknown."""
        ...

    def deciders(self, lookup: Lookup) -> tuple[str, ...]:
        """Names of the facts that made the value what it is, in order of appearance."""
        ...


@dataclass(frozen=True)
class Literal:
    """A number, text or truth value as written."""

    constant: FactValue

    def value(self, lookup: Lookup) -> FactValue | None:
        return self.constant

    def deciders(self, lookup: Lookup) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class FactName:
    """A fact, by its dotted name."""

    name: str

    def value(self, lookup: Lookup) -> FactValue | None:
        return lookup(self.name)

    def deciders(self, lookup: Lookup) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class Known:
    """`fact is known` or `fact is unknown`: never unknown itself."""

    name: str
    wanted: bool

    def value(self, lookup: Lookup) -> FactValue | None:
        return (lookup(self.name) is not None) is self.wanted

    def deciders(self, lookup: Lookup) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class Arithmetic:
    """Two numbers joined by an operator. A quotient with 0, or a result out of range, is unknown."""

    left: Term
    right: Term
    apply: Callable[[float, float], float]

    def value(self, lookup: Lookup) -> FactValue | None:
        left, right = self.left.value(lookup), self.right.value(lookup)
        if left is None or right is None or isinstance(left, str) or isinstance(right, str):
            return None
        try:
            result = self.apply(left, right)
            return result if math.isfinite(result) else None
        except ArithmeticError:
            return None

    def deciders(self, lookup: Lookup) -> tuple[str, ...]:
        return merged(self.left.deciders(lookup), self.right.deciders(lookup))


@dataclass(frozen=True)
class Negative:
    """A number with its sign turned."""

    term: Term

    def value(self, lookup: Lookup) -> FactValue | None:
        value = self.term.value(lookup)
        return None if value is None or isinstance(value, str) else -value

    def deciders(self, lookup: Lookup) -> tuple[str, ...]:
        return self.term.deciders(lookup)


@dataclass(frozen=True)
class Comparison:
    """Two terms compared, as versions where `versions`. What is not a version compares as unknown."""

    left: Term
    right: Term
    apply: Callable[[Any, Any], object]
    versions: bool = False

    def value(self, lookup: Lookup) -> FactValue | None:
        left: object = self.left.value(lookup)
        right: object = self.right.value(lookup)
        if self.versions:
            left = version_key(left) if isinstance(left, str) else None
            right = version_key(right) if isinstance(right, str) else None
        if left is None or right is None:
            return None
        return bool(self.apply(left, right))

    def deciders(self, lookup: Lookup) -> tuple[str, ...]:
        return merged(self.left.deciders(lookup), self.right.deciders(lookup))


@dataclass(frozen=True)
class Junction:
    """`and` (absorbing False) or `or` (absorbing True) of several terms, after Kleene."""

    terms: tuple[Term, ...]
    absorbing: bool

    def value(self, lookup: Lookup) -> FactValue | None:
        result: FactValue | None = not self.absorbing
        for term in self.terms:
            value = term.value(lookup)
            if value is self.absorbing:
                return value
            if value is None:
                result = None
        return result

    def deciders(self, lookup: Lookup) -> tuple[str, ...]:
        result = self.value(lookup)
        return merged(*(term.deciders(lookup) for term in self.terms if term.value(lookup) is result))


@dataclass(frozen=True)
class Not:
    """The other truth value; unknown stays unknown."""

    term: Term

    def value(self, lookup: Lookup) -> FactValue | None:
        value = self.term.value(lookup)
        return None if value is None else not value

    def deciders(self, lookup: Lookup) -> tuple[str, ...]:
        return self.term.deciders(lookup)


def contained(part: object, whole: object) -> bool:
    """Whether text stands in a text; case does not count, as programs change it between releases."""
    return str(part).casefold() in str(whole).casefold()


def merged(*groups: tuple[str, ...]) -> tuple[str, ...]:
    """The names of all groups, each once, in order."""
    return tuple(dict.fromkeys(name for group in groups for name in group))


COMPARE: dict[str, Callable[[Any, Any], object]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
