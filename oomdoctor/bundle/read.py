"""Reads an incident bundle back, up to its last whole record. It may come from anywhere: nothing in it is trusted."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import BundleError
from ..language import N_, _
from .records import Records, bounded_lines, read_lines
from .write import SCHEMA

MAX_MANIFEST_BYTES = 4 << 20
MAX_RECORDS_BYTES = 512 << 20
MAX_PROCESSES = 4096
MAX_SNAPSHOTS = 256

LOG_NAMES = ("stdout.log", "stderr.log", "kernel.log")
"""The logs of a bundle. `stdout.log.tail-1` … follow `stdout.log` where the run was cut off before they were joined."""

_SCHEMA_FAMILY = SCHEMA.rpartition("/")[0] + "/"
_PROBE_FILE = re.compile(r"(\d{1,10})\.records")


@dataclass(frozen=True)
class StoredBundle:
    """All that an incident folder holds, checked but not interpreted."""

    path: Path
    manifest: Mapping[str, Any]
    supervisor: Records
    probes: Mapping[int, Records]
    """By process id."""
    snapshots: tuple[Path, ...]
    logs: tuple[Path, ...]
    """In reading order; only those that exist and are not empty."""
    complete: bool
    """The supervisor lived to write its last record."""
    refused: tuple[str, ...] = ()
    """What was left alone and why, a sentence each."""

    @property
    def damaged(self) -> int:
        """How many records of the whole bundle could not be read."""
        return self.supervisor.damaged + sum(records.damaged for records in self.probes.values())


def is_bundle(path: Path) -> bool:
    """Whether `path` is a folder that says it is an incident bundle (of any version), or holds its records.

    Never raises.
    """
    try:
        told = str(_read_manifest(path).get("schema", "")).startswith(_SCHEMA_FAMILY)
    except BundleError:
        told = False
    return told or _has_records(path)


def read_bundle(path: Path) -> StoredBundle:
    """Read the bundle in the folder `path`.

    Raises BundleError when it is no bundle, or of a version this one does not know. All else that is missing, damaged
    or refused is said in the result; so is a manifest, where the records are there.
    """
    refused: list[str] = []
    manifest = _manifest(path, refused)
    schema = manifest.get("schema")
    if schema != SCHEMA:
        if isinstance(schema, str) and schema.startswith(_SCHEMA_FAMILY):
            raise BundleError(
                _("{path} was written in the format {schema}; this version of oomdoctor reads {known}").format(
                    path=path, schema=schema[:80], known=SCHEMA
                )
            )
        raise BundleError(
            _("{path} is not an incident bundle: its manifest.json does not say {schema}").format(
                path=path, schema=SCHEMA
            )
        )
    supervisor = _read_records(path, path / "supervisor.records", refused)
    probes: dict[int, Records] = {}
    for file in _listed(path / "probe", refused):
        named = _PROBE_FILE.fullmatch(file.name)
        if named and len(probes) < MAX_PROCESSES:
            probes[int(named[1])] = _read_records(path, file, refused)
    snapshots = [
        file
        for file in _listed(path / "snapshots", refused)
        if file.suffix == ".pickle" and _usable(path, file, refused)
    ]
    if len(snapshots) > MAX_SNAPSHOTS:
        refused.append(
            _("snapshots: {number} files; the first {most} are read").format(number=len(snapshots), most=MAX_SNAPSHOTS)
        )
    return StoredBundle(
        path=path,
        manifest=manifest,
        supervisor=supervisor,
        probes=probes,
        snapshots=tuple(snapshots[:MAX_SNAPSHOTS]),
        logs=tuple(_logs(path, refused)),
        complete=any(True for _ in supervisor.of_kind("exit")),
        refused=tuple(refused),
    )


def _has_records(bundle: Path) -> bool:
    return (bundle / "supervisor.records").is_file()


def _manifest(bundle: Path, refused: list[str]) -> Mapping[str, Any]:
    """The manifest, or an empty one of this version beside records that are worth reading without it."""
    file = bundle / "manifest.json"
    if not _has_records(bundle):
        return _read_manifest(bundle)
    if not os.path.lexists(file):
        # The supervisor was killed, or the disk was full, as it had opened its records and nothing else was written.
        refused.append(N_("manifest.json: it was never written"))
        return {"schema": SCHEMA}
    try:
        manifest = _read_manifest(bundle)
    except BundleError:
        refused.append(N_("manifest.json: it cannot be read, so how the command was called is not known"))
        return {"schema": SCHEMA}
    if not str(manifest.get("schema", "")).startswith(_SCHEMA_FAMILY):
        refused.append(N_("manifest.json: it is none of oomdoctor's, so how the command was called is not known"))
        return {"schema": SCHEMA}
    return manifest


def _read_manifest(bundle: Path) -> dict[str, Any]:
    file = bundle / "manifest.json"
    try:
        with _open_inside(bundle, file) as stream:
            text = stream.read(MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise BundleError(
            _("{bundle} is not a readable incident bundle: manifest.json: {why}").format(
                bundle=bundle, why=error.strerror or error
            )
        ) from error
    if len(text) > MAX_MANIFEST_BYTES:
        raise BundleError(
            _("{file} is larger than {number} MiB; no manifest is").format(file=file, number=MAX_MANIFEST_BYTES >> 20)
        )
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BundleError(_("{file} is not JSON; it was cut off or is no manifest").format(file=file)) from error
    if not isinstance(manifest, dict):
        raise BundleError(_("{file} is not a JSON object").format(file=file))
    return manifest


def leads_inside(path: Path, folder: Path) -> bool:
    """Whether `path`, its links followed, lies in `folder` (resolved already). A link in a circle leads nowhere."""
    try:
        return path.resolve().is_relative_to(folder)
    except (RuntimeError, OSError):  # before Python 3.13 a circle is a RuntimeError
        return False


def _open_inside(bundle: Path, file: Path) -> BinaryIO:
    """Open a regular file that really lies inside the bundle; raises OSError otherwise. Never waits on a pipe."""
    if not leads_inside(file, bundle.resolve()):
        raise PermissionError(1, _("a link leads out of the bundle"))
    opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise PermissionError(1, _("not a regular file"))
    return os.fdopen(opened, "rb")


def _usable(bundle: Path, file: Path, refused: list[str]) -> bool:
    try:
        _open_inside(bundle, file).close()
    except OSError as error:
        refused.append(f"{file.relative_to(bundle)}: {error.strerror or error}")
        return False
    return True


def _read_records(bundle: Path, file: Path, refused: list[str]) -> Records:
    name = file.relative_to(bundle)
    try:
        with _open_inside(bundle, file) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > MAX_RECORDS_BYTES:
                refused.append(
                    _("{name}: only its first {number} MiB were read").format(name=name, number=MAX_RECORDS_BYTES >> 20)
                )
            return read_lines(bounded_lines(stream, MAX_RECORDS_BYTES))
    except FileNotFoundError:
        return Records()
    except OSError as error:
        refused.append(f"{name}: {error.strerror or error}")
        return Records()


def _listed(folder: Path, refused: list[str]) -> list[Path]:
    try:
        # oldest first, so that the numbered snapshots of a process stay in order
        return sorted(folder.iterdir(), key=lambda file: (len(file.name), file.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        refused.append(f"{folder.name}: {error.strerror or error}")
        return []


def _logs(bundle: Path, refused: list[str]) -> list[Path]:
    logs: list[Path] = []
    for name in LOG_NAMES:
        tails = sorted(bundle.glob(f"{name}.tail-*"), key=lambda file: (len(file.name), file.name))
        for file in (bundle / name, *tails[:4]):
            if os.path.lexists(file) and _usable(bundle, file, refused) and file.stat().st_size:
                logs.append(file)
    return logs
