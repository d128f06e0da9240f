"""A configuration's fields, read with their type; what is missing is named, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputRefused, UsageError
from ..language import _
from .dtypes import ElementType, element_type

_LARGEST = 1 << 40
"""No dimension of a model is larger; what is, was not written by one."""
_MOST_LAYERS = 10_000
Config = Mapping[str, Any]


def type_of_field(name: str, value: object, where: str) -> ElementType:
    """The element type that a field names. Raises InputRefused for what is none, or has blocks."""
    try:
        found = element_type(str(value))
    except UsageError as error:
        raise InputRefused(
            _("{where}: {name} is {value!r}, no element type that is known here").format(
                where=where, name=name, value=str(value)[:40]
            )
        ) from error
    if found.block_values > 1 or found.head_scale_bytes:
        raise InputRefused(
            _("{where}: {name} is {value!r}, which is one of quantised blocks").format(
                where=where, name=name, value=found.name
            )
        )
    return found


class Fields:
    """The fields of one configuration object."""

    def __init__(self, values: Config, where: str, defaults: Mapping[str, int] | None = None) -> None:
        """`defaults`: what the class of this model has where its file is silent; a use of them is written down."""
        self.values, self.where, self._defaults = values, where, dict(defaults or {})
        self.assumed: list[str] = []

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(name) is not None

    def number(self, *names: str) -> int:
        """A size of at least 1 under the first of these names that is there. Raises InputRefused."""
        found = self.maybe(*names)
        if found is None:
            others = _(" (or {names})").format(names=_(", ").join(names[1:])) if names[1:] else ""
            raise InputRefused(
                _("{where}: the field {name}{others} is missing; it is not guessed").format(
                    where=self.where, name=names[0], others=others
                )
            )
        return found

    def maybe(self, *names: str) -> int | None:
        """The same, None where all are missing."""
        for name in names:
            if self.has(name):
                return self._checked(name, self.values[name])
        for name in names:
            # A field that is there and null is not left to its class.
            if name in self._defaults and name not in self.values:
                value = self._defaults[name]
                self.assumed.append(
                    _("{name} = {value}: not in the file, the default of its class").format(name=name, value=value)
                )
                return value
        return None

    def maybe_positive(self, name: str) -> bool:
        """Whether the field is a number above zero."""
        value = self.values.get(name)
        return isinstance(value, int) and value > 0

    def layers(self, *names: str) -> int:
        """A number of layers."""
        found = self.number(*names)
        if found > _MOST_LAYERS:
            raise InputRefused(
                _("{where}: {found} layers are not those of a model").format(where=self.where, found=found)
            )
        return found

    def flag(self, name: str, default: bool) -> bool:
        """A yes or no."""
        value = self.values.get(name)
        return default if value is None else bool(value)

    def text(self, name: str) -> str | None:
        """A word."""
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    def element(self, *names: str) -> ElementType | None:
        """The element type under the first of these names that is there; None where all are missing."""
        name = next((name for name in names if self.has(name)), None)
        return None if name is None else type_of_field(name, self.values[name], self.where)

    def items(self, name: str, length: int | None = None) -> list[Any] | None:
        """A list, of that length; None where it is missing."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > _MOST_LAYERS:
            raise InputRefused(_("{where}: {name} is not a list of layers").format(where=self.where, name=name))
        if length is not None and len(value) != length:
            raise InputRefused(
                _("{where}: {name} names {value} layers, the model has {length}").format(
                    where=self.where, name=name, value=len(value), length=length
                )
            )
        return value

    def part(self, name: str) -> Fields | None:
        """A nested object."""
        value = self.values.get(name)
        return Fields(value, f"{self.where}, {name}") if isinstance(value, dict) else None

    def _checked(self, name: str, value: object) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST:
            raise InputRefused(
                _("{where}: {name} is {value}, not a size").format(
                    where=self.where, name=name, value=repr(str(value)[:40])
                )
            )
        return value
