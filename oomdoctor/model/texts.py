"""Changes every text of a result without knowing its parts: for what must hold of all of them, such as masking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar, cast

from .facts import FactSet

_Value = TypeVar("_Value")


def map_texts(value: _Value, change: Callable[[str], str]) -> _Value:
    """The value with `change` made to each text in it; what has none, and the names in a mapping, stay as they are."""
    return cast("_Value", _mapped(value, change))


def texts_of(value: object) -> list[str]:
    """Each text in the value."""
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    map_texts(value, note)
    return texts


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return value if isinstance(value, Enum) else change(value)
    if isinstance(value, tuple):
        # A curve is a long tuple of numbers.
        return value if not value or isinstance(value[0], (int, float)) else tuple(_mapped(v, change) for v in value)
    if isinstance(value, FactSet):
        return value.with_texts(change)
    if isinstance(value, Mapping):
        return {key: _mapped(each, change) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        old = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        new = {name: _mapped(each, change) for name, each in old.items()}
        changed = {name: each for name, each in new.items() if each is not old[name] and each != old[name]}
        return replace(value, **changed) if changed else value
    return value
