"""GIVEN what can go wrong while an environment is made WHEN it does THEN one sentence says what, and nothing is left.

No package is fetched: a script stands in for Python, its venv and its pip.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import emulate
import pytest
from emulation import wheel
from emulation.cache import why_no_cache
from emulation.errors import CannotEmulate
from emulation.wheel import environment, make_environment, parse_version, why_not

PYTHON = """#!/bin/sh
if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; exit; fi
shift 3
echo "$@" >> "$CALLS"
%s
"""
TORCH = 'lib=$(dirname "$0")/../lib/python3.0/site-packages/torch/lib; mkdir -p "$lib"; touch "$lib/libc10_cuda.so"'
NO_VERSION = "ERROR: Could not find a version that satisfies the requirement torch==2.9.1 (from versions: 2.14.1)"
CONFLICT = "ERROR: Cannot install torch==2.9.1 because these package versions have conflicting dependencies."
OFFLINE = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError': /simple/torch/"
FULL = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("OOMDOCTOR_DEVICE_CACHE", str(folder))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setattr(wheel, "_DISK_BYTES", 0)
    return folder


def pip_that(does: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    python = tmp_path / "python"
    python.write_text(PYTHON % does)
    python.chmod(0o755)
    monkeypatch.setattr(sys, "_base_executable", str(python), raising=False)
    return python


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (NO_VERSION, "there is no CUDA wheel of torch 2.9.1 for Python 3"),
        (CONFLICT, "there is no CUDA wheel of torch 2.9.1 for Python 3"),
        (f"{OFFLINE}\n{NO_VERSION}", "pip does not reach its package index"),
        (FULL, "the disk of .*cache became full while torch 2.9.1 was installed"),
        ("ERROR: something else.", r"pip cannot install torch 2.9.1: ERROR: something else\.$"),
    ],
)
def test_what_pip_refuses_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path, says: str, reason: str
) -> None:
    pip_that(f'echo "{says}"; exit 1', monkeypatch, tmp_path)
    with pytest.raises(CannotEmulate) as said:
        make_environment(environment("2.9.1"))
    sentence = said.value.sentence()
    assert re.search(reason, sentence)
    assert "\n" not in sentence
    assert ".." not in sentence.replace("...", "")
    assert [path.name for path in cache.iterdir() if not path.name.endswith(".lock")] == []


def test_a_wheel_without_cuda_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    pip_that(TORCH.replace("libc10_cuda", "libc10"), monkeypatch, tmp_path)
    with pytest.raises(CannotEmulate, match=r"no CUDA wheel of torch 2\.9\.1 .* is one without CUDA"):
        make_environment(environment("2.9.1"))
    assert not environment("2.9.1").is_made
    assert "torch==2.9.1,!=2.9.1+cpu" in (tmp_path / "calls").read_text()


def test_a_full_disk_is_seen_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(wheel, "_DISK_BYTES", 1 << 60)
    pip_that(TORCH, monkeypatch, tmp_path)
    with pytest.raises(CannotEmulate, match="MiB left, and making the environment takes"):
        make_environment(environment("2.9.1"))
    assert not (tmp_path / "calls").exists()


def test_an_environment_whose_python_is_gone_is_made_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip_that(TORCH, monkeypatch, tmp_path)
    wanted = environment("2.9.1")
    make_environment(wanted)
    make_environment(wanted)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert wanted.is_made
    assert len(calls) == 2  # torch, then what it imports
    wanted.python.unlink()
    wanted.python.symlink_to(tmp_path / "an-older-python")
    assert not wanted.is_made
    make_environment(wanted)
    assert wanted.is_made


MAKE = """
import sys
sys.path.insert(0, {folder!r})
sys._base_executable = {python!r}
from emulation import wheel
wheel._DISK_BYTES = 0
import emulate
with emulate._ended_in_order():
    wheel.make_environment(wheel.environment("2.9.1"))
