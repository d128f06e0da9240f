"""YAML text as a tree that knows where each value stands.

Scalars stay text: what a value means is for the schema that reads it to say. So `2.10` stays a version and
`no` a word. Aliases, tags, duplicate keys, a second document, and depth or size out of bounds are refused.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from ..errors import RuleError
from ..language import _

MAX_CHARACTERS = 256 * 1024
MAX_DEPTH = 12


@dataclass(frozen=True)
class Place:
    """A point in a file; line and column count from 1."""

    path: str
    line: int = 1
    column: int = 1

    def refuse(self, message: str) -> NoReturn:
        """Raise RuleError at this point."""
        raise RuleError(message, self.path, self.line, self.column)


@dataclass(frozen=True)
class Scalar:
    """A piece of text. `raw` is what stands in the file from `place` on, quotes and line breaks included."""

    text: str
    place: Place
    raw: str = ""
    style: str = ""

    def place_of(self, offset: int) -> Place:
        """Where character `offset` of `text` stands in the file.

        Folding changes white space only, so the two texts are aligned by counting the characters that are not.
        """
        if "\n" not in self.raw and len(self.raw) == len(self.text) + 2 * len(self.style):
            return Place(self.place.path, self.place.line, self.place.column + len(self.style) + offset)
        in_text, in_raw, line_starts = self._alignment
        wanted = bisect_left(in_text, offset)
        position = in_raw[wanted] if wanted < len(in_raw) else len(self.raw)
        lines = bisect_right(line_starts, position)
        column = position - line_starts[lines - 1] + 1 if lines else self.place.column + position
        return Place(self.place.path, self.place.line + lines, column)

    @cached_property
    def _alignment(self) -> tuple[list[int], list[int], list[int]]:
        """Where what is not white space stands, in the text and in the file; and where further lines begin in that."""
        header = self.raw.find("\n") + 1 if self.style in ("|", ">") else len(self.style)
        return (
            [at for at, character in enumerate(self.text) if not character.isspace()],
            [at for at, character in enumerate(self.raw) if at >= header and not character.isspace()],
            [at + 1 for at, character in enumerate(self.raw) if character == "\n"],
        )

    def flag(self) -> bool:
        """True or false. Raises RuleError for any other word."""
        if self.text.lower() not in ("true", "false"):
            self.place.refuse(f"this is true or false, not {self.text!r}")
        return self.text.lower() == "true"


@dataclass(frozen=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    place: Place


@dataclass(frozen=True)
class Section:
    """A mapping; keys in the order of the file."""

    entries: Mapping[str, Node]
    places: Mapping[str, Place]
    place: Place

    def only(self, known: Iterable[str], what: str) -> Section:
        """The section itself, after refusing keys outside `known` (RuleError, with the closest known one)."""
        names = tuple(known)
        for key in self.entries:
            if key not in names:
                self.places[key].refuse(f"{what} has no key {key!r}{did_you_mean(key, names)}")
        return self

    def text(self, key: str, default: str | None = None) -> str:
        """The text under `key`, stripped. Raises RuleError where it is missing without a default, or empty."""
        found = self.scalar(key)
        if found is None:
            if default is None:
                self.place.refuse(f"{key!r} is missing")
            return default
        return found.text.strip()

    def scalar(self, key: str) -> Scalar | None:
        """The scalar under `key`; None where there is none. Raises RuleError for a list or a mapping."""
        found = self.entries.get(key)
        return None if found is None else as_scalar(found)

    def sequence(self, key: str) -> tuple[Node, ...]:
        """The items under `key`; empty where there is none. Raises RuleError for anything but a list."""
        found = self.entries.get(key)
        if found is None:
            return ()
        if not isinstance(found, Sequence):
            found.place.refuse(f"{key!r} is a list")
        return found.items

    def section(self, key: str) -> Section | None:
        """The mapping under `key`; None where there is none. Raises RuleError for anything but a mapping."""
        found = self.entries.get(key)
        return None if found is None else as_section(found)

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of texts under `key`."""
        return tuple(as_scalar(item).text.strip() for item in self.sequence(key))


Node = Scalar | Sequence | Section


def as_scalar(node: Node) -> Scalar:
    """The node as a text that is not empty. Raises RuleError otherwise."""
    if not isinstance(node, Scalar):
        node.place.refuse("a text is expected here")
    if not node.text.strip():
        node.place.refuse("this is empty")
    return node


def as_section(node: Node) -> Section:
    """The node as a mapping. Raises RuleError otherwise."""
    if not isinstance(node, Section):
        node.place.refuse("a mapping (key: value) is expected here")
    return node


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question to append to a message about an unknown word; empty where nothing is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return _("; did you mean {name}?").format(name=repr(close[0])) if close else ""


