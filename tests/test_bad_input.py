"""GIVEN inputs that are broken, hostile or beside the point WHEN they are analysed THEN a sentence says so.

Nothing crashes, nothing is executed, nothing is lost: a good input beside a bad one is still read.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from oomdoctor.cli.main import main

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 24.00 GiB "
    "of which 1.59 GiB is free. Including non-PyTorch memory, this process has 22.41 GiB memory in use. Of the "
    "allocated memory 8.77 GiB is allocated by PyTorch, and 13.23 GiB is reserved by PyTorch but unallocated."
)
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def analyze(*words: str | Path) -> tuple[dict[str, Any], int, str]:
    """The report, the exit status and what was said on stderr. What is not caught ends the test."""
    status, printed, said = 0, io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(said):
        patch.setattr(sys, "argv", ["oomdoctor", "analyze", *map(str, words), "--format", "json"])
        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    return json.loads(printed.buffer.getvalue()), status, said.getvalue()


def analyze_in_a_process(
    *words: str | Path, stdin: bytes | None = None, cwd: Path | None = None, files: Sequence[int] = ()
) -> tuple[dict[str, Any], int, str]:
    """The same where it matters what the process has been given."""
    done = subprocess.run(
        [sys.executable, "-m", "oomdoctor", "analyze", *map(str, words), "--format", "json"],
        capture_output=True,
        input=stdin,
        cwd=cwd,
        pass_fds=files,
        timeout=300,
    )
    errors = done.stderr.decode()
    assert "Traceback" not in errors
    return json.loads(done.stdout), done.returncode, errors


def only_input(report: dict[str, Any]) -> dict[str, str]:
    (record,) = report["inputs"]
    return record


class Evil:
    """Unpickling this by the ordinary way creates a file."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.proof}",)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_that_names_os_system_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    proof = tmp_path / "proof"
    evil = tmp_path / "evil.pickle"
    evil.write_bytes(pickle.dumps({"segments": [], "device_traces": [[Evil(proof)]]}, protocol=protocol))
    report, status, errors = analyze(evil)
    assert not proof.exists()
    assert status == 3
    record = only_input(report)
    assert record["status"] == "refused"
    assert "system" in record["why"]
    assert "system" in errors


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_truncated_pickle_is_refused(tmp_path: Path, protocol: int, kept: float) -> None:
    cut = tmp_path / "cut.pickle"
    segments = [{"address": number << 40, "total_size": number} for number in range(99)]
    whole = pickle.dumps({"segments": segments, "device_traces": [[]]}, protocol)
    cut.write_bytes(whole[: int(kept * len(whole))])
    report, status, _ = analyze(cut)
    assert status == 3
    assert only_input(report)["status"] == "refused"
    assert report["verdict"] == "undetermined"


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    report, status, _ = analyze(tmp_path / "empty.log")
    assert status == 3
    assert only_input(report)["why"] == "the file is empty; copy it again, or have it written anew"


def test_a_missing_file_is_refused_and_the_rest_is_read(tmp_path: Path) -> None:
    log = tmp_path / "crash.log"
    log.write_text(OOM)
    report, status, errors = analyze(tmp_path / "gone.log", log)
    assert status == 0
    assert [record["status"] for record in report["inputs"]] == ["refused", "read"]
    assert "no such file" in errors
    assert report["incidents"]


def test_a_folder_without_anything_known_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    report, status, _ = analyze(tmp_path)
    assert status == 3
    assert "holds no log" in report["inputs"][-1]["why"]


def test_binary_junk_is_refused(tmp_path: Path) -> None:
    junk = tmp_path / "crash.log"
    junk.write_bytes(bytes(range(256)) * 100)
    report, status, _ = analyze(junk)
    assert status == 3
    assert only_input(report)["status"] == "refused"


def test_a_checkpoint_is_refused_with_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04" + bytes(200))
    report, _, _ = analyze(tmp_path / "model.pt")
    assert "zip archive" in only_input(report)["why"]


