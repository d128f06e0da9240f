"""Any mix of inputs → one Evidence. What cannot be read is refused with the reason, and the rest goes on."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO, BinaryIO, cast

from ..bundle.read import leads_inside, read_bundle
from ..errors import OomdoctorError
from ..language import N_
from ..model.devices import DeviceReading
from ..model.diagnosis import Excerpt, InputRecord
from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.run import RunRecord
from ..model.snapshot import Snapshot
from .bundle import is_bundle, read_run
from .identify import HEAD_BYTES, InputKind, archive_name, gunzip_head, identify, is_gzip
from .pipes import PATIENCE_LOST, PIPE_SILENT_SECONDS, VIEW_OF_THE_KERNEL, Patient, is_view_of_the_kernel, what_it_is
from .snapshot import read_snapshot
from .text import RIDDLED, is_riddled_with_zeros
from .unplaced import placed
from .wrapped import MOST_BYTES, may_be_wrapped, unwrap

MAX_FILES_IN_FOLDER = 2_000
"""A folder with more files is read up to here, in order of name, and the result says so."""

Progress = Callable[[str, int, int | None], None]
"""Is told the input, the bytes of it read so far, and all its bytes where they are known."""


def read_inputs(
    paths: Sequence[str | Path],
    *,
    stdin: BinaryIO | None = None,
    command: str | None = None,
    card_bytes: int | None = None,
    progress: Progress | None = None,
) -> Evidence:
    """Read files, folders, bundles and `-` (stdin) by what they are.

    `command` wins over a launch line that the inputs hold; `card_bytes` is the size of the card, where they do not tell
    it. Never raises for a bad input.
    """
    reading = _Reading(progress)
    for path in dict.fromkeys(str(path) for path in paths):
        if path == "-":
            reading.read_stdin(stdin)
        else:
            reading.read_path(Path(path), path)
    return replace(reading.evidence(command), card_bytes=card_bytes)


@dataclass
class _Reading:
    """The evidence while it is being gathered."""

    progress: Progress | None
    inputs: list[InputRecord] = field(default_factory=list)
    events: list[LogEvent] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    devices: list[DeviceReading] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)
    excerpts: list[Excerpt] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    """Files and folders by device and inode: one given again by another name would count each failure twice."""

    def evidence(self, command: str | None) -> Evidence:
        if command is None and self.runs:
            command = shlex.join(self.runs[0].command)
        return Evidence(
            inputs=tuple(self.inputs),
            events=tuple(self.events),
            snapshots=tuple(self.snapshots),
            devices=placed(self.devices, self.events, self.snapshots, self.runs),
            runs=tuple(self.runs),
            excerpts=tuple(self.excerpts),
            command=command,
        )

    def record(self, path: str, kind: str, status: str, why: str = "") -> None:
        self.inputs.append(InputRecord(path, kind, status, why))

    def read_path(self, path: Path, shown: str) -> None:
        try:
            if not shown:  # which `Path` takes for the folder that we are in
                self.record(shown, "unknown", "refused", N_("the name is empty"))
            elif path.exists() and not self._is_new(path):
                return
            elif path.is_dir():
                self._read_folder(path, shown)
            elif path.is_file():
                self._read_file(path, shown)
            elif path.is_fifo():
                self._read_fifo(path, shown)
            elif path.exists():
                self.record(shown, "unknown", "refused", what_it_is(path))
            else:
                self.record(shown, "unknown", "refused", N_("no such file or folder; look at how the path is written"))
        except OSError as error:
            self.record(shown, "unknown", "refused", why_not(error))

    def read_stdin(self, stdin: BinaryIO | None) -> None:
        if stdin is None:
            self.record("-", "unknown", "refused", N_("there is no standard input"))
            return
        try:
            self._read_pipe(stdin, "-")
        except OSError as error:  # opened for writing only, or the disk has no room for it
            self.record("-", "unknown", "refused", why_not(error))

    def _is_new(self, path: Path) -> bool:
        """Whether this is the first time that the file or folder comes up."""
        status = path.stat()
        identity = (status.st_dev, status.st_ino)
        if identity in self.seen:
            return False
        self.seen.add(identity)
        return True

    def _read_fifo(self, path: Path, shown: str) -> None:
        """What a shell makes of `<(kubectl logs trainer-0)`. Opening never waits: without a writer it is empty."""
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb", buffering=0) as stream:
            patient = Patient(stream, PIPE_SILENT_SECONDS)
            self._read_pipe(cast(BinaryIO, patient), shown)
        if patient.gave_up:
            last = self.inputs[-1]
            why = f"{PATIENCE_LOST}; {last.why}" if last.why and patient.count else PATIENCE_LOST
            self.inputs[-1] = replace(last, status="partly" if patient.count else "refused", why=why)

    def _read_pipe(self, stream: BinaryIO, shown: str) -> None:
        head = stream.read(HEAD_BYTES)
        kind = identify(head)
        if kind is InputKind.SNAPSHOT:
            self.record(shown, InputKind.SNAPSHOT.value, "refused", N_("a snapshot is read from a file: give its path"))
        else:
            self._read_stream(cast(BinaryIO, _Resumed(head, stream)), head, kind, shown)

    def _read_folder(self, folder: Path, shown: str) -> None:
        if is_bundle(folder):
            self._read_bundle(folder, shown)
            return
        before = len(self.inputs)

        def named(path: Path) -> str:
            return shown if path == folder else f"{shown.rstrip('/')}/{path.relative_to(folder)}"

        def refuse(path: Path, error: OSError) -> None:
            self.record(named(path), "folder", "refused", why_not(error))

        files = list(_files_below(folder, MAX_FILES_IN_FOLDER + 1, refuse))
        new = [path for path in files[:MAX_FILES_IN_FOLDER] if self._is_new(path)]
        for path in new:
            inside = named(path)
            if self.progress is not None:
                self.progress(inside, 0, None)  # a folder of many small files takes long too
            if path.is_dir():
                self._read_bundle(path, inside)
            else:
                self._read_file(path, inside)
        if len(files) > MAX_FILES_IN_FOLDER:
            self.record(
                shown,
                "folder",
                "partly",
                N_("only the first {MAX_FILES_IN_FOLDER} files were read").format(
                    MAX_FILES_IN_FOLDER=f"{MAX_FILES_IN_FOLDER:,}"
                ),
            )
        elif all(record.status == "refused" for record in self.inputs[before:]) and len(new) == len(files):
            self.record(
                shown,
                "folder",
                "refused",
                N_(
                    "it holds no log, snapshot, nvidia-smi output or incident bundle; name the folder that the run "
                    "wrote, or its files"
                ),
            )

    def _read_bundle(self, folder: Path, shown: str) -> None:
        """A bundle's parts are named relative to it, so that the report is the same wherever the bundle lies."""
        prefix = "" if not self.runs else f"{folder.name}/"
        try:
            bundle = read_run(folder, prefix)
        except OomdoctorError as error:
            self.record(shown, "bundle", "refused", str(error))
            return
        self.runs.append(bundle.run)
        self.record(
            folder.resolve().name,
            "bundle",
            "read" if bundle.run.complete and not bundle.problems else "partly",
            "; ".join(bundle.problems),
        )
        before = len(self.events)
        for path in filter(self._is_new, (*bundle.logs, *bundle.snapshots)):
            self._read_file(path, f"{prefix}{path.relative_to(folder)}", quiet=True)
        if bundle.run.counters.cgroup_kills == 0:
            # The kernel's log is the whole machine's: what it killed meanwhile was somebody else's.
            named = f"{prefix}kernel.log"
            self.events[before:] = [
                event
                for event in self.events[before:]
                if event.kind is not EventKind.KERNEL_OOM or event.source.path != named
            ]

    def _read_file(self, path: Path, shown: str, quiet: bool = False) -> None:
        """`quiet`: an empty file is no news (a bundle's stderr.log of a silent program)."""
        if is_view_of_the_kernel(path):
            self.record(shown, "unknown", "refused", VIEW_OF_THE_KERNEL)
            return
        try:
            with path.open("rb") as stream:
                head = stream.read(HEAD_BYTES)
                stream.seek(0)
                if quiet and not head:
                    return
                kind = identify(head)
                if kind is InputKind.SNAPSHOT:
                    self._read_snapshot(path, shown)
                else:
                    self._read_stream(stream, head, kind, shown, os.fstat(stream.fileno()).st_size)
        except OSError as error:
            self.record(shown, "unknown", "refused", why_not(error))

    def _read_snapshot(self, path: Path, shown: str) -> None:
        try:
            progress = self.progress
            snapshot = read_snapshot(
                path, shown, None if progress is None else lambda done, size: progress(shown, done, size)
            )
        except OomdoctorError as error:
            self.record(shown, InputKind.SNAPSHOT.value, "refused", str(error))
            return
        self.snapshots.append(snapshot)
        unknown = (
            N_("parts not understood: {names}").format(names=", ".join(snapshot.unknown_keys))
            if snapshot.unknown_keys
            else ""
        )
        self.record(shown, InputKind.SNAPSHOT.value, "partly" if unknown else "read", unknown)

    def _read_stream(
        self, stream: IO[bytes], head: bytes, kind: InputKind, shown: str, size_bytes: int | None = None
    ) -> None:
        if may_be_wrapped(head):
            content = _all_of(stream)
            unwrapped = unwrap(content) if len(content) <= MOST_BYTES else None
            if unwrapped is not None:
                self._read_log(io.BytesIO(unwrapped.text), shown, len(unwrapped.text), unwrapped.why)
                return
            stream = cast(BinaryIO, _Resumed(content, cast(BinaryIO, stream)))
        if kind is InputKind.LOG:
            self._read_log(stream, shown, size_bytes)
        elif kind is InputKind.EMPTY:
            why = N_("the file is empty; copy it again, or have it written anew")
            if is_gzip(head) and head:
                why = N_("it is a damaged gzip file; copy it again, or have it written anew")
            self.record(shown, kind.value, "refused", why)
        elif kind is InputKind.ARCHIVE:
            content = gunzip_head(head) if is_gzip(head) else head
            self.record(
                shown,
                kind.value,
                "refused",
                N_("it is {archive_name}: unpack it and give what is inside").format(
                    archive_name=archive_name(content) or N_("a gzip file in another")
                ),
            )
        elif is_riddled_with_zeros(gunzip_head(head) if is_gzip(head) else head):
            self.record(shown, kind.value, "refused", RIDDLED)
        else:
            self.record(
                shown,
                kind.value,
                "refused",
                N_("it is binary data, neither a snapshot nor text; give the log or the snapshot"),
            )

    def _read_log(self, stream: IO[bytes], shown: str, size_bytes: int | None, why: str = "") -> None:
        """`why`: what the text was taken from, where it is not the file itself."""
        # Imported late: it takes a tenth of a second, and a snapshot needs none of it.
        from .log.engine import read_log

        progress = self.progress
        reading = read_log(
            cast(BinaryIO, stream),
            shown,
            progress=None if progress is None else lambda done: progress(shown, done, size_bytes),
        )
        self.events += reading.events
        self.excerpts += reading.excerpts
        self.devices += reading.device_readings
        only_devices = bool(reading.device_readings) and not reading.events
        notes = "; ".join(reading.notes)
        kind = "nvidia-smi" if only_devices else "document" if reading.is_document else "log"
        self.record(shown, kind, "partly" if notes else "read", "; ".join(filter(None, (notes, why))))


