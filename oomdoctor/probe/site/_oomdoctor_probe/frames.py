"""Call stacks as records hold them: [[file, line, function, code], …], outermost first."""

from __future__ import annotations

import os

from .masking import mask_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

    Row = list[object]

_OUTERMOST = 50
_INNERMOST = 150
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def of_traceback(traceback: TracebackType | None, with_code: bool = True) -> list[Row]:
    """The frames that an exception went through."""
    return _rows(along(traceback), with_code)


def of_stack(frame: FrameType | None, with_code: bool = True) -> list[Row]:
    """The frames of a running thread, without the probe's own."""
    stack = [place for place in of_thread(frame) if not is_ours(place[0].f_code.co_filename)]
    return _rows(stack[::-1], with_code)


def of_thread(frame: FrameType | None) -> list[tuple[FrameType, int]]:
    """A frame and those that called it, innermost first, with the line where each stands."""
    found = []
    while frame is not None:
        found.append((frame, frame.f_lineno or 0))
        frame = frame.f_back
    return found


def along(traceback: TracebackType | None) -> list[tuple[FrameType, int]]:
    """Each frame of a traceback and the line it stood at, outermost first."""
    found = []
    while traceback is not None:
        # The line is computed on demand and unknown (None) where the compiler left none.
        found.append((traceback.tb_frame, traceback.tb_lineno or 0))
        traceback = traceback.tb_next
    return found


def code_at(file: str, line: int) -> str:
    """A line of source as it stands there; empty where it cannot be had."""
    try:
        import linecache

        return linecache.getline(file, line).strip()
    except Exception:
        return ""


def is_ours(file: str) -> bool:
    """Whether a file is the probe's."""
    return file.startswith(_HERE)


def is_library(file: str) -> bool:
    """Whether a file belongs to an installed package or to Python itself, not to the user's own code."""
    return "site-packages" in file or "dist-packages" in file or file.startswith(("<frozen", _STANDARD))


_STANDARD = os.path.dirname(os.__file__) + os.sep


def _rows(frames: list[tuple[FrameType, int]], with_code: bool) -> list[Row]:
    if len(frames) > _OUTERMOST + _INNERMOST:
        # A deep recursion: both ends say what matters.
        frames = frames[:_OUTERMOST] + frames[-_INNERMOST:]
    return [
        [frame.f_code.co_filename, line, frame.f_code.co_name, _code(frame, line) if with_code else ""]
        for frame, line in frames
    ]


def _code(frame: FrameType, line: int) -> str:
    try:
        import linecache

        return mask_text(linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()[:300], is_code=True)
    except Exception:
        return ""
