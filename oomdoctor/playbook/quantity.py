"""What kind of value a term of the rule language has, and which kinds may meet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..model.facts import FactSpec, FactType


class Kind(str, Enum):
    """The families of values; only quantities have arithmetic and order (versions have order)."""

    QUANTITY = "a quantity"
    TEXT = "text"
    VERSION = "a version"
    FLAG = "true or false"
    NAME = "a name"


Exponents = tuple[int, int, int]
"""Powers of bytes, tokens and seconds."""

_UNITS = ("bytes", "tokens", "seconds")


@dataclass(frozen=True)
class ValueType:
    """The static type of a term.

    Quantities carry their unit as powers, so `bytes / tokens * tokens` is bytes again. Among those without a
    unit `pure` says what they count: 'ratio', 'count', or '' for plain numbers, which go with both.
    """

    kind: Kind
    exponents: Exponents = (0, 0, 0)
    pure: str = ""
    names: tuple[str, ...] = ()
    literal: bool = False
    """Written in the expression, not looked up."""
    zero: bool = False
    """The literal 0, which may meet any unit."""

    @property
    def plain(self) -> bool:
        """A quantity without a unit."""
        return self.kind is Kind.QUANTITY and self.exponents == (0, 0, 0)

    def __str__(self) -> str:
        if self.kind is not Kind.QUANTITY:
            return str(self.kind.value)
        if self.plain:
            return {"ratio": "a ratio", "count": "a count"}.get(self.pure, "a plain number")
        above = [_power(unit, power) for unit, power in zip(_UNITS, self.exponents, strict=True) if power > 0]
        below = [_power(unit, -power) for unit, power in zip(_UNITS, self.exponents, strict=True) if power < 0]
        return "·".join(above or ["1"]) + "".join(f" per {unit}" for unit in below)


def _power(unit: str, power: int) -> str:
    return unit if power == 1 else f"{unit}^{power}"


NUMBER = ValueType(Kind.QUANTITY, literal=True)
ZERO = ValueType(Kind.QUANTITY, literal=True, zero=True)
RATIO = ValueType(Kind.QUANTITY, pure="ratio")
COUNT = ValueType(Kind.QUANTITY, pure="count")
BYTES = ValueType(Kind.QUANTITY, (1, 0, 0))
TOKENS = ValueType(Kind.QUANTITY, (0, 1, 0))
SECONDS = ValueType(Kind.QUANTITY, (0, 0, 1))
BYTES_PER_SECOND = ValueType(Kind.QUANTITY, (1, 0, -1))
FLAG = ValueType(Kind.FLAG)

_OF_FACT = {
    FactType.BYTES: BYTES,
    FactType.TOKENS: TOKENS,
    FactType.SECONDS: SECONDS,
    FactType.RATIO: RATIO,
    FactType.COUNT: COUNT,
    FactType.TEXT: ValueType(Kind.TEXT),
    FactType.VERSION: ValueType(Kind.VERSION),
    FactType.FLAG: FLAG,
}


def type_of_fact(spec: FactSpec) -> ValueType:
    """The type of a declared fact. Bytes whose name ends in `_per_second` or `_per_token` carry that unit."""
    if spec.type is FactType.NAME:
        return ValueType(Kind.NAME, names=spec.names)
    if spec.type is FactType.BYTES and spec.name.endswith("_per_second"):
        return BYTES_PER_SECOND
    if spec.type is FactType.BYTES and spec.name.endswith("_per_token"):
        return ValueType(Kind.QUANTITY, (1, -1, 0))
    return _OF_FACT[spec.type]


def why_not_added(left: ValueType, right: ValueType) -> str | None:
    """Why two terms can be neither added nor compared; None where they can.

    A literal number counts tokens, seconds, ratios and counts as it stands, but never bytes: `4 * GiB` says
    what `4` leaves open. A literal size also stands for that much per second or per token.
    """
    for one, other in ((left, right), (right, left)):
        if one.kind is not Kind.QUANTITY or other.kind is not Kind.QUANTITY:
            return f"{left} does not go with {right}"
        if one.zero:
            return None
        if one.literal and one.exponents == (1, 0, 0) and other.exponents[0] == 1:
            return None
        if one.literal and one.plain:
            if other.exponents[0] and not other.literal:
                return f"a plain number does not go with {other}; write it with a unit, like 4 * GiB"
            return None
    if left.exponents != right.exponents:
        return f"{left} does not go with {right}"
    if left.pure and right.pure and left.pure != right.pure:
        return f"{left} does not go with {right}"
    return None


def added(left: ValueType, right: ValueType) -> ValueType:
    """The type of a sum or difference of two terms that go together."""
    if left.literal and right.literal:
        return ValueType(Kind.QUANTITY, left.exponents if not left.plain else right.exponents, literal=True)
    fact = right if left.literal else left
    return ValueType(Kind.QUANTITY, fact.exponents, fact.pure or left.pure or right.pure)


def multiplied(left: ValueType, right: ValueType, sign: int) -> ValueType:
    """The type of a product (sign 1) or quotient (sign -1)."""
    a, b = left.exponents, right.exponents
    exponents = (a[0] + sign * b[0], a[1] + sign * b[1], a[2] + sign * b[2])
    literal = left.literal and right.literal
    if exponents != (0, 0, 0):
        return ValueType(Kind.QUANTITY, exponents, literal=literal)
    if literal:
        return NUMBER
    if sign < 0 and not right.literal:
        return RATIO
    return ValueType(Kind.QUANTITY, pure=left.pure if right.literal else (right.pure if left.literal else ""))
