"""Whole numbers in text that others wrote: the environment, a version, a message, a file of the kernel's."""

from __future__ import annotations

_MOST_DIGITS = 19
"""Of a 64-bit number: `int` refuses thousands of digits, and a record could not hold what is longer."""


def whole_number(text: str) -> int | None:
    """The number, where the text is some plain digits; None otherwise. `isdigit` alone takes a superscript, too."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
