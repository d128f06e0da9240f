"""Why it cannot be done."""

from __future__ import annotations

import errno


class CannotEmulate(Exception):
    """The emulated device does not work here; the message says why, in a sentence."""

    def sentence(self) -> str:
        """The message, with one full stop."""
        return f"{str(self).rstrip('. ')}."


def cannot_write(what: str, error: OSError, otherwise: str) -> CannotEmulate:
    """`what` could not be written; `otherwise` is what to do where the disk is not simply full."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CannotEmulate(f"{what} cannot be written: the disk is full")
    return CannotEmulate(f"{what} cannot be used: {error.strerror or error}; {otherwise}")
