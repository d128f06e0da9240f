"""A log as somebody pastes it, and what the report says of it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from oomdoctor.diagnose.pipeline import diagnose_evidence
from oomdoctor.model.diagnosis import Diagnosis, Finding
from oomdoctor.playbook.load import default_rules_directory, load_playbook
from oomdoctor.readers.inputs import read_inputs
from oomdoctor.report import render

GIB, MIB = 1 << 30, 1 << 20
PLAYBOOK = load_playbook([default_rules_directory()])


def ask(log: str, command: str | None = None) -> Diagnosis:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crash.log"
        path.write_text(log, encoding="utf-8")
        return diagnose_evidence(read_inputs([path], command=command), PLAYBOOK, 1.8e9)


def size(diagnosis: Diagnosis, fact: str, member: str = "cuda:0") -> int | None:
    return diagnosis.facts.size(f"oom.{fact}_bytes", member)


def gib(number: float) -> int:
    return round(number * GIB)


def first(diagnosis: Diagnosis) -> Finding:
    assert diagnosis.findings, diagnosis.summary
    return diagnosis.findings[0]


def told(diagnosis: Diagnosis, words: str) -> bool:
    """Whether a sentence of the report's notes holds `words`, and the HTML report shows it."""
    return any(words in note for note in diagnosis.notes) and words in render(diagnosis, "html").replace("&#39;", "'")


def in_vain(diagnosis: Diagnosis, what: str) -> str:
    """Why the first finding says that a change whose name holds `what` will not help; empty where it does not."""
    return next((each.why for each in first(diagnosis).not_remedies if what.lower() in each.what.lower()), "")


def sentences(
    requested: str,
    free: str,
    allocated: str,
    idle: str,
    *,
    total: str = "23.65 GiB",
    own: str | None = None,
    others: str = "",
    device: int = 0,
    private: str | None = None,
) -> str:
    """The message of torch 2.1 and newer."""
    mine = f" Including non-PyTorch memory, this process has {own} memory in use." if own else ""
    pools = f", with {private} allocated in private pools (e.g., CUDA Graphs)" if private else ""
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested}. GPU {device} has a total capacity "
        f"of {total} of which {free} is free.{others}{mine} Of the allocated memory {allocated} is allocated by "
        f"PyTorch{pools}, and {idle} is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
        "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )
