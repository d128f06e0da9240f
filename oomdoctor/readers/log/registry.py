"""The one table of message families."""

from __future__ import annotations

from .family import Family

ALL_FAMILIES: tuple[Family, ...] = ()
"""In the order in which the patterns of one line are tried."""
