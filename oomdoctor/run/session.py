"""One watched run from start to end: joins child, relay, watch and bundle."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..bundle.write import BundleWriter, holds_incident
from ..errors import BundleError
from ..language import N_
from .baseline import Baseline, read_baseline
from .child import CannotStart, Child, block_signals, let_go_of_inherited, restore_signals
from .relay import Relay
from .signals import FORWARDED
from .terminal import Stream, is_interactive_shell, occupy_closed_numbers, open_streams

if TYPE_CHECKING:
    from ..model.host import OomCounters
    from .capture import StreamCapture
    from .watch import Watch

PROBE_SITE = Path(__file__).resolve().parent.parent / "probe" / "site"

UNWRITTEN = N_("part of the evidence")
"""Not seen because it could not be written, in the words of `RunOutcome.unseen`."""

_LONGEST_SOCKET = 100
"""The kernel takes 107 bytes for the name of a Unix socket."""

_STOPPING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
"""Signals by which people and schedulers end a command that works."""


@dataclass(frozen=True)
class RunOptions:
    """How a run is watched."""

    output: Path | None = None
    """The incident folder; None: `reports/<time>-<name>`."""
    name: str | None = None
    """Names the incident folder; None: after the command."""
    interval_seconds: float = 0.5
    probe: bool = True
    stacks: str | None = None
    """`always`, `adaptive` or `never`: when the probe records stacks of allocations; None: the probe's default."""
    history: str | None = None
    """How many allocator events the probe keeps, or `off`; None: as it sees fit."""
    look_at_end: bool = False
    """Look also when a process that used a device ends in order, which it waits for: a few milliseconds."""
    keep_output_bytes: int = 5 << 20
    """Kept of each stream: a fifth from its beginning, the rest from its end; 0: the command has the wrapper's own."""
    model: Mapping[str, object] | None = None
    """What to keep of the model that the command runs, for the reports."""
    launch_config: Mapping[str, object] | None = None
    """What to keep of the launcher's file that the command names, likewise."""
    trainer_settings: Mapping[str, object] | None = None
    """What to keep of the trainer's own file of settings, likewise."""


@dataclass(frozen=True)
class RunOutcome:
    """What became of the command, and where the evidence is."""

    bundle: Path | None
    """None: no folder could be written anywhere."""
    status: int | None
    signal: int | None
    """The signal that killed the command; None when it ended with `status`."""
    out_of_memory_seen: bool | None
    """None: it was killed, and nothing says why."""
    stopped_from_outside: bool = False
    """It ended on a signal that was sent to it through the wrapper, such as ^C."""
    unseen: tuple[tuple[str, str, str], ...] = ()
    """(what, why, how to get it)."""

    @property
    def deserves_report(self) -> bool:
        """Whether it ended badly or met an out-of-memory event."""
        if self.out_of_memory_seen is not False:
            return True
        return self.status != 0 and not self.stopped_from_outside


def run_command(command: Sequence[str], options: RunOptions) -> RunOutcome:
    """Run `command` under watch until it ends; to be called from the main thread of a process made for it.

    It lets go of this process's stdin and stdout, which are the command's; stderr stays. Trouble with watching is told
    in the outcome and never ends the run. Raises CannotStart when there is no such command.
    """
    numbers = occupy_closed_numbers()
    unseen: list[tuple[str, str, str]] = []
    writer = _open_bundle(command, options, unseen)
    before = read_baseline()
    inherited = block_signals()
    try:
        streams = () if _keeps_its_own(command, numbers, options, unseen) else _open_streams(numbers, unseen)
        relay = _start_relay(streams, writer, options, unseen)
        if relay is None:
            streams = ()
        witness = relay or _NoWitness()
        try:
            environment = _environment(writer, options, unseen)
            child = Child.start(command, environment, streams, inherited, witness)
        except CannotStart:
            _close_child_ends(streams)
            if relay is not None:
                relay.finish()
            if writer is not None:
                writer.discard()
            raise
        _close_child_ends(streams)
        let_go_of_inherited()
        watch: Watch | None = None
        if writer is not None:
            with _never_raising(unseen):
                watch = _start_watch(writer, command, options, before, child, environment)
        end = child.wait(witness, lambda: _resize(streams))
        ended = time.time()
        seen: bool | None = False
        if relay is not None:
            with _never_raising(unseen):
                unseen += _unwritten(relay.finish())
        if writer is not None:
            counters: OomCounters | None = None
            with _never_raising(unseen):
                if watch is not None:
                    counters = watch.finish(crashed=end.status != 0)
                    unseen += watch.unseen
            unseen += _unwritten(writer.failures)
            for what, why, how in unseen:
                writer.append("unseen", {"what": what, "why": why, "how": how})
            received = sorted(child.received)
            writer.append("exit", {"status": end.status, "signal": end.signal, "ended": ended, "received": received})
            writer.close()
            with _never_raising(unseen):
                from .signs import out_of_memory_seen

                seen = out_of_memory_seen(writer.directory, counters, end.status, end.signal)
    finally:
        while signal.sigtimedwait(FORWARDED, 0) is not None:
            pass  # what came at the moment of the end was for the command
        restore_signals(inherited)
    return RunOutcome(
        bundle=None if writer is None else writer.directory,
        status=end.status,
        signal=end.signal,
        out_of_memory_seen=seen,
        stopped_from_outside=bool(child.received & _STOPPING),
        unseen=tuple(unseen),
    )