"""


def maker(python: Path) -> subprocess.Popen[str]:
    text = MAKE.format(folder=str(Path(__file__).parent), python=str(python))
    return subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True)


def wait_for(path: Path) -> None:
    until = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_maker_that_is_ended_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path, number: signal.Signals, status: int
) -> None:
    one = maker(pip_that('echo $$ > "$CALLS.pid"; exec sleep 600', monkeypatch, tmp_path))
    wait_for(tmp_path / "calls.pid")
    one.send_signal(number)
    _, said = one.communicate(timeout=120)
    assert one.returncode == status
    assert "Traceback" not in said
    assert [path.name for path in cache.iterdir()] == [f"{environment('2.9.1').folder.name}.lock"]
    assert not os.path.exists(f"/proc/{(tmp_path / 'calls.pid').read_text().strip()}")


def test_what_a_killed_maker_started_keeps_others_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    """Its pip goes on writing: who begins anew at once would write into the same folder."""
    slow = f'if [ ! -e "$CALLS.pid" ]; then echo $$ > "$CALLS.pid"; sleep 1.5; echo end >> "$CALLS"; fi; {TORCH}'
    python = pip_that(slow, monkeypatch, tmp_path)
    first = maker(python)
    wait_for(tmp_path / "calls.pid")
    first.kill()
    first.communicate()
    second = maker(python)
    _, said = second.communicate(timeout=120)
    assert second.returncode == 0, said
    assert "Another process makes" in said
    calls = [line.split()[0] for line in (tmp_path / "calls").read_text().splitlines()]
    assert calls == ["--disable-pip-version-check", "end"] + ["--disable-pip-version-check"] * 2
    assert environment("2.9.1").is_made


def test_of_two_makers_one_makes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = pip_that(f"sleep 0.5; {TORCH}", monkeypatch, tmp_path)
    both = [maker(python), maker(python)]
    said = [one.communicate(timeout=120)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert len((tmp_path / "calls").read_text().splitlines()) == 2
    assert sum("Another process makes" in text for text in said) == 1


@pytest.mark.parametrize("torch", ["", "latest", "2.14", "../../x", "2.14.1; rm", "-r/etc", "2.14.1 ", "\u0662.1.2"])
def test_what_is_no_version_is_refused(torch: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        emulate.main([f"--torch={torch}", "--check"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("is no version of torch: 2.14.1 and so on are")


@pytest.mark.parametrize("torch", ["2.1.2", "2.14.1+cu130", "2.10.0rc1"])
def test_versions_are_read(torch: str) -> None:
    assert parse_version(torch) == torch


def test_a_torch_that_nothing_can_stand_in_for_is_said_before_it_is_fetched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wheel.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(wheel.shutil, "which", lambda tool: f"/bin/{tool}")
    assert why_not("2.0.1") is None
    assert emulate.main(["--torch", "1.13.1", "--", "true"]) == 125
    assert capsys.readouterr().err == (
        "emulate: torch 1.13.1 has CUDA's runtime inside its own libraries, where nothing can take its place; "
        "choose 2.0.0 or newer with --torch.\n"
    )


@pytest.mark.parametrize("where", ["a-file", "a-file/below", "/proc/none"])
@pytest.mark.parametrize("what", [["--check"], ["--", "true"]])
def test_a_cache_that_cannot_be_is_said(tmp_path: Path, where: str, what: list[str]) -> None:
    (tmp_path / "a-file").touch()
    folder = tmp_path / where
    ended = subprocess.run(
        [sys.executable, str(Path(emulate.__file__)), *what],
        env={**os.environ, "OOMDOCTOR_DEVICE_CACHE": str(folder)},
        capture_output=True,
        text=True,
    )
    if what == ["--check"] and where == "/proc/none":
        return  # root may write everywhere, as far as can be seen without trying
    assert ended.returncode == 125, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"emulate: the cache folder {folder} cannot be ")
    assert line.endswith("set OOMDOCTOR_DEVICE_CACHE to a folder that you may write to.")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_may_not_be_written_to_is_said(cache: Path) -> None:
    cache.mkdir(mode=0o500)
    assert "may not be written to" in str(why_no_cache())


def test_a_cache_need_not_be_there(cache: Path) -> None:
    assert why_no_cache() is None
    assert not cache.exists()
