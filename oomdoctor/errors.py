"""The kinds of failure a user can act on, each with its exit status."""

from __future__ import annotations

from pathlib import Path


class OomdoctorError(Exception):
    """A failure with a sentence for the user: what, where, what to do.

    Only the command line turns it into an exit, with `exit_code`.
    """

    exit_code = 1


class UsageError(OomdoctorError):
    """The command was called with words it does not understand."""

    exit_code = 2


class InputRefused(OomdoctorError):
    """An input is not what it claims to be, or asks for something that is never done (running code)."""

    exit_code = 3


class BundleError(OomdoctorError):
    """An incident bundle cannot be written or read back."""

    exit_code = 3


class RuleError(OomdoctorError):
    """A rule (or knob) file is wrong; carries the place so that an editor can jump to it."""

    exit_code = 2

    def __init__(self, message: str, path: Path | str, line: int | None = None, column: int | None = None) -> None:
        """`line` and `column` count from 1; None where the place is the whole file."""
        self.message, self.path, self.line, self.column = message, str(path), line, column
        super().__init__(str(self))

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        return f"{place}: {self.message}"