@contextlib.contextmanager
def _never_raising(unseen: list[tuple[str, str, str]]) -> Iterator[None]:
    """The command runs: no trouble of ours may keep its end from whoever waits for it."""
    try:
        yield
    except Exception as error:
        unseen.append((UNWRITTEN, f"{type(error).__name__}: {error}", N_("report this to oomdoctor")))


def _unwritten(failures: Sequence[str]) -> list[tuple[str, str, str]]:
    return [(UNWRITTEN, failure, N_("name a folder with more room with --output")) for failure in failures]


class _NoWitness:
    """Where no relay could be started: every signal is taken to be for the wrapper alone."""

    pid = 0

    def saw(self, number: int) -> bool:
        return False

    def forget(self) -> None:
        return None

    def nothing_is_pending(self) -> None:
        return None

    def stopped(self, pid: int) -> None:
        return None

    def awake(self) -> None:
        return None


def _open_bundle(
    command: Sequence[str], options: RunOptions, unseen: list[tuple[str, str, str]]
) -> BundleWriter | None:
    name = _plain(options.name or _name_of(command))
    wanted = options.output or Path("reports") / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    try:
        # absolute, for the command may change its directory, and so may its children
        return BundleWriter(_free(Path(os.path.abspath(wanted))))
    except (BundleError, OSError) as error:  # OSError: the folder that we are in was removed
        unseen.append((N_("the incident folder asked for"), str(error), N_("name a writable folder with --output")))
    import tempfile  # rarely needed, and the command waits

    try:
        return BundleWriter(Path(tempfile.mkdtemp(prefix=f"oomdoctor-{name}-")))
    except (OSError, BundleError) as error:
        unseen.append((N_("the incident folder asked for"), str(error), N_("name a writable folder with --output")))
    return None


def _free(directory: Path) -> Path:
    """The folder, or the first of `<folder>-2`, `-3` … that holds no earlier incident: none is ever overwritten."""
    candidate, number = directory, 1
    while holds_incident(candidate):
        number += 1
        candidate = directory.with_name(f"{directory.name}-{number}")
    return candidate


def _name_of(command: Sequence[str]) -> str:
    """The script or program, without folder and suffix: `train` for `python -u jobs/train.py --lr 1`."""
    words = [os.path.basename(word) for word in command]
    script = next((word for word in words[1:] if word.endswith((".py", ".sh"))), words[0])
    return script.rpartition(".")[0] if script.endswith((".py", ".sh")) else script


def _plain(name: str) -> str:
    """As a folder may be called everywhere: letters of any script, digits, `.`, `_` and `-`."""
    kept = "".join(each if each in "._-" or unicodedata.category(each)[0] in "LMN" else " " for each in name)
    plain = re.sub(r"[ -]+", "-", kept).strip("-.")[:_LONGEST_NAME]
    while len(plain.encode("utf-8")) > _LONGEST_NAME_BYTES:
        plain = plain[:-1]
    try:
        os.fsencode(plain)
    except UnicodeEncodeError:  # a locale that cannot spell it
        plain = plain.encode("ascii", "ignore").decode().strip("-.")
    return plain or "run"


_LONGEST_NAME, _LONGEST_NAME_BYTES = 60, 150


def _start_watch(
    writer: BundleWriter,
    command: Sequence[str],
    options: RunOptions,
    before: Baseline,
    child: Child,
    environment: dict[str, str],
) -> Watch:
    # loaded while the command starts, on another core, not before it
    from .watch import Watch

    _write_manifest(writer, command, options, child.started)
    watch = Watch(writer, options.interval_seconds, before, environment.get("OOMDOCTOR_SOCKET"))
    watch.start(child.pid)
    return watch


def _write_manifest(writer: BundleWriter, command: Sequence[str], options: RunOptions, started: float) -> None:
    from ..bundle.redact import mask_command, mask_environment
    from ..collect.host import describe_host

    directory = None
    with contextlib.suppress(OSError):
        directory = os.getcwd()
    writer.write_manifest(
        {
            "oomdoctor": __version__,
            "command": mask_command(command),
            "working_directory": directory,
            "started": started,
            "sample_interval_seconds": options.interval_seconds,
            "probe": options.probe,
            "host": describe_host(),
            "variables": mask_environment(os.environ),
        }
    )
    if options.model is not None:
        writer.append("model", {"kept": options.model})
    if options.launch_config is not None:
        writer.append("launch-config", {"kept": options.launch_config})
    if options.trainer_settings is not None:
        writer.append("trainer-settings", {"kept": options.trainer_settings})


