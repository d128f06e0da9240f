"""One run of a setting: what it held at most, and how it ended."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..bundle.redact import is_secret_name, mask_command, mask_text
from ..collect.nvml_process import read_devices
from ..diagnose import diagnose
from ..errors import BundleError
from ..language import _, ngettext, tidy
from ..model.diagnosis import Diagnosis, Verdict
from ..model.printable import one_line
from ..model.run import RunRecord
from ..model.units import format_seconds
from ..readers.bundle import read_run
from ..report import render
from ..run.session import RunOptions
from .outcomes import Attempt, Kind
from .peaks import peaks_of
from .process import Ended, run_watched
from .variables import fill

_MOST_WORDS = 300


class CannotRun(Exception):
    """The command does not start at all, or nothing of it could be recorded: no setting will do better."""


@dataclass(frozen=True)
class Recipe:
    """How every setting is run."""

    command: tuple[str, ...]
    """With placeholders."""
    environment: tuple[tuple[str, str], ...] = ()
    timeout_seconds: float | None = None
    until: str | None = None
    interval_seconds: float = 0.1

    @property
    def shown(self) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """Command and variables without the secrets in them."""
        hidden = ((name, "<masked>" if is_secret_name(name) else mask_text(value)) for name, value in self.environment)
        return mask_command(self.command), tuple(hidden)

    @property
    def digest(self) -> str:
        """Tells recipes apart that show alike."""
        told = json.dumps([self.command, self.environment, self.until])
        return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()


def measure(recipe: Recipe, values: Mapping[str, str], folder: Path, say: Callable[[str], None]) -> Attempt:
    """Run the setting once; its incident folder goes below `folder`. Raises Interrupted and CannotRun."""
    before, _why = read_devices()
    options = RunOptions(
        output=folder / "runs" / _slug(values), interval_seconds=recipe.interval_seconds, look_at_end=True
    )
    command = tuple(fill(word, values) for word in recipe.command)
    environment = {name: fill(value, values) for name, value in recipe.environment}
    ended = run_watched(command, environment, options, recipe.timeout_seconds, recipe.until)
    if ended.cannot_start is not None:
        raise CannotRun(ended.cannot_start)
    if ended.bundle is None:
        raise CannotRun(_("no folder for the evidence could be written"))
    if ended.unwritten:
        raise CannotRun(_("the evidence of the run could not be written: {why}").format(why=ended.unwritten[0]))
    if ended.left_behind:
        say(
            ngettext(
                "ended because it outlived the command, and would count to the next run: {number} process",
                "ended because they outlived the command, and would count to the next run: {number} processes",
                ended.left_behind,
            ).format(number=ended.left_behind)
        )
    try:
        run = read_run(ended.bundle).run
    except BundleError as error:
        raise CannotRun(_("the evidence of the run cannot be read: {why}").format(why=error)) from error
    kind, detail, degraded = judge(ended, run, recipe, lambda: _diagnosed(ended.bundle))
    return Attempt(
        kind=kind,
        peaks=peaks_of(run, before),
        seconds=ended.seconds,
        detail=detail,
        folder=_below(ended.bundle, folder),
        degraded=degraded,
    )


def judge(
    ended: Ended, run: RunRecord, recipe: Recipe, diagnosed: Callable[[], Diagnosis | None]
) -> tuple[Kind, str, bool]:
    """How the run ended, a sentence where it was not well, and whether it was short of memory on the way.

    Only a diagnosis that says so makes it out of memory, or an allocator that refused a request, caught or not: what
    ended badly for another reason may well fit.
    """
    well = ended.reached or (ended.status == 0 and recipe.until is None and not ended.timed_out)
    diagnosis = None if well and ended.out_of_memory_seen is False else diagnosed()
    verdict = None if diagnosis is None else diagnosis.verdict
    if diagnosis is not None and (verdict is Verdict.OUT_OF_MEMORY or run.device_ooms):
        caught = " " + _("It ended well all the same.") if well else ""
        return Kind.OUT_OF_MEMORY, tidy(diagnosis.summary + caught), False
    if ended.timed_out:
        limit = format_seconds(recipe.timeout_seconds or 0)
        return Kind.TIMED_OUT, _("It had not ended after {limit}, and was ended.").format(limit=limit), False
    if well:
        return Kind.RAN, "", verdict is Verdict.DEGRADED
    return Kind.FAILED, _why(ended, run, recipe), False


def _why(ended: Ended, run: RunRecord, recipe: Recipe) -> str:
    if ended.signal is not None:
        with contextlib.suppress(ValueError):
            return _("It was killed by {name}; nothing says that memory was the reason.").format(
                name=signal.Signals(ended.signal).name
            )
        return _("It was killed by signal {signal}; nothing says that memory was the reason.").format(
            signal=ended.signal
        )
    fatal = [exception for exception in run.exceptions if exception.fatal]
    if fatal:
        error = fatal[-1]
        words = one_line(f"{error.exception_type}: {error.message}", _MOST_WORDS)
        return _("It ended with {words}").format(words=words)
    if ended.status == 0 and recipe.until is not None:
        return _("It ended before it printed {until}.").format(until=repr(one_line(recipe.until, 80)))
    if ended.status is None:
        return _("How it ended is not known.")
    return _("It ended with exit status {status}; nothing says that memory was the reason.").format(status=ended.status)


def _diagnosed(bundle: Path | None) -> Diagnosis | None:
    """The diagnosis, and the report that shows it, beside the evidence."""
    if bundle is None:
        return None
    diagnosis = diagnose([bundle])
    with contextlib.suppress(OSError):
        (bundle / "report.html").write_text(render(diagnosis, "html"), encoding="utf-8")
    return diagnosis


def _slug(values: Mapping[str, str]) -> str:
    words: Sequence[str] = [f"{name}-{value}" for name, value in values.items()]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "_".join(words)).strip("-.")[:100] or "run"


def _below(bundle: Path, folder: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(bundle.resolve().relative_to(folder.resolve()))
    return str(bundle)
