"""The report's templates: the code that `scripts/make_prepared.py` made of them, or the texts themselves.

The code is used only for the text and the options that it was made of, under a jinja2 of the same minor version; any
other template is compiled when it is asked for, which takes longer and comes to the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import jinja2
from jinja2 import BaseLoader, Environment, StrictUndefined, Template

OPTIONS: dict[str, Any] = {
    "autoescape": True,
    "extensions": ["jinja2.ext.i18n"],
    "trim_blocks": True,
    "lstrip_blocks": True,
}
"""What decides how a template is compiled."""

Compiled = Mapping[str, tuple[str, Callable[[Environment], MutableMapping[str, Any]]]]
"""By name of the template: `key_of` the text it was made of, and what gives the names of its code in an environment."""


def key_of(text: str) -> str:
    """What tells the code of a template with this text from any other."""
    minor = ".".join(jinja2.__version__.split(".")[:2])
    return hashlib.sha256(f"{minor}\0{sorted(OPTIONS.items())}\0{text}".encode()).hexdigest()


def environment(read: Callable[[str], str], compiled: Compiled) -> Environment:
    """An environment whose templates are those that `read` gives by name."""
    return Environment(undefined=StrictUndefined, loader=_Loader(read, compiled), **OPTIONS)


class _Loader(BaseLoader):
    def __init__(self, read: Callable[[str], str], compiled: Compiled) -> None:
        self.read, self.compiled = read, compiled

    def get_source(self, environment: Environment, template: str) -> tuple[str, None, None]:
        return self.read(template), None, None

    def load(self, environment: Environment, name: str, globals: MutableMapping[str, Any] | None = None) -> Template:
        found = self.compiled.get(name)
        if found is None or found[0] != key_of(self.read(name)):
            return super().load(environment, name, globals)
        code = {"__file__": name, **found[1](environment)}
        return environment.template_class.from_module_dict(environment, code, {} if globals is None else globals)
