# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN one failure in each form that people hand over WHEN it is read THEN it is the failure of the plain text."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Verdict
from oomdoctor.readers.wrapped import unwrap

MESSAGE = (
    "CUDA out of memory. Tried to allocate 1.75 GiB. GPU 0 has a total capacity of 39.39 GiB of which 503.00 MiB is free. "
    "Including non-PyTorch memory, this process has 38.90 GiB memory in use. Of the allocated memory 37.60 GiB is "
    "allocated by PyTorch, and 310.25 MiB is reserved by PyTorch but unallocated."
)
PLAIN = (
    'Traceback (most recent call last):\n  File "/srv/app/train.py", line 88, in step\n    loss.backward()\n'
    f"torch.OutOfMemoryError: {MESSAGE}\n"
)
LINES = PLAIN.splitlines()
MICROSECONDS = "1795834800000000"


def notebook(*outputs: object, **more: object) -> bytes:
    cell = {"cell_type": "code", "source": ["model(x)"], "metadata": {}, "outputs": outputs}
    text = {"cell_type": "markdown", "source": ["CUDA out of memory, says the manual"], "metadata": {}}
    return json.dumps({"cells": [text, cell], "metadata": {}, "nbformat": 4, **more}, indent=1).encode()


def binary(message: str) -> bytes:
    raw = message.encode()
    return b"MESSAGE\n" + struct.pack("<Q", len(raw)) + raw + b"\n"


ERROR = {
    "output_type": "error",
    "ename": "OutOfMemoryError",
    "evalue": MESSAGE,
    "traceback": [
        "\x1b[0;31m----------------------------------------------------------------\x1b[0m",
        "\x1b[0;31mOutOfMemoryError\x1b[0m                          Traceback (most recent call last)",
        "Cell \x1b[0;32mIn[3], line 1\x1b[0m\n\x1b[0;32m----> 1\x1b[0m model(x)\n",
        "File \x1b[0;32m/srv/app/train.py:88\x1b[0m, in \x1b[0;36mstep\x1b[0;34m(x)\x1b[0m\n\x1b[1;32m     87\x1b[0m "
        "\n\x1b[0;32m---> 88\x1b[0m loss.backward()\n",
        f"\x1b[0;31mOutOfMemoryError\x1b[0m: {MESSAGE}",
    ],
}
STREAM = {"output_type": "stream", "name": "stderr", "text": PLAIN.splitlines(keepends=True)}
FORMS = {
    "a notebook's error": notebook(ERROR),
    "a notebook whose traceback was taken out": notebook({**ERROR, "traceback": []}),
    "a notebook's stream": notebook(STREAM),
    "an old notebook": json.dumps(
        {
            "worksheets": [{"cells": [{"cell_type": "code", "outputs": [{**ERROR, "output_type": "pyerr"}]}]}],
            "nbformat": 3,
        }
    ).encode(),
    "journalctl -o json": "".join(
        json.dumps({"__REALTIME_TIMESTAMP": MICROSECONDS, "_PID": "55", "MESSAGE": line}) + "\n" for line in LINES
    ).encode(),
    "journalctl -o json, bytes": json.dumps(
        {"__REALTIME_TIMESTAMP": MICROSECONDS, "MESSAGE": list(f"\x1b[31m{PLAIN}\x1b[0m".encode())}
    ).encode(),
    "journalctl -o export": b"".join(
        f"__CURSOR=s=1\n__REALTIME_TIMESTAMP={MICROSECONDS}\n_PID=55\nMESSAGE={line}\n\n".encode() for line in LINES
    ),
    "journalctl -o export, several lines": f"__CURSOR=s=1\n__REALTIME_TIMESTAMP={MICROSECONDS}\n".encode()
    + binary(PLAIN),
    "docker json-file": "".join(
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-30T10:00:00.1Z"}) + "\n" for line in LINES
    ).encode(),
    **{
        f"one record, {key}": (
            json.dumps({"level": "info", key: "start"}) + "\n" + json.dumps({key: PLAIN}) + "\n"
        ).encode()
        for key in ("message", "msg", "log")
    },
    "windows": PLAIN.replace("\n", "\r\n").replace("/srv/app/", r"C:\srv\app" "\\").encode(),
    "powershell": PLAIN.replace("\n", "\r\n").encode("utf-16"),
    "utf-16 without a mark": PLAIN.encode("utf-16-le"),
    "utf-8 with a mark": PLAIN.encode("utf-8-sig"),
    "colours": "".join(f"\x1b[31;1m{line}\x1b[0m\n" for line in LINES).encode(),
    "a bar": ("\r".join(f"{n}%|##| {n}/99 [00:01<00:10, 1.0it/s]" for n in range(40)) + "\r" + PLAIN).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_failure_is_that_of_the_plain_text(tmp_path: Path, form):
    path = tmp_path / "crash"
    path.write_bytes(FORMS[form])
    found = diagnose([path])
    assert found.verdict is Verdict.OUT_OF_MEMORY
    assert [incident.where for incident in found.incidents] == ["cuda:0"]
    assert found.facts.size("oom.allocated_bytes", "cuda:0") == round(37.60 * (1 << 30))
    assert found.inputs[0].status == "read"
    if "taken out" not in form:
        assert "train.py:88 in step" in str(found.facts.value("activity.frame"))


def test_what_a_text_was_taken_from_is_said(tmp_path: Path):
    for form, said in (
        ("a notebook's error", "a notebook: its outputs"),
        ("journalctl -o export", "a journal's export"),
    ):
        (tmp_path / "crash").write_bytes(FORMS[form])
        assert said in diagnose([tmp_path / "crash"]).inputs[0].why


@pytest.mark.parametrize("cut", [40, 400, 900])
def test_a_notebook_that_is_cut_is_read_as_it_stands(tmp_path: Path, cut):
    whole = FORMS["a notebook's error"]
    (tmp_path / "crash").write_bytes(whole[:cut])
    assert unwrap(whole[:cut]) is None
    assert diagnose([tmp_path / "crash"]).inputs[0].status in ("read", "partly")


@pytest.mark.parametrize(
    "content", [b'{"cells": 3, "cell_type": 1}', b'{"cells": [7], "cell_type": ""}', b"__CURSOR=\n"]
)
def test_what_only_looks_like_one_is_no_error(tmp_path: Path, content):
    (tmp_path / "crash").write_bytes(content)
    assert diagnose([tmp_path / "crash"]).verdict in (Verdict.NO_FAILURE, Verdict.UNDETERMINED)


def test_a_wrong_length_in_an_export_ends_at_the_file_s_end():
    content = b"__CURSOR=s=1\nMESSAGE\n" + struct.pack("<Q", 1 << 60) + b"CUDA out of memory"
    assert unwrap(content) is not None


@pytest.mark.parametrize(
    ("log", "cause", "verdict"),
    [
        ("Killed\n", "process killed", Verdict.UNDETERMINED),
        ("##[error]Process completed with exit code 137.\n", "process killed", Verdict.UNDETERMINED),
        (
            "status:\n  containerStatuses:\n  - lastState:\n      terminated:\n        exitCode: 137\n"
            "        reason: OOMKilled\n    name: trainer\n",
            "killed for want of memory, says kubernetes",
            Verdict.OUT_OF_MEMORY,
        ),
    ],
)
def test_a_line_that_says_hardly_anything(tmp_path: Path, log, cause, verdict):
    (tmp_path / "crash").write_text(log)
    found = diagnose([tmp_path / "crash"])
    assert (found.incidents[0].cause, found.verdict) == (cause, verdict)
