"""What is varied, and the command that it is put into."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ..errors import UsageError
from ..language import _

Cell = tuple[int, ...]
"""A setting: the place of each variable's value."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIECE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")
_MOST_CELLS = 4096


@dataclass(frozen=True)
class Variable:
    """A name and its values as they were written: numbers ascending, categories in the order given."""

    name: str
    values: tuple[str, ...]
    numbers: tuple[float, ...] | None
    """None: categories, which have no order and no values between them."""


def parse_variables(written: Iterable[str], categories: Collection[str] = ()) -> tuple[tuple[Variable, ...], list[str]]:
    """The variables of `NAME=VALUE,VALUE…`, and what one must know of how they were read.

    `categories` names those whose numbers only stand for something. Raises UsageError.
    """
    variables: list[Variable] = []
    notes: list[str] = []
    for each in written:
        variable = _parse(each, categories, notes)
        if any(variable.name == other.name for other in variables):
            raise UsageError(
                _("{name} is varied twice; write all its values after one --vary").format(name=variable.name)
            )
        variables.append(variable)
    unknown = sorted(set(categories) - {variable.name for variable in variables})
    if unknown:
        raise UsageError(_("--category {name}: it is not varied").format(name=unknown[0]))
    count = math.prod(len(variable.values) for variable in variables)
    if count > _MOST_CELLS:
        raise UsageError(
            _("{count} settings are too many to show; at most {most} are").format(
                count=f"{count:,}", most=f"{_MOST_CELLS:,}"
            )
        )
    return tuple(variables), notes


def all_cells(variables: Sequence[Variable]) -> list[Cell]:
    """Every setting, the last variable changing fastest."""
    return list(product(*(range(len(variable.values)) for variable in variables)))


def values_of(variables: Sequence[Variable], cell: Cell) -> dict[str, str]:
    """The setting's values by name."""
    return {variable.name: variable.values[place] for variable, place in zip(variables, cell, strict=True)}


def setting(variables: Sequence[Variable], cell: Cell) -> str:
    """`context=512 concurrency=2`."""
    return " ".join(f"{name}={value}" for name, value in values_of(variables, cell).items())


def check_templates(templates: Sequence[str], names: Collection[str]) -> None:
    """Every placeholder is a variable, and every variable has one. Raises UsageError."""
    used: set[str] = set()
    for template in templates:
        for found in _PIECE.finditer(template):
            if found[0] in ("{", "}"):
                raise UsageError(
                    _(
                        "{template} has a single {found}; write {twice} for the character itself, or {{NAME}} for "
                        "the value of a variable"
                    ).format(template=repr(template), found=repr(found[0]), twice=repr(found[0] * 2))
                )
            if found[1] is not None and found[1] not in names:
                raise UsageError(
                    _(
                        "{{{name}}} in {template} is not varied; add --vary {name}=…, or write {{{{{name}}}}} for "
                        "the characters themselves"
                    ).format(name=found[1], template=repr(template))
                )
            if found[1] is not None:
                used.add(found[1])
    unused = [name for name in names if name not in used]
    if unused:
        raise UsageError(
            _(
                "{name} is varied, but {{{name}}} stands neither in the command nor in --env: it would change nothing"
            ).format(name=unused[0])
        )


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with the values in it; `{{` and `}}` are the characters."""
    return _PIECE.sub(lambda found: values[found[1]] if found[1] is not None else found[0][0], template)


def _parse(written: str, categories: Collection[str], notes: list[str]) -> Variable:
    name, equals, rest = written.partition("=")
    name = name.strip()
    if not equals or not _NAME.fullmatch(name):
        raise UsageError(
            _("--vary {written} is not NAME=VALUE,VALUE…, as in --vary context=512,1024").format(written=repr(written))
        )
    values = [value.strip() for value in rest.split(",")]
    if not all(values):
        raise UsageError(_("--vary {written} has an empty value").format(written=repr(written)))
    numbers = [_number(value) for value in values]
    if name in categories or None in numbers:
        if name not in categories and any(number is not None for number in numbers):
            notes.append(
                _("{name} has values that are no numbers: all are taken as categories, without an order").format(
                    name=name
                )
            )
        return Variable(name, _without_repeats(name, values, values, notes), None)
    ordered = sorted(_without_repeats(name, values, numbers, notes), key=lambda value: _number(value) or 0.0)
    return Variable(name, tuple(ordered), tuple(_number(value) or 0.0 for value in ordered))


def _without_repeats(name: str, values: Sequence[str], keys: Sequence[object], notes: list[str]) -> tuple[str, ...]:
    kept: dict[object, str] = {}
    for value, key in zip(values, keys, strict=True):
        if key in kept:
            notes.append(_("{name}={value} stands there more than once and is run once").format(name=name, value=value))
        kept.setdefault(key, value)
    return tuple(kept.values())


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None
