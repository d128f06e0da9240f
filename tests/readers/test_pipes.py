# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN what is no ordinary file WHEN it is read THEN nothing waits for ever, and a sentence says what to do instead."""

from __future__ import annotations

import gzip
import os
import socket
from pathlib import Path

import pytest

from oomdoctor.readers import inputs
from oomdoctor.readers.inputs import read_inputs

LINE = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A named pipe with a writer that does not close it."""
    monkeypatch.setattr(inputs, "PIPE_SILENT_SECONDS", 0.2)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    number = os.open(path, os.O_RDWR)
    yield path, number
    os.close(number)


def test_a_pipe_whose_writer_is_silent_is_given_up(pipe):
    path, _ = pipe
    (record,) = read_inputs([path]).inputs
    assert record.status == "refused"
    assert "oomdoctor analyze - < PIPE" in record.why


def test_what_came_before_the_writer_fell_silent_counts(pipe):
    path, number = pipe
    os.write(number, LINE)
    evidence = read_inputs([path])
    assert 2 << 30 in [event.size("requested_bytes") for event in evidence.events]
    assert evidence.inputs[0].status == "partly"


@pytest.mark.skipif(not os.path.exists("/proc/kmsg"), reason="this system has no /proc/kmsg")
@pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/self/status"])
def test_a_view_of_the_kernel_is_refused_unread(path):
    (record,) = read_inputs([path]).inputs
    assert record.status == "refused"
    assert "dmesg -T > kernel.log" in record.why


def test_a_device_and_a_socket_are_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        said = [record.why for record in read_inputs(["/dev/zero", "socket"]).inputs]
    assert [why.split(",")[0] for why in said] == ["a device", "a socket"]


def test_a_gzip_file_in_another_is_called_so(tmp_path: Path):
    """It would be read as text that shows no failure."""
    path = tmp_path / "a.log.gz.gz"
    path.write_bytes(gzip.compress(gzip.compress(LINE * 500)))
    (record,) = read_inputs([path]).inputs
    assert (record.kind, record.status) == ("archive", "refused")
    assert "a gzip file in another" in record.why
