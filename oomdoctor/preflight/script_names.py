"""The names that a command's script uses: read, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .setup import Setup
from .words import script_tree

_SETTINGS = (".yaml", ".yml", ".json", ".toml", ".py")


@dataclass(frozen=True)
class ScriptNames:
    """Names, attributes, imports, keywords and strings of a script, in small letters."""

    names: frozenset[str]
    all_of_it: bool
    """False where more runs than is read: there is no script, it imports files beside it, or reads others' settings."""

    def speak_of(self, *parts: str) -> bool:
        """Whether one of the names has such a part."""
        return any(part in name for name in self.names for part in parts)

    def may_speak_of(self, *parts: str) -> bool:
        """The same; also where not all is read."""
        return not self.all_of_it or self.speak_of(*parts)


def script_names(setup: Setup, known_files: tuple[str, ...] = ()) -> ScriptNames:
    """Of the command's script. `known_files`: those that it names and that are read elsewhere."""
    tree, script = script_tree(setup), setup.command.script
    if tree is None or script is None:
        return ScriptNames(frozenset(), all_of_it=False)
    files = [word.rpartition("=")[2] for word in setup.command.words[1:] if word.endswith(_SETTINGS)]
    others = [file for file in files if Path(file) != script and file not in known_files]
    beside = any(_is_beside(name, script.parent) for name in _imported(tree))
    return ScriptNames(frozenset(name.lower() for name in _names(tree)), not beside and not others)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def _is_beside(module: str, folder: Path) -> bool:
    if module.startswith("."):
        return True
    place = folder / module.partition(".")[0]
    return place.is_dir() or place.with_suffix(".py").is_file()


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
