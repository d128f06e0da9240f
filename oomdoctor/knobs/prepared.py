"""Tables that ship with oomdoctor, read beforehand: what their YAML says as a pickle of plain records.

`scripts/make_prepared.py` writes such a file; it is used only where its key is that of everything it was made from, the
texts and the code that reads them, as they are on this machine now. Anything else is read from the YAML, which takes
longer and comes to the same. It is a part of the package as its code is: nobody else's pickle is opened here, and one
that names anything but records of these modules is not used.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent
_PROTOCOL = 4
_KEY_BYTES = hashlib.sha256().digest_size


def key_of(files: Iterable[tuple[str, Path]]) -> bytes | None:
    """What tells these named contents from any others; None where one cannot be read."""
    digest = hashlib.sha256()
    try:
        for name, path in files:
            content = path.read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
    except OSError:
        return None
    return digest.digest()


def code(*modules: str) -> list[tuple[str, Path]]:
    """The source files of modules of the package, to name for a key: `knobs/document`, `errors`."""
    return [(module, PACKAGE / f"{module}.py") for module in ("knobs/prepared", *modules)]


def prepare(value: object, key: bytes, paths: Mapping[str, str]) -> bytes:
    """The content of a prepared file. `paths` are texts of `value` that differ from place to place, by their names."""
    stored = io.BytesIO()
    _Writer(stored, {text: name for name, text in paths.items()}).dump(value)
    return key + zlib.compress(stored.getvalue(), 9)


def restore(content: bytes, paths: Mapping[str, str], records: Collection[str]) -> Any:
    """What was prepared; `records` are the modules whose classes may stand in it. Raises ValueError otherwise."""
    try:
        return _Reader(io.BytesIO(zlib.decompress(content[_KEY_BYTES:])), paths, records).load()
    except (pickle.UnpicklingError, zlib.error, EOFError, AttributeError, ImportError, LookupError, TypeError) as error:
        raise ValueError(f"not a prepared file: {error}") from error


def restored(file: Path, key: bytes | None, paths: Mapping[str, str], records: Collection[str]) -> Any:
    """What was prepared in a file, where that was made from what `key` stands for; None otherwise."""
    with suppress(OSError, ValueError):
        content = file.read_bytes()
        if key is not None and content.startswith(key):
            return restore(content, paths, records)
    return None


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, names: Mapping[str, str]) -> None:
        super().__init__(file, _PROTOCOL)
        self.names = names

    def persistent_id(self, value: object) -> str | None:
        return self.names.get(value) if type(value) is str else None


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, paths: Mapping[str, str], records: Collection[str]) -> None:
        super().__init__(file)
        self.paths, self.records = paths, records

    def persistent_load(self, name: str) -> str:
        return self.paths[name]

    def find_class(self, module: str, name: str) -> Any:
        if module not in self.records:
            raise pickle.UnpicklingError(f"{module}.{name} is no record of a table")
        return super().find_class(module, name)