def _all_of(stream: IO[bytes]) -> bytes:
    """All that it holds, up to one byte more than is unwrapped; a pipe gives it in pieces."""
    pieces, left = [], MOST_BYTES + 1
    while left > 0 and (piece := stream.read(min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def why_not(error: OSError) -> str:
    """Why a file cannot be opened, and what to do where that is plain."""
    if isinstance(error, PermissionError):
        return N_("you may not read it; copy it, or ask as a user who may")
    return error.strerror or str(error)


def snapshots_below(folder: Path) -> list[Path]:
    """The snapshots in a folder, an incident bundle or not, that `read_inputs` would read there, in order of name.

    Raises InputRefused for a bundle that cannot be read.
    """

    def is_snapshot(path: Path) -> bool:
        try:
            with path.open("rb") as stream:
                return identify(stream.read(HEAD_BYTES)) is InputKind.SNAPSHOT
        except OSError:
            return False

    if is_bundle(folder):
        return list(read_bundle(folder).snapshots)
    found: list[Path] = []
    for path in islice(_files_below(folder, MAX_FILES_IN_FOLDER, lambda path, error: None), MAX_FILES_IN_FOLDER):
        if path.is_dir():
            found += read_bundle(path).snapshots
        elif is_snapshot(path):
            found.append(path)
    return found


class _Resumed:
    """A stream of which the first bytes have been taken already."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        if not self._head:
            return self._rest.read(size)
        piece, self._head = self._head[:size], self._head[size:]
        return piece


def _files_below(folder: Path, most: int, refuse: Callable[[Path, OSError], None]) -> Iterator[Path]:
    """Files and bundles below `folder` in order of name; links that lead out of it are passed over.

    `refuse` is told of each folder that cannot be listed; the others are read all the same.
    """
    root, count = folder.resolve(), 0
    stack = [folder]
    while stack:
        listed = stack.pop()
        try:
            children = sorted(listed.iterdir())
        except OSError as error:
            refuse(listed, error)
            continue
        below = []
        for child in children:
            if not leads_inside(child, root):
                continue
            if child.is_dir() and not is_bundle(child):
                if not child.is_symlink():  # where it leads is read in its own place
                    below.append(child)
            elif child.is_file() or child.is_dir():
                yield child
                count += 1
                if count >= most:
                    return
        stack += reversed(below)
