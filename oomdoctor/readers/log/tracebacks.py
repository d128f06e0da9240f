"""Python tracebacks: whole, chained, from notebooks, interleaved between ranks, and the pieces people quote."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .prefixes import strip_log_header
from .statement import event

Frame = tuple[str, int | None, str, str]
"""File, line (None where a notebook's frame was cut before its arrow), function, code."""

_HEADER = "Traceback (most recent call last)"
_DIRECT = "The above exception was the direct cause of the following exception"
_CHAINS = (
    "During handling of the above exception, another exception occurred",
    _DIRECT,
)
_FRAME = re.compile(
    r"^\s*(?:> )?File [\"']?(?P<file>[^\"'\n]{1,500}?)[\"']?"
    r"(?:, line (?P<line>\d{1,7})|:(?P<short>\d{1,7}))(?:, in (?P<function>.{1,200}))?\s*$"
)
_FUNCTION = r"[\w<>.]{1,120}(?:\(.{0,300}\))?"
_CELL = re.compile(
    r"^\s*(?P<file><ipython-input-[^>]{1,60}>|[~/.\w][^\n]{0,400}?\.py|Cell In ?\[\d{1,5}\]),? "
    rf"(?:in (?P<function>{_FUNCTION})|line (?P<line>\d{{1,7}})(?:, in (?P<function_after>{_FUNCTION}))?)\s*$"
)
_LINKED = re.compile(
    rf"^\s*\[(?P<file>[~/.\w][^\]]{{0,400}}\.py)\]\([^)\s]{{1,300}}\) in (?P<function>{_FUNCTION})\s*$"
)
"""A hosted notebook links the file."""
_RICH = re.compile(
    r"^\s*(?P<file>(?:[A-Za-z]:)?[~/.\\\w][^\s:]{0,400}\.py):(?P<line>\d{1,7}) in (?P<function>[\w<>.]{1,120})\s*$"
)
_ARROW = re.compile(r"^\s*(?:-{2,6}>|❱) {0,6}(?P<line>\d{1,7}) ?(?P<code>.{0,300})$")
_EXCEPTION = re.compile(
    r"^(?![A-Za-z]:\\)(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,10}[A-Za-z_]\w{0,80})(?:: ?(?P<message>.{0,4000}))?\s*$"
)
_NAMED_ERROR = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,10}(?:_?[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Resources|Exhausted)|Exception))"
    r"(?:: (?P<message>.{0,4000}))?\s*$"
)
_CODE = re.compile(
    r"^(?: {1,60}|\t{1,8})(?=\S)(?:(?:return|yield|await|assert|with|for|del|raise) .{0,300}"
    r"|[A-Za-z_][\w.\[\]\"', ]{0,120}(?<! ) ?(?:[-+*/|&@%]|//|\*\*)?= ?[^= ].{0,300}"
    r"|[A-Za-z_][\w.\[\]]{0,160}\(.{0,300})$"
)
"""An indented line that can only be Python: a statement, an assignment, a call."""
_ASSIGNED = re.compile(r"^[A-Za-z_][\w.]{0,60} = [A-Za-z_][\w.]{0,80}\(.{0,400}\)[\w.()]{0,40}$")
"""The result of a call given to a name: Python wherever it stands."""
_MARKERS = re.compile(r"^\s*[\^~]+\s*$")
_STEP, _MOST_LINES = 48, 1200
_MOST_FRAMES = 200
_LONGEST_MESSAGE = 2000
_LOOK_BACK = 8
_NEAREST = 3
_MOST_BOXED = 40
"""Lines of a box above the first arrow in which the header of a traceback would stand."""
_MOST_OUTSIDE = 3
"""Lines that are neither indented nor empty which a traceback's code may have lost its indentation in."""


@dataclass
class _Parsed:
    frames: list[Frame]
    exception: str | None = None
    message: str = ""


def _lines_after(line: Line) -> Iterator[str]:
    """The lines after this one without logging headers, fetched in steps: most tracebacks are short."""
    count, given = _STEP, 0
    while count <= _MOST_LINES:
        lines = line.following(count)
        for text in lines[given:]:
            yield strip_log_header(text)
        if len(lines) < count:
            return
        given, count = len(lines), count * 3


