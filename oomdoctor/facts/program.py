"""program.language: what the program that failed is written in, so that no advice is of another language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source

_OF_ALLOCATOR = {
    "numpy": "python", "python": "python", "torch-cpu": "python", "java": "java", "v8": "node", "go": "go",
    "rust": "rust", "llama.cpp": "c++", "php": "php", "ruby": "ruby", "dotnet": "dotnet", "erlang": "erlang",
}  # fmt: skip
_OF_PROGRAM = (
    (
        re.compile(r"(?:python|pypy|torchrun|accelerate|deepspeed|jupyter|ipython|pytest|gunicorn|uvicorn|celery)"),
        "python",
    ),
    (re.compile(r"(?:node|npm|npx|yarn|pnpm|bun|deno)(?![a-z_-])"), "node"),
    (re.compile(r"(?:java|javac|gradle|mvn|sbt|spark-submit|spark-shell)(?![a-z_-])"), "java"),
    (re.compile(r"go(?![a-z_-])"), "go"),
    (re.compile(r"(?:cargo|rustc)(?![a-z])"), "rust"),
    (re.compile(r"(?:Rscript|R)(?![A-Za-z_-])"), "r"),
    (re.compile(r"julia(?![a-z])"), "julia"),
    (re.compile(r"(?:ruby|rails|rake|puma)(?![a-z])"), "ruby"),
    (re.compile(r"dotnet(?![a-z])"), "dotnet"),
    (re.compile(r"(?:llama-\w{1,20}|ollama)(?![a-z])"), "c++"),
)


def derive(evidence: Evidence, facts: FactSet) -> None:
    """By its own words, the command or the victim's name; unknown where nothing tells. The first that tells stands."""
    for language, source in _told(evidence):
        facts.put("program.language", language, source)


def _told(evidence: Evidence) -> Iterator[tuple[str | None, Source]]:
    for event in reversed(evidence.of_kind(EventKind.HOST_ALLOCATION_FAILED)):
        yield _OF_ALLOCATOR.get(event.word("allocator") or ""), event.source
    for run in evidence.runs:
        if run.exceptions or run.device_ooms:
            yield "python", Source(path=run.path, record="probe")
        yield _language_of(run.command[0] if run.command else ""), Source(path=run.path, record="command")
    for event in reversed(evidence.of_kind(EventKind.KERNEL_OOM)):
        yield _language_of(event.word("program") or ""), event.source
    for event in reversed(evidence.of_kind(EventKind.EXCEPTION)):
        if _has_frames(event):
            yield "python", event.source
    words = (evidence.command or "").split()
    named = next((word for word in words if "=" not in word), "")
    yield _language_of(named), Source(path="--command")


def _has_frames(event: LogEvent) -> bool:
    frames = event.fields.get("frames")
    return isinstance(frames, tuple) and bool(frames)


def _language_of(program: str) -> str | None:
    name = PurePosixPath(program.replace("\\", "/")).name
    if name.endswith(".py"):
        return "python"
    return next((language for pattern, language in _OF_PROGRAM if pattern.match(name)), None)
