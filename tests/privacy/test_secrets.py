"""Forty and more kinds of secret are planted wherever text comes from; none is found in what is written or shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from oomdoctor.bundle.redact import MASK, mask_text
from oomdoctor.diagnose import diagnose
from oomdoctor.report import FORMATS, render

from .secret_kinds import KINDS

FAILURE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB "
    "of which 1.04 GiB is free. Including non-PyTorch memory, this process has 22.60 GiB memory in use. Of the "
    "allocated memory 21.17 GiB is allocated by PyTorch, and 1.03 GiB is reserved by PyTorch but unallocated."
)


def test_there_are_forty_kinds_each_of_its_own() -> None:
    assert len({what for what, _, _ in KINDS}) == len({secret for _, _, secret in KINDS}) == len(KINDS) >= 40


@pytest.mark.parametrize(("what", "text", "secret"), KINDS, ids=[what for what, _, _ in KINDS])
def test_it_is_masked(what: str, text: str, secret: str) -> None:
    masked = mask_text(f"before\n{text.format(secret)}\nafter\n")
    assert secret not in masked
    assert MASK in masked
    assert masked.startswith("before\n")
    assert masked.endswith("\nafter\n")


@pytest.mark.parametrize("quoted", [repr, json.dumps, lambda text: json.dumps(json.dumps(text))])
def test_a_text_quoted_in_another_gives_none_away(quoted) -> None:
    shown = {what: mask_text(quoted(f"before\n{text.format(secret)}\nafter")) for what, text, secret in KINDS}
    assert [what for what, _, secret in KINDS if secret in shown[what]] == []
    assert [what for what in shown if "before" not in shown[what] or "after" not in shown[what]] == []


def test_a_log_gives_none_away(tmp_path) -> None:
    """Beside the failure, in the code of the traceback, in the launch line and in the error itself."""
    for number, (_, text, secret) in enumerate(KINDS):
        line = text.format(secret)
        (tmp_path / f"{number}.log").write_text(
            f"$ python train.py --note '{line}'\n{line}\nTraceback (most recent call last):\n"
            f'  File "/srv/train.py", line 7, in main\n    step("""{line}""")\n{FAILURE}\n{line}\n'
            f"RuntimeError: {line}\n"
        )
        diagnosis = diagnose([tmp_path / f"{number}.log"], command=f"python train.py --note '{line}'")
        shown = "".join(render(diagnosis, form) for form in FORMATS)
        assert secret not in shown
        assert "21.17 GiB" in shown


def test_a_run_gives_none_away(tmp_path) -> None:
    lines = "".join(text.format(secret) + "\n" for _, text, secret in KINDS)
    script = f"import sys\nlines = {lines!r}\nprint(lines)\nsys.stderr.write(lines)\nraise MemoryError(lines)\n"
    words = [text.format(secret) for _, text, secret in KINDS]
    options = ["--output", str(tmp_path / "i")]
    done = subprocess.run(
        [sys.executable, "-m", "oomdoctor", "run", *options, "--", sys.executable, "-c", script, *words],
        env={**os.environ, **{f"VLLM_NOTE_{number}": word for number, word in enumerate(words)}},
        capture_output=True,
        timeout=60,
    )
    assert done.stdout.decode().startswith(lines)  # what the command prints is its own affair
    written = {file: file.read_bytes() for file in (tmp_path / "i").rglob("*") if file.is_file()}
    assert {"report.html", "report.json", "report.md", "manifest.json"} <= {file.name for file in written}
    found = [
        (what, file.name) for what, _, secret in KINDS for file, data in written.items() if secret.encode() in data
    ]
    assert not found, "\n".join(map(str, found))