def _parse(lines: Iterator[str], parsed: _Parsed) -> _Parsed:
    """Reads frames, their code and the exception's line; stops at the first line that is none of these."""
    open_frame = bool(parsed.frames)
    strange = 0
    for text in lines:
        if frame := _frame(text):
            parsed.frames.append(frame)
            open_frame, strange = True, 0
        elif (arrow := _ARROW.match(text)) and parsed.frames:
            parsed.frames[-1] = _with_code(parsed.frames[-1], arrow["code"].lstrip("│ "), int(arrow["line"]))
        elif not text.strip() or _MARKERS.match(text) or "[Previous line repeated" in text:
            continue
        elif text[:1].isspace() or re.match(r"\d{1,6} ", text):
            # Code: of a notebook, surroundings too, of which only the arrow's line counts.
            if open_frame and text[:1].isspace() and not re.match(r"\s*\d{1,6} ", text):
                parsed.frames[-1] = _with_code(parsed.frames[-1], text.strip(), None)
            open_frame = False
        elif (found := _NAMED_ERROR.match(text)) or (
            parsed.frames and (found := _EXCEPTION.match(text)) and (found["message"] is not None)
        ):
            parsed.exception, parsed.message = found["type"], (found["message"] or "").strip()
            return parsed
        elif text.startswith(_HEADER) or any(text.startswith(chain) for chain in _CHAINS):
            return parsed
        elif open_frame:
            # Quoted without its indentation.
            parsed.frames[-1] = _with_code(parsed.frames[-1], text.strip(), None)
            open_frame = False
        else:
            strange += 1
            if strange > 2:
                return parsed
        if len(parsed.frames) > _MOST_FRAMES:
            del parsed.frames[_MOST_FRAMES // 2]
    return parsed


def _frame(text: str) -> Frame | None:
    if found := _FRAME.match(text):
        function = (found["function"] or "").partition("(")[0].strip()
        return found["file"], int(found["line"] or found["short"]), function, ""
    if found := _CELL.match(text):
        function = found["function"] or found["function_after"] or ""
        return found["file"], int(found["line"]) if found["line"] else None, function.partition("(")[0], ""
    if found := _LINKED.match(text):
        return found["file"], None, found["function"].partition("(")[0], ""
    if found := _RICH.match(text):
        return found["file"], int(found["line"]), found["function"], ""
    return None


def _with_code(frame: Frame, code: str, line: int | None) -> Frame:
    return frame[0], line or frame[1], frame[2], frame[3] if frame[3] and line is None else code.strip()[:300]


def _whole(match: re.Match[str], line: Line) -> LogEvent | None:
    parsed = _parse(_lines_after(line), _Parsed([]))
    name = _name_before(line.text[: match.start()])
    before = " ".join(line.preceding(4))
    return _event(line, parsed, name, before, complete=True)


def _name_before(text: str) -> str | None:
    """Notebooks put the exception's class at the left of the header."""
    found = re.fullmatch(r"\s*([A-Za-z_][\w.]{0,100}(?:Error|Exception|Interrupt))\s{2,120}", text)
    return found[1] if found else None


def _first_of_piece(match: re.Match[str], line: Line) -> LogEvent | None:
    """A frame that no header precedes: a piece of a traceback, read from here."""
    own = strip_log_header(line.text)
    frame = _frame(own)
    if frame is None or _continues(line):
        return None
    before = " ".join(line.preceding(4))
    parsed = _parse(_lines_after(line), _Parsed([frame]))
    return _event(line, parsed, None, before, complete=False)


def _first_of_boxes(match: re.Match[str], line: Line) -> LogEvent | None:
    """A frame in rich's box that no header precedes: its arrow stands some lines below the file."""
    before = [strip_log_header(text) for text in line.preceding(_MOST_BOXED)]
    places = [place for place, text in enumerate(before) if _RICH.match(text)]
    if not places or any(_HEADER in text or _ARROW.match(text) for text in before):
        return None
    frame, shown = _frame(before[places[-1]]), before[places[-1] + 1 :]
    if frame is None:
        return None
    parsed = _parse(itertools.chain(shown, [strip_log_header(line.text)], _lines_after(line)), _Parsed([frame]))
    return _event(line, parsed, None, "", complete=False)


def _continues(line: Line) -> bool:
    """Whether a frame or a header stands just before, with nothing but indented lines between."""
    for text in reversed(line.preceding(_LOOK_BACK)):
        text = strip_log_header(text)
        if _HEADER in text or _FRAME.match(text) or _CELL.match(text) or _LINKED.match(text):
            return True
        if _NAMED_ERROR.match(text) or any(chain in text for chain in _CHAINS):
            return False
    return False


def _event(line: Line, parsed: _Parsed, name: str | None, before: str, complete: bool) -> LogEvent | None:
    exception = parsed.exception or name
    if not parsed.frames and exception is None:
        return None
    return event(
        EventKind.EXCEPTION,
        line,
        exception_type=exception,
        message=parsed.message[:_LONGEST_MESSAGE] or None,
        frames=tuple(parsed.frames) or None,
        chained=any(chain in before for chain in _CHAINS),
        raised_from=True if _DIRECT in before else None,
        complete=complete and parsed.exception is not None,
    )


def _exception_alone(match: re.Match[str], line: Line) -> LogEvent | None:
    """An exception's line without its traceback, as people quote it."""
    own = strip_log_header(line.text).strip()
    found = _NAMED_ERROR.match(own)
    if found is None or found["message"] is None or _after_frames(line):
        return None
    return event(
        EventKind.EXCEPTION,
        line,
        exception_type=found["type"],
        message=found["message"].strip()[:_LONGEST_MESSAGE],
        frames=_frame_without_place(line),
        chained=False,
        complete=False,
    )


def _frame_without_place(line: Line) -> tuple[Frame, ...] | None:
    """The lines of code right before a quoted exception, outermost first, where their `File` lines were left out."""
    found: list[Frame] = []
    for printed in reversed(line.preceding(_NEAREST)):
        text = strip_log_header(printed)
        if _MARKERS.match(text):
            continue
        # Behind a logging header the indentation is often lost.
        if not _CODE.match(text) and not (text != printed and _CODE.match(f" {text}")) and not _ASSIGNED.match(text):
            break
        found.append(("?", None, "", text.strip()[:300]))
    return tuple(reversed(found)) or None


def _after_frames(line: Line) -> bool:
    """Whether the traceback that this exception ends stands before it (and has been read from its own first line)."""
    for count in (_NEAREST, _LOOK_BACK * 2):
        if (found := _ends_frames(line.preceding(count))) is not None:
            return found
    return False


def _ends_frames(before: list[str]) -> bool | None:
    """None when these lines do not settle it."""
    outside = 0
    for text in reversed(before):
        text = strip_log_header(text)
        if _HEADER in text or _FRAME.match(text) or _CELL.match(text) or _ARROW.match(text):
            return True
        if _NAMED_ERROR.match(text) or any(chain in text for chain in _CHAINS):
            return False
        outside += 0 if text[:1].isspace() or not text.strip() else 1
        if outside > _MOST_OUTSIDE:
            return False
    return None


_CELLS_FILE = r"^\s*File [^\"\']{1,400}:\d{1,7}, in "
"""As IPython names a frame: without quotes, the line after a colon."""

FAMILY = Family(
    "tracebacks",
    (
        Pattern(_HEADER, re.escape(_HEADER), _whole),
        Pattern(", line ", r'File ["\']?[^"\']{1,500}["\']?, line \d|Cell In', _first_of_piece),
        Pattern("  File ", _CELLS_FILE, _first_of_piece),
        Pattern("File ~", _CELLS_FILE, _first_of_piece),
        Pattern("File /", _CELLS_FILE, _first_of_piece),
        Pattern(".py](", _LINKED.pattern, _first_of_piece),
        Pattern(".py in ", r"^\s*[~/.\w]\S{0,400}\.py in [\w<>.]{1,120}\(", _first_of_piece),
        Pattern("❱ ", _ARROW.pattern, _first_of_boxes),
        Pattern("<ipython-input-", r"^\s*<ipython-input-", _first_of_piece),
        Pattern("Error: ", r"\wError: ", _exception_alone),
        Pattern("OutOfResources: ", r"^[\w.]{0,160}OutOfResources: ", _exception_alone),
    ),
)