FORMS = {
    "utf-8": OOM.encode(),
    "utf-8 with mark": b"\xef\xbb\xbf" + OOM.encode(),
    "utf-16 little endian": OOM.encode("utf-16"),
    "utf-16 big endian without mark": OOM.encode("utf-16-be"),
    "latin-1": "Prüfung läuft\n".encode("latin-1") + OOM.encode(),
    "crlf": b"start\r\n" + OOM.encode() + b"\r\nend\r\n",
    "ansi colours": b"\x1b[31m" + OOM.replace("CUDA", "\x1b[1mCUDA\x1b[0m").encode() + b"\x1b[0m",
    "tqdm": b" 10%|#   | 1/10\r 20%|##  | 2/10\r" + OOM.encode() + b"\r",
    "gzip": gzip.compress(OOM.encode()),
    "no end of line": OOM.encode().rstrip(),
    "zeros where it was cut short": bytes(1000) + b"\n" + OOM.encode(),
    "zeros at its end": OOM.encode() + b"\n" + bytes(1000),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_log_in_another_form_gives_the_same_answer(tmp_path: Path, form: str) -> None:
    plain, other = tmp_path / "plain.log", tmp_path / "other"
    plain.write_bytes(FORMS["utf-8"])
    other.write_bytes(FORMS[form])
    expected, report = analyze(plain)[0], analyze(other)[0]
    assert report["verdict"] == "out-of-memory"
    assert report["diagnoses"]
    assert expected["diagnoses"]
    for key in ("verdict", "fingerprint"):
        assert report[key] == expected[key]
    assert [d["rule"] for d in report["diagnoses"]] == [d["rule"] for d in expected["diagnoses"]]


def test_standard_input_is_read(tmp_path: Path) -> None:
    report, status, _ = analyze_in_a_process("-", stdin=OOM.encode())
    assert status == 0
    assert only_input(report)["path"] == "-"
    assert report["verdict"] == "out-of-memory"


def test_the_same_file_by_other_names_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(OOM)
    (tmp_path / "latest.log").symlink_to("a.log")
    report, status, _ = analyze(log, f"{tmp_path}/../{tmp_path.name}/a.log", tmp_path / "latest.log", tmp_path)
    assert status == 0
    assert [record["path"] for record in report["inputs"]] == [str(log)]
    assert report["facts"]["oom.count"]["value"] == 1


def test_links_in_a_circle_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(OOM)
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "up").symlink_to(".")
    report, status, errors = analyze(tmp_path)
    assert (status, errors) == (0, "")
    assert [record["path"] for record in report["inputs"]] == [f"{tmp_path}/a.log"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list every folder")
def test_a_folder_that_may_not_be_listed_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(OOM)
    (tmp_path / "closed").mkdir(mode=0)
    report, status, errors = analyze(tmp_path)
    assert (status, report["verdict"]) == (0, "out-of-memory")
    assert "closed: Permission denied" in errors


def test_a_pipe_by_name_is_read(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, OOM.encode())
    os.close(write)
    report, _, _ = analyze_in_a_process(f"/dev/fd/{read}", files=[read])
    os.close(read)
    assert report["verdict"] == "out-of-memory"


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    report, status, _ = analyze(tmp_path / "pipe")
    assert status == 3
    assert only_input(report)["why"] == "the file is empty; copy it again, or have it written anew"


def test_an_empty_name_is_not_the_folder_that_we_are_in(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(OOM)
    report, status, _ = analyze_in_a_process("", cwd=tmp_path)
    assert status == 3
    assert only_input(report)["why"] == "the name is empty"


ABSURD = {
    "a host request without a shape": "RuntimeError: [enforce fail at alloc_cpu.cpp:75] data. DefaultCPUAllocator: not "
    "enough memory: you tried to allocate 18446744073709551616 bytes.",
    "a table of numbers without end": f"|   CUDA OOMs: {'9' * 5000}   |   cudaMalloc retries: 1 |\n"
    f"| Allocated memory      | {'9' * 400} GiB | {'9' * 5000} GiB |",
    "nvidia-smi with numbers without end": "index, memory.total [MiB], memory.used [MiB]\n"
    f"0, {'9' * 400} MiB, {'9' * 5000}\n{'9' * 5000}, 1 MiB, 1 MiB\n²​, 1 MiB, 1 MiB\n²,²,²",
    "a shape that is no numbers": "OOM when allocating tensor with shape[²,3] and type float on /device:GPU:0",
}


@pytest.mark.parametrize("what", ABSURD)
def test_absurd_numbers_beside_a_message_do_not_hide_it(tmp_path: Path, what: str) -> None:
    (tmp_path / "a.log").write_text(f"{ABSURD[what]}\n\n{OOM}\n")
    report, status, _ = analyze(tmp_path / "a.log")
    assert (status, report["verdict"]) == (0, "out-of-memory")


@pytest.mark.parametrize("free", [True, -1, 1 << 200, "x", None])
def test_a_snapshot_whose_free_memory_is_no_size_leaves_it_unknown(tmp_path: Path, free: object) -> None:
    event = {"action": "oom", "size": 30 << 20, "device_free": free, "stream": 0, "time_us": 1, "frames": []}
    (tmp_path / "s.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [[event]]}))
    report, status, _ = analyze(tmp_path / "s.pickle")
    assert status == 0
    assert report["facts"]["oom.requested_bytes@cuda:0"]["value"] == 30 << 20
    assert "oom.free_bytes@cuda:0" not in report["facts"]


def test_a_thousand_small_logs_are_read_in_time(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"{number}.log").write_text("step 1\n")
    started = time.monotonic()
    assert analyze(tmp_path)[1] == 0
    assert time.monotonic() - started < 30


def test_a_log_without_a_failure_says_so(tmp_path: Path) -> None:
    (tmp_path / "fine.log").write_text("".join(f"step {n} loss 2.1\n" for n in range(2_000)))
    report, status, _ = analyze(tmp_path / "fine.log")
    assert status == 0
    assert report["verdict"] == "no-failure"
    assert report["diagnoses"] == []


def test_fifty_megabytes_of_noise_are_read_in_time(tmp_path: Path) -> None:
    noise = tmp_path / "noise.log"
    line = b"INFO 11-29 step 17 loss 2.103 lr 1e-4 tok/s 9113 memory 12 GiB error rate 0.1 allocated ok\n"
    with noise.open("wb") as stream:
        for _ in range(50):
            stream.write(line * ((1 << 20) // len(line)))
        stream.write(OOM.encode())
    started = time.monotonic()
    report, status, _ = analyze(noise)
    assert status == 0
    assert report["verdict"] == "out-of-memory"
    assert time.monotonic() - started < 30


def test_wrong_usage_is_status_two() -> None:
    done = subprocess.run([sys.executable, "-m", "oomdoctor", "analyze"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "PATH" in done.stderr
