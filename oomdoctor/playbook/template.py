"""Texts with facts in them: `The request was {oom.requested_bytes}[[ while {oom.free_bytes} were free]].`

A placeholder holds a fact or an expression. What is unknown prints as 'unknown', unless it stands in `[[ … ]]`,
which is left out as a whole. `{{` and `}}` print braces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..facts.registry import REGISTRY
from ..knobs.document import Scalar
from ..language import _, tidy, told
from ..model.facts import FactSpec, FactValue, Scope
from ..model.named_values import name_in_words
from ..model.units import format_bytes, format_seconds
from .expression import Expression, parse_expression
from .quantity import Kind, ValueType
from .terms import Lookup

_MARK = re.compile(r"[{}]|\[\[|\]\]")
_SEPARATORS = " ;,；，、"
"""With which no text begins, where the part before them was left out."""
_SPACE = re.compile(r"\s+")

Format = Callable[[FactValue, ValueType], str]


@dataclass(frozen=True)
class Template:
    """A checked text. `parts` alternate freely; an optional part is a template of its own."""

    parts: tuple[str | Expression | Template, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The facts it shows."""
        found: dict[str, None] = {}
        for part in self.parts:
            if not isinstance(part, str):
                found.update(dict.fromkeys(part.names))
        return tuple(found)

    def fill(self, lookup: Lookup, unknown: str = "unknown", form: Format | None = None) -> str:
        """The text with values; `form` prints a value (as people read it where none is given)."""

        def show(part: Expression) -> str:
            value = part.value(lookup)
            return unknown if value is None else (form or format_value)(value, part.type)

        return self._join(show, lambda part: part.complete(lookup)).lstrip(_SEPARATORS).rstrip()

    def outline(self) -> str:
        """The text with the placeholders themselves, for a page without facts."""
        return tidy(self._join(lambda part: f"‹{part.text}›", lambda part: True).strip())

    def _join(self, show: Callable[[Expression], str], keep: Callable[[Template], bool]) -> str:
        shown = []
        for part in self.parts:
            if isinstance(part, str):
                shown.append(part)
            elif isinstance(part, Expression):
                shown.append(show(part))
            elif keep(part):
                shown.append(part._join(show, keep))
        return "".join(shown)

    def complete(self, lookup: Lookup) -> bool:
        """Whether every placeholder outside optional parts is known."""
        return all(part.value(lookup) is not None for part in self.parts if isinstance(part, Expression))


def parse_template(source: Scalar, scope: Scope, specs: Mapping[str, FactSpec] = REGISTRY) -> Template:
    """Read and check a text of a rule with this scope. White space is folded.

    Raises RuleError, at its place, for a fault in a placeholder, and for braces or brackets without a partner.
    """
    return _Reader(source, scope, specs).template()


class _Reader:
    def __init__(self, source: Scalar, scope: Scope, specs: Mapping[str, FactSpec]) -> None:
        self.source, self.scope, self.specs = source, scope, specs
        self.text, self.position = source.text, 0

    def template(self) -> Template:
        parts: list[str | Expression | Template] = []
        optional: list[str | Expression | Template] | None = None
        opened = 0
        while self.position < len(self.text):
            pair, current = self.text[self.position : self.position + 2], parts if optional is None else optional
            if pair in ("{{", "}}"):
                current.append(pair[0])
                self.position += 2
            elif pair == "[[":
                if optional is not None:
                    self._refuse(self.position, "[[ stands inside [[ … ]]")
                optional, opened = [], self.position
                self.position += 2
            elif pair == "]]" and optional is not None:
                parts.append(self._optional(optional, opened))
                optional = None
                self.position += 2
            elif pair[0] == "{":
                current.append(self._placeholder())
            elif pair[0] == "}":
                self._refuse(self.position, "} without {; write }} for a brace")
            else:
                current.append(self._plain())
        if optional is not None:
            self._refuse(opened, "[[ without ]]")
        return Template(tuple(parts))

    def _optional(self, parts: list[str | Expression | Template], opened: int) -> Template:
        if not any(isinstance(part, Expression) for part in parts):
            self._refuse(opened, "[[ … ]] without a placeholder is never left out")
        return Template(tuple(parts))

    def _placeholder(self) -> Expression:
        end = self.text.find("}", self.position)
        if end < 0:
            self._refuse(self.position, "{ without }; write {{ for a brace")
        inner = self.text[self.position + 1 : end]
        place = self.source.place_of(self.position + 1)
        found = parse_expression(Scalar(inner, place, inner), self.scope, self.specs)
        self.position = end + 1
        return found

    def _plain(self) -> str:
        start = self.position
        following = _MARK.search(self.text, start)
        self.position = len(self.text) if following is None else max(following.start(), start + 1)
        return _SPACE.sub(" ", self.text[start : self.position])

    def _refuse(self, offset: int, message: str) -> None:
        self.source.place_of(offset).refuse(message)


def format_value(value: FactValue, kind: ValueType) -> str:
    """A value as people read it: `4.00 GiB`, `31 min`, `8,192`, `93 %`, `yes`."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if kind.kind is Kind.NAME:
        return name_in_words(str(value))
    if isinstance(value, str) or kind.kind is not Kind.QUANTITY:
        return told(str(value))
    if kind.exponents == (1, 0, 0):
        return format_bytes(value)
    if kind.exponents == (1, 0, -1):
        return _("{size} per second").format(size=format_bytes(value))
    if kind.exponents == (1, -1, 0):
        return _("{size} per token").format(size=format_bytes(value))
    if kind.exponents == (0, 0, 1):
        return format_seconds(value)
    if kind.pure == "ratio":
        if 0.99 < value < 1:  # what is nearly all of it is not all of it
            return f"{100 * min(value, 0.999):.1f} %"
        return f"{value:.0%}".replace("%", " %") if abs(value) >= 0.095 else f"{value:.1%}".replace("%", " %")
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.2f}"


def format_raw(value: FactValue, kind: ValueType) -> str:
    """A value as a program takes it: whole numbers rounded down, ratios to two decimals, never up."""
    if isinstance(value, bool | str):
        return str(value)
    if kind.pure == "ratio":
        # 0.57 × 100 is 56.99999999999999; the inner rounding keeps it 57.
        return f"{math.floor(round(value * 100, 6)) / 100:g}"
    return str(math.floor(value))