def _environment(
    writer: BundleWriter | None, options: RunOptions, unseen: list[tuple[str, str, str]]
) -> dict[str, str]:
    """The command's environment: unchanged but for what the probe needs."""
    environment = dict(os.environ)
    for name in ("OOMDOCTOR_SOCKET", "OOMDOCTOR_LOOK_AT_END"):
        environment.pop(name, None)
    _undo_coercion(environment)
    if writer is None or not options.probe:
        return environment
    if os.pathsep in str(PROBE_SITE):
        unseen.append(
            (
                N_("the inside of the command"),
                N_("{PROBE_SITE} cannot be put on PYTHONPATH").format(PROBE_SITE=PROBE_SITE),
                N_("install elsewhere"),
            )
        )
        return environment
    path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{PROBE_SITE}{os.pathsep}{path}" if path else str(PROBE_SITE)
    environment["OOMDOCTOR_BUNDLE"] = str(writer.directory)
    environment["OOMDOCTOR_PROBE_SITE"] = str(PROBE_SITE)
    for name, value in (("OOMDOCTOR_STACKS", options.stacks), ("OOMDOCTOR_HISTORY", options.history)):
        if value is not None:
            environment[name] = value
    if options.look_at_end:
        environment["OOMDOCTOR_LOOK_AT_END"] = "1"
    environment["OOMDOCTOR_SOCKET"] = socket_path(writer.directory)
    return environment


def socket_path(directory: Path) -> str:
    """Where the probe may ask for a look: in the incident folder, or in /tmp where that name is too long."""
    path = str(directory / ".ask")
    return path if len(os.fsencode(path)) <= _LONGEST_SOCKET else f"/tmp/oomdoctor-{os.urandom(8).hex()}.ask"


def _undo_coercion(environment: dict[str, str]) -> None:
    """Take back LC_CTYPE, which Python sets for itself and its children where it finds the locale C (PEP 538)."""
    with contextlib.suppress(OSError):
        original = Path("/proc/self/environ").read_bytes().split(b"\0")
        value = next((item[9:] for item in original if item.startswith(b"LC_CTYPE=")), None)
        if value is None:
            environment.pop("LC_CTYPE", None)
        else:
            environment["LC_CTYPE"] = os.fsdecode(value)


def _keeps_its_own(
    command: Sequence[str], numbers: tuple[int, ...], options: RunOptions, unseen: list[tuple[str, str, str]]
) -> bool:
    """Whether the command writes to the wrapper's own streams, of which then nothing is kept."""
    if options.keep_output_bytes == 0:
        why, how = N_("nothing of it was to be kept"), N_("--keep-output with a size")
    elif is_interactive_shell(command) and numbers == (1, 2) and all(os.isatty(number) for number in range(3)):
        why = N_("an interactive shell has the terminal itself, for its jobs")
        how = N_("run the program itself under oomdoctor, in that shell")
    else:
        return False
    unseen.append((N_("the command's output"), why, how))
    return True


def _open_streams(numbers: tuple[int, ...], unseen: list[tuple[str, str, str]]) -> tuple[Stream, ...]:
    try:
        return open_streams(numbers)
    except OSError as error:
        unseen.append(
            (
                N_("the command's output"),
                N_("no pipe or terminal: {strerror}").format(strerror=error.strerror),
                N_("redirect it to a file"),
            )
        )
        return ()


def _start_relay(
    streams: tuple[Stream, ...],
    writer: BundleWriter | None,
    options: RunOptions,
    unseen: list[tuple[str, str, str]],
) -> Relay | None:
    head = options.keep_output_bytes // 5

    def make_capture(log_name: str) -> StreamCapture | None:
        if writer is None:
            return None
        from .capture import StreamCapture  # loaded in the relay, beside the command

        return StreamCapture(writer.directory / log_name, head, options.keep_output_bytes - head)

    try:
        return Relay(streams, make_capture, FORWARDED)
    except OSError as error:
        unseen.append(
            (
                N_("the command's output"),
                N_("no process to pass it on: {strerror}").format(strerror=error.strerror),
                N_("redirect it to a file"),
            )
        )
        for stream in streams:
            os.close(stream.source)
        _close_child_ends(streams)
        return None


def _resize(streams: Sequence[Stream]) -> bool:
    """Give every terminal of the command the size of the real one; whether that changed any."""
    return sum(stream.copy_window_size() for stream in streams) > 0


def _close_child_ends(streams: Sequence[Stream]) -> None:
    for stream in streams:
        os.close(stream.child_end)
