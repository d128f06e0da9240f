"""GIVEN a machine, options and a cache WHEN a device is asked for THEN it is made once, or the reason is said."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import emulate
import pytest
from emulation.cache import cache_folder, is_made, made
from emulation.cards import Cards, check_card_file, of_each, parse_size, private_card
from emulation.errors import CannotEmulate
from emulation.scenario import load, names
from emulation.wheel import environment, why_not

EMULATE = Path(__file__).parent / "emulate.py"


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GiB", 24 << 30), ("420MiB", 420 << 20), ("1.5GiB", 3 << 29), ("80GB", 80 * 10**9), ("0", 0), ("16G", 1 << 34)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "24 potatoes", "1e9"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        parse_size(text)


def test_what_no_process_has_addresses_for_is_refused() -> None:
    with pytest.raises(ValueError, match="more than can be emulated: 16 TiB"):
        parse_size("17TiB")


def test_the_last_size_counts_for_all_that_follow() -> None:
    assert of_each([24], None) == (24,)
    assert of_each([24, 80], None) == (24, 80)
    assert of_each([24, 80], 4) == (24, 80, 80, 80)
    with pytest.raises(ValueError, match="sizes for 1 devices"):
        of_each([24, 80], 1)
    with pytest.raises(ValueError, match="1 to 16"):
        of_each([24], 17)


def test_cards_are_told_to_the_stand_in_in_bytes() -> None:
    variables = Cards((1 << 30, 2 << 30), 5, 7).variables(Path("/c"))
    assert variables == {
        "EMULATED_CUDA_CARD": "/c",
        "EMULATED_CUDA_DEVICES": "2",
        "EMULATED_CUDA_MEMORY": "1073741824,2147483648",
        "EMULATED_CUDA_CONTEXT": "5",
        "EMULATED_CUDA_RESERVE": "7",
    }


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("OOMDOCTOR_DEVICE_CACHE", raising=False)
    assert cache_folder() == tmp_path / "xdg" / "oomdoctor-device"
    monkeypatch.setenv("OOMDOCTOR_DEVICE_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_what_is_half_made_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "thing"

    def fail(place: Path) -> None:
        (place / "remains").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(folder, fail)
    assert not folder.exists()
    folder.mkdir()
    (folder / "remains").touch()  # of a maker that was killed
    made(folder, lambda place: (place / "whole").touch())
    assert is_made(folder)
    assert not (folder / "remains").exists()


def test_of_several_makers_one_makes(tmp_path: Path) -> None:
    makers: list[int] = []

    def make(place: Path) -> None:
        makers.append(threading.get_ident())
        threading.Event().wait(0.1)

    threads = [threading.Thread(target=made, args=(tmp_path / "thing", make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(makers) == 1


def test_cards_of_processes_that_are_gone_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OOMDOCTOR_DEVICE_CACHE", str(tmp_path))
    card = private_card()
    card.touch()
    gone = card.with_name(f"{os.getpid()}-1.card")  # the id is in use again
    gone.touch()
    assert private_card() == card
    assert card.exists()
    assert not gone.exists()


def test_what_else_lies_among_the_cards_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OOMDOCTOR_DEVICE_CACHE", str(tmp_path))
    strange = private_card().with_name("notes.card")
    strange.touch()
    private_card()
    assert strange.exists()


def test_another_processor_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("OOMDOCTOR_DEVICE_CACHE", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert emulate.main(["--", "true"]) == 125
    assert emulate.main(["--check"]) == 125
    assert "riscv64" in capsys.readouterr().err


def test_a_missing_tool_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "gcc" else f"/bin/{tool}")
    reason = why_not()
    assert reason is not None
    assert reason.endswith("not found: gcc")


def test_check_makes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("OOMDOCTOR_DEVICE_CACHE", str(tmp_path))
    monkeypatch.setattr("emulate.why_not", lambda torch: None)
    assert emulate.main(["--check"]) == 1
    assert "can be made" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    wanted = environment()
    wanted.programs.mkdir(parents=True)
    (wanted.folder / ".made").touch()
    assert emulate.main(["--check"]) == 1  # its Python is gone
    wanted.python.touch()
    assert emulate.main(["--check"]) == 0


@pytest.mark.parametrize(
    "wrong", [["--memory", "much"], ["--devices", "0"], ["--memory", "1GiB,2GiB", "--devices", "1"], []]
)
def test_wrong_usage_is_refused(wrong: list[str]) -> None:
    ended = subprocess.run([sys.executable, str(EMULATE), *wrong], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "error" in ended.stderr


@pytest.mark.parametrize("name", names())
def test_a_scenario_says_its_cause(name: str) -> None:
    scenario = load(name)
    assert scenario.script.read_text().startswith('"""')
    assert (
        scenario.owner is None
        or scenario.owner
        in scenario.script.read_text()
        + (scenario.script.parent / "models.py").read_text()
        + (scenario.script.parent / "kv_growth.py").read_text()
    )
    assert scenario.cards().memory_bytes


def test_a_file_that_holds_something_else_is_not_made_a_card(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("hello")
    with pytest.raises(CannotEmulate, match="is not a card file"):
        check_card_file(notes)
    assert notes.read_text() == "hello"
    with pytest.raises(CannotEmulate, match="there is no folder"):
        check_card_file(tmp_path / "none" / "card")
    check_card_file(tmp_path / "card")
    check_card_file(tmp_path / "card")
    with pytest.raises(CannotEmulate, match=r"/proc/card cannot be used: .*name another with --shared"):
        check_card_file(Path("/proc/card"))
