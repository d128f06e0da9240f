"""One table as comma-separated values."""

from __future__ import annotations

import csv
from pathlib import Path

from .tables import Column, Table

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(table: Table, path: Path) -> None:
    """UTF-8 with a header row. A text that a spreadsheet would run as a formula gets an apostrophe before it.

    Raises OSError when the file cannot be written.
    """
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.columns)
        writer.writerows(zip(*map(_inert, table.columns.values()), strict=True))


def _inert(column: Column) -> Column:
    if not any(isinstance(value, str) for value in column[:1]):
        return column
    return [f"'{value}" if value.startswith(_FORMULA) else value for value in column]