def read_document(path: Path, without: Collection[str] = ()) -> Section:
    """The mapping in a file. Raises RuleError for a file that cannot be read or is not such a document.

    The values of the top-level keys in `without` are not even parsed, so faults in them are not seen.
    """
    try:
        if path.exists() and not path.is_file():
            raise RuleError("not a file", path)
        if path.stat().st_size > 4 * MAX_CHARACTERS:
            raise RuleError(f"larger than {MAX_CHARACTERS} characters", path)
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RuleError(f"not UTF-8 text (byte {error.start})", path) from error
    except OSError as error:
        raise RuleError(f"cannot be read: {error.strerror}", path) from error
    return parse_document(_blanked(text, without), str(path))


def _blanked(text: str, keys: Collection[str]) -> str:
    """The text without these top-level entries; what follows stays on its line."""
    if not keys:
        return text
    blank, lines = False, []
    for line in text.splitlines(keepends=True):
        if line[0] not in " \t\r\n#-":
            blank = line.partition(":")[0] in keys
        lines.append("\n" if blank else line)
    return "".join(lines)


def parse_document(text: str, path: str) -> Section:
    """The mapping that `text` holds. Raises RuleError for anything else; never anything but RuleError."""
    if len(text) > MAX_CHARACTERS:
        raise RuleError(f"larger than {MAX_CHARACTERS} characters", path)
    import yaml  # what ships is read beforehand, so that only who has rules of their own waits for the parser

    builder = _Builder(text, path)
    try:
        # Only the loader's event parser is used, for speed; nothing is constructed.
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise RuleError(f"not YAML: {error.problem or error.context}", path, *where) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise RuleError(f"not YAML: {' '.join(str(error).split())}", path) from error
    if builder.root is None:
        raise RuleError("the file is empty", path)
    return as_section(builder.root)


@dataclass
class _Open:
    """A list or mapping that has not ended yet; `key` waits for its value."""

    place: Place
    is_mapping: bool
    items: list[Node]
    entries: dict[str, Node]
    places: dict[str, Place]
    key: str | None = None


class _Builder:
    """Turns parser events into nodes without recursion, so that depth cannot exhaust a stack."""

    def __init__(self, text: str, path: str) -> None:
        import yaml

        self.text, self.path = text, path
        self.alias: type[Any] = yaml.AliasEvent
        self.root: Node | None = None
        self.open: list[_Open] = []
        self.handlers: dict[type[Any], Callable[[Any, Place], None]] = {
            self.alias: lambda event, place: place.refuse("aliases (*name) are not accepted"),
            yaml.ScalarEvent: self._scalar,
            yaml.SequenceStartEvent: lambda event, place: self._start(place, False),
            yaml.MappingStartEvent: lambda event, place: self._start(place, True),
            yaml.SequenceEndEvent: lambda event, place: self._end(),
            yaml.MappingEndEvent: lambda event, place: self._end(),
            yaml.DocumentStartEvent: self._document,
        }

    def take(self, event: Any) -> None:
        mark = event.start_mark
        place = Place(self.path, mark.line + 1, mark.column + 1)
        if getattr(event, "anchor", None) is not None and not isinstance(event, self.alias):
            place.refuse("anchors (&name) are not accepted")
        if getattr(event, "tag", None) is not None:
            place.refuse("tags (!name) are not accepted")
        handler = self.handlers.get(type(event))
        if handler is not None:
            handler(event, place)

    def _document(self, event: Any, place: Place) -> None:
        if self.root is not None:
            place.refuse("a file holds one document")

    def _scalar(self, event: Any, place: Place) -> None:
        raw = self.text[event.start_mark.index : event.end_mark.index]
        parent = self.open[-1] if self.open else None
        if parent and parent.is_mapping and parent.key is None:
            if event.value in parent.entries:
                place.refuse(f"the key {event.value!r} stands here twice")
            parent.key = event.value
            parent.places[event.value] = place
        else:
            self._add(Scalar(event.value, place, raw, event.style or ""))

    def _start(self, place: Place, is_mapping: bool) -> None:
        if len(self.open) >= MAX_DEPTH:
            place.refuse(f"nested deeper than {MAX_DEPTH} levels")
        parent = self.open[-1] if self.open else None
        if parent and parent.is_mapping and parent.key is None:
            place.refuse("a key is a text")
        self.open.append(_Open(place, is_mapping, [], {}, {}))

    def _end(self) -> None:
        done = self.open.pop()
        if done.is_mapping:
            self._add(Section(done.entries, done.places, done.place))
        else:
            self._add(Sequence(tuple(done.items), done.place))

    def _add(self, node: Node) -> None:
        parent = self.open[-1] if self.open else None
        if parent is None:
            self.root = node
        elif not parent.is_mapping:
            parent.items.append(node)
        elif parent.key is not None:
            parent.entries[parent.key] = node
            parent.key = None
