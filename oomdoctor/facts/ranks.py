"""ranks.*: which ranks failed, which only lost their peer."""

from __future__ import annotations

from ..language import N_
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.run import RunRecord
from ..model.source import Source
from .host_errors import last_host_error, own_host_errors
from .incidents import latest_device_failures, rank_of
from .one_failure import is_bare_kill

_LOST = (
    "connection closed by remote peer",
    "connection reset by peer",
    "connection closed by peer",
    "closed by remote",
    "socketprogress",
)


def derive(evidence: Evidence, facts: FactSet) -> None:
    """World size as stated, ranks that failed, and peers that only report a lost connection."""
    for event in reversed(evidence.of_kind(EventKind.PARALLELISM)):
        for name in ("world_size", "tensor_parallel"):
            facts.put("ranks.count", event.size(name), event.source)
        facts.put("host.workers", event.size("workers"), event.source)
        facts.put("chosen.loader_workers", event.size("workers"), event.source)
    failures = latest_device_failures(evidence)
    named = [event for event in failures if event.rank is not None]
    if named:
        facts.put("ranks.failed", len({event.rank for event in named}), named[0].source)
        facts.put("ranks.first_failed", N_("rank {rank}").format(rank=named[0].rank), named[0].source)
    seen = {event.rank for event in evidence.events if event.rank is not None}
    if seen:
        facts.put("ranks.seen", len(seen), next(e for e in evidence.events if e.rank is not None).source)
    for run in evidence.runs:
        known = {p.rank for p in run.processes if p.rank is not None}
        if known:
            sample = next(p for p in run.processes if p.rank is not None)
            source = next((r.source for r in run.device_ooms), None) or _run_source(run.path, sample.pid)
            facts.put("ranks.count", len(known), source)
        failed = sorted((r for r in run.device_ooms if r.rank is not None), key=lambda r: r.time_seconds)
        if failed:
            facts.put("ranks.failed", len({r.rank for r in failed}), failed[0].source)
            facts.put("ranks.first_failed", N_("rank {rank}").format(rank=failed[0].rank), failed[0].source)
        lost = next((e for e in run.exceptions if e.rank is not None and _tells_of_a_lost_peer(e.message)), None)
        if lost is not None:
            facts.put("ranks.peers_lost_connection", True, lost.source)
        if not failed and not named:
            _put_host_failures(run, facts)
    if facts.value("ranks.first_failed") is None:
        _put_killed(evidence, facts)
    for event in evidence.of_kind(EventKind.PEER_LOST):
        facts.put("ranks.peers_lost_connection", True, event.source)
    for event in evidence.of_kind(EventKind.EXCEPTION, EventKind.ACCELERATOR_ERROR):
        if _tells_of_a_lost_peer(f"{event.text} {event.word('message') or ''}"):
            facts.put("ranks.peers_lost_connection", True, event.source)


def _tells_of_a_lost_peer(text: str) -> bool:
    return any(word in text.lower() for word in _LOST)


def _put_host_failures(run: RunRecord, facts: FactSet) -> None:
    ranks = {error.rank for error in own_host_errors(run) if error.fatal and error.rank is not None}
    first = last_host_error(run)
    if ranks and first is not None and first.rank is not None:
        facts.put("ranks.failed", len(ranks), first.source)
        facts.put("ranks.first_failed", N_("rank {rank}").format(rank=first.rank), first.source)


def _put_killed(evidence: Evidence, facts: FactSet) -> None:
    """A launcher tells which of its processes it found killed; those it ended itself tell of another signal."""
    for event in evidence.of_kind(EventKind.PROCESS_KILLED):
        rank = rank_of(event, evidence)
        if rank is not None and is_bare_kill(event) and event.size("signal") in (9, -9):
            facts.put("ranks.first_killed", N_("rank {rank}").format(rank=rank), event.source)
            return


def _run_source(path: str, pid: int) -> Source:
    return Source(path=path, record=N_("process {pid}").format(pid=pid))
