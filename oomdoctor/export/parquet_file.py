"""One table as Parquet, by pyarrow where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..language import _
from .tables import Table

_UNSIGNED = frozenset({"address", "stream"})
_TEXTS = frozenset({"note"})
"""Columns that may have no value at all."""


def write_parquet(table: Table, path: Path) -> None:
    """Addresses and streams as unsigned 64-bit numbers, other numbers as signed ones.

    Raises UsageError without pyarrow, OSError when the file cannot be written.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            _("Parquet needs the package pyarrow: pip install 'oomdoctor[parquet]', or use --to csv")
        ) from error

    def column(name: str) -> Any:
        values = table.columns[name]
        number = next((value for value in values if value is not None), 0)
        if isinstance(number, str) or name in _TEXTS:
            return pyarrow.array(map(_encodable, values), pyarrow.string())
        if isinstance(number, bool):
            return pyarrow.array(values, pyarrow.bool_())
        return pyarrow.array(values, pyarrow.uint64() if name in _UNSIGNED else pyarrow.int64())

    with path.open("wb") as file:  # given a path, pyarrow would remove what it could not write, a device too
        pyarrow.parquet.write_table(pyarrow.table({name: column(name) for name in table.columns}), file)


def _encodable(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()
