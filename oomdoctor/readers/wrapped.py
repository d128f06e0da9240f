"""Texts inside other files: the outputs of a notebook, and journals as `journalctl -o export` and `-o json` write them.

The log reader reads the text; its line numbers are those of the text, and the input's record says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ..language import N_

MOST_BYTES = 64 << 20
"""What is larger is read as it stands."""
_LENGTH_BYTES = 8
"""Of a field of a journal that holds several lines: little-endian, before its value."""
_NOTEBOOK = re.compile(rb'^\s*\{.{0,4096}?"(?:cells|cell_type|nbformat)"\s*:', re.DOTALL)
_EXPORT = re.compile(rb"^(?:__CURSOR=.{1,400}\n|__REALTIME_TIMESTAMP=\d{10,20}\n)")
_JSON_BYTES = re.compile(rb'"MESSAGE"\s{0,4}:\s{0,4}\[\s{0,4}\d')
"""A message that holds bytes which are no text (colours are such) is a list of numbers."""


@dataclass(frozen=True)
class Unwrapped:
    """The text of a file, and what it was taken from."""

    text: bytes
    why: str


def may_be_wrapped(head: bytes) -> bool:
    """Whether a file that begins so is worth being read whole to look for a text inside."""
    if _EXPORT.match(head) or (_NOTEBOOK.match(head) and b'"cell_type"' in head):
        return True
    return head.lstrip().startswith(b"{") and b"__REALTIME_TIMESTAMP" in head and bool(_JSON_BYTES.search(head))


def unwrap(content: bytes) -> Unwrapped | None:
    """The text in it; None where it is not such a file after all, or is cut."""
    if _EXPORT.match(content):
        text = b"".join(_of_export(content))
        return Unwrapped(text, N_("a journal's export: line numbers count its messages' lines")) if text else None
    try:
        if _JSON_BYTES.search(content) and b"__REALTIME_TIMESTAMP" in content:
            text = b"".join(_of_json(content))
            return Unwrapped(text, N_("a journal in JSON: line numbers count its messages' lines"))
        text = "\n".join(_of_notebook(json.loads(content))).encode("utf-8", "replace") + b"\n"
    except (ValueError, RecursionError, TypeError, AttributeError):
        return None
    return Unwrapped(text, N_("a notebook: its outputs were read, and line numbers count in them"))


def _of_notebook(notebook: dict[str, Any]) -> Iterator[str]:
    """What its cells printed and raised, in order. Older ones hold their cells in worksheets."""
    sheets = notebook.get("worksheets") or [notebook]
    for cell in (cell for sheet in sheets for cell in sheet["cells"]):
        for output in cell.get("outputs") or ():
            kind = output.get("output_type")
            if kind == "stream":
                yield from _joined(output.get("text")).rstrip("\n").split("\n")
            elif kind in ("error", "pyerr"):
                yield from _raised(output)


def _raised(output: dict[str, Any]) -> Iterator[str]:
    said = "\n".join(map(str, output.get("traceback") or ()))
    yield from said.split("\n")
    value = str(output.get("evalue") or "")
    if value.split("\n")[0] not in said:  # a traceback that somebody shortened
        yield f"{output.get('ename')}: {value}"


def _joined(text: object) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text or "")


def _of_export(content: bytes) -> Iterator[bytes]:
    """Entries are parted by empty lines; a field is `NAME=value`, or `NAME`, its length and its value."""
    place = 0
    fields: dict[bytes, bytes] = {}
    while place < len(content):
        end = content.find(b"\n", place)
        end = len(content) if end < 0 else end
        line = content[place:end]
        place = end + 1
        if not line:
            yield _entry(fields)
            fields = {}
        elif b"=" in line:
            name, _, value = line.partition(b"=")
            fields[name] = value
        else:
            length = int.from_bytes(content[place : place + _LENGTH_BYTES], "little")
            begin = place + _LENGTH_BYTES
            fields[line] = content[begin : begin + length]
            place = begin + length + 1
    yield _entry(fields)


def _of_json(content: bytes) -> Iterator[bytes]:
    for line in content.splitlines():
        if not line.strip():
            continue
        entry = json.loads(line)
        message = entry.get("MESSAGE")
        raw = bytes(message) if isinstance(message, list) else str(message or "").encode("utf-8", "replace")
        stamp = str(entry.get("__REALTIME_TIMESTAMP") or "").encode()
        yield _entry({b"MESSAGE": raw, b"__REALTIME_TIMESTAMP": stamp})


def _entry(fields: dict[bytes, bytes]) -> bytes:
    message = fields.get(b"MESSAGE")
    if not message:
        return b""
    stamp = fields.get(b"__REALTIME_TIMESTAMP", b"")
    when = b""
    if stamp.isdigit() and len(stamp) <= 17:
        moment = datetime.fromtimestamp(int(stamp) / 1e6, timezone.utc)
        when = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ ").encode()
    return b"".join(when + line + b"\n" for line in message.rstrip(b"\n").split(b"\n"))
