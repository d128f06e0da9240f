"""GIVEN cards with others on them, in modes, hidden or shared WHEN a run is checked THEN it says what will fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from collect import fake_nvml
from preflight.given import GIB, MIB, card, held, levels, only, setup

from oomdoctor.model.devices import DeviceTraits, MigInstance
from oomdoctor.preflight.cards import check_cards
from oomdoctor.preflight.finding import Level
from oomdoctor.preflight.setup import look_at_cards
from oomdoctor.preflight.shares import check_shares
from oomdoctor.preflight.visible import check_visible, visible_cards


def test_no_nvml_is_not_seen_and_never_fine() -> None:
    found = list(check_cards(setup()))
    assert [each.level for each in found] == [Level.UNSEEN]
    assert "NVML does not start" in found[0].why


def test_who_holds_a_card_is_named_with_bytes_and_what_nobody_shows() -> None:
    taken = card(used=30 * GIB, processes=(held(4711, 10 * GIB), held(4712, None, "trainer --secret x")))
    found = only(check_cards(setup(cards=(taken,))), "card.processes")
    assert found.level is Level.WARN
    assert "30.00 GiB" in found.seen
    assert "python (pid 4711) 10.00 GiB" in found.why
    assert "of unknown size" in found.why
    assert "--secret" not in found.why
    hidden = card(used=30 * GIB, processes=(held(4711, 10 * GIB),))
    assert "20.00 GiB belong to nobody" in only(check_cards(setup(cards=(hidden,))), "card.processes").why
    for lacking in (None, (held(4711, 10 * GIB), held(4712, None))):
        unlisted = only(check_cards(setup(cards=(card(used=30 * GIB, processes=lacking),))), "card.processes")
        assert "belong to nobody" not in unlisted.why
        assert unlisted.figures["listed_bytes"] is None


def test_an_idle_card_is_fine_and_a_desktop_is_no_news() -> None:
    assert only(check_cards(setup(cards=(card(used=80 * MIB),))), "card.processes").level is Level.FINE
    untold = card(used_bytes=None, free_bytes=50 * GIB)
    assert only(check_cards(setup(cards=(untold,))), "card.processes").level is Level.WARN
    unknown = card(used_bytes=None, free_bytes=None)
    assert only(check_cards(setup(cards=(unknown,))), "card.processes").level is Level.UNSEEN


@pytest.mark.parametrize(
    ("traits", "processes", "check", "level"),
    [
        (DeviceTraits(0, compute_mode="prohibited"), (), "card.mode", Level.FAIL),
        (DeviceTraits(0, compute_mode="exclusive"), (), "card.mode", Level.WARN),
        (DeviceTraits(0, compute_mode="exclusive"), (held(1, GIB),), "card.mode", Level.FAIL),
        (DeviceTraits(0, uncorrected_errors=3), (), "card.ecc", Level.WARN),
        (DeviceTraits(0, instances=()), (), "card.mig", Level.FAIL),
        (DeviceTraits(0, instances=None), (), "card.mig", Level.UNSEEN),
        (DeviceTraits(0, instances=(MigInstance("MIG-1", 10 * GIB, 9 * GIB),)), (), "card.mig", Level.WARN),
    ],
)
def test_modes_of_a_card(traits: DeviceTraits, processes: tuple, check: str, level: Level) -> None:
    one = card(mig_mode=check == "card.mig", processes=processes)
    assert levels(check_cards(setup(cards=(one,), traits=(traits,))), check) == [level]


@pytest.mark.parametrize(
    ("value", "level", "seen"),
    [
        ("0,1", Level.FINE, [0, 1]),
        ("1,0", Level.FINE, [1, 0]),
        ("GPU-1ab", Level.FINE, [1]),
        ("0,7,1", Level.WARN, [0]),
        ("7", Level.FAIL, []),
        ("GPU-9", Level.FAIL, []),
        ("GPU-", Level.FAIL, []),
        ("0,0", Level.FAIL, []),
        ("", Level.WARN, []),
        ("-1", Level.WARN, []),
        ("MIG-x", Level.FAIL, []),
    ],
)
def test_visible_devices_as_cuda_reads_it(value: str, level: Level, seen: list[int]) -> None:
    traits = tuple(DeviceTraits(index, instances=()) for index in (0, 1))
    given = setup(cards=(card(0), card(1)), traits=traits, variables={"CUDA_VISIBLE_DEVICES": value})
    assert levels(check_visible(given), "card.visible") == [level]
    assert [each.index for each in visible_cards(given).cards] == seen


def test_a_variable_without_end_is_shown_in_part() -> None:
    found = only(
        check_visible(setup(cards=(card(),), variables={"CUDA_VISIBLE_DEVICES": "0," * 50_000})), "card.visible"
    )
    assert len(found.seen) < 200


def test_visible_devices_without_a_driver_is_not_seen() -> None:
    given = setup(variables={"CUDA_VISIBLE_DEVICES": "0"})
    assert levels(check_visible(given), "card.visible") == [Level.UNSEEN]


def test_a_variable_before_the_command_counts() -> None:
    given = setup("env", "CUDA_VISIBLE_DEVICES=5", "python", "x.py", cards=(card(0),))
    assert levels(check_visible(given), "card.visible") == [Level.FAIL]


def test_unlike_cards_are_counted_differently_by_cuda() -> None:
    unlike = (card(0), card(1, total=24 * GIB, name="L4"))
    assert levels(check_visible(setup(cards=unlike)), "card.order") == [Level.WARN]
    set_right = setup(cards=unlike, variables={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert levels(check_visible(set_right), "card.order") == []
    wrong = setup(cards=(card(0),), variables={"CUDA_DEVICE_ORDER": "PCI"})
    assert levels(check_visible(wrong), "card.order") == [Level.WARN]


@pytest.mark.parametrize(
    ("options", "versions", "used", "level"),
    [
        ((), {"vllm": "0.20.2"}, 7 * GIB, Level.FAIL),  # 0.92 of 80 is 73.6, 73 are free
        ((), {"vllm": "0.11.0"}, 7 * GIB, Level.FINE),  # 0.90 is 72
        (("--gpu-memory-utilization", "0.5"), {}, 30 * GIB, Level.FINE),
        (("--gpu-memory-utilization=0.9",), {}, 30 * GIB, Level.FAIL),
        (("--gpu-memory-utilization", "90"), {}, 0, Level.FAIL),
        (("--gpu-memory-utilization", "lots"), {}, 0, Level.FAIL),
    ],
)
def test_vllm_counts_its_share_of_the_whole_card(options: tuple, versions: dict, used: int, level: Level) -> None:
    given = setup("vllm", "serve", "m", *options, cards=(card(used=used),), versions=versions)
    assert levels(check_shares(given), "card.share") == [level]


def test_a_share_that_is_no_number_is_told_in_a_container_too() -> None:
    command = ("docker", "run", "vllm/vllm-openai", "--model", "m", "--gpu-memory-utilization", "0,9")
    assert levels(check_shares(setup(*command, cards=(card(used=79 * GIB),))), "card.share") == [Level.FAIL]
    assert levels(check_shares(setup(*command[:-1], "0.9", cards=(card(used=79 * GIB),))), "card.share") == []


def test_the_largest_share_that_starts_is_told() -> None:
    found = only(check_shares(setup("vllm", "serve", "m", cards=(card(used=30 * GIB),))), "card.share")
    assert found.lines == ("--gpu-memory-utilization 0.62",)
    assert found.figures["free_bytes"] == 50 * GIB


def test_a_cap_in_the_script_or_the_variable_is_compared_with_what_is_free(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n# torch.cuda.set_per_process_memory_fraction(0.1)\n"
                      "torch.cuda.set_per_process_memory_fraction(0.5, device=0)\n")  # fmt: skip
    given = setup("python", str(script), cards=(card(used=60 * GIB),))
    found = only(check_shares(given), "card.cap")
    assert (found.level, found.figures["cap_bytes"]) == (Level.WARN, 40 * GIB)
    variable = {"PYTORCH_CUDA_ALLOC_CONF": "per_process_memory_fraction:0.2"}
    assert only(check_shares(setup(cards=(card(),), variables=variable)), "card.cap").level is Level.FINE


def test_more_ranks_than_cards() -> None:
    few = setup("torchrun", "--nproc-per-node", "4", "train.py", cards=(card(0), card(1)))
    assert only(check_cards(few), "card.count").level is Level.WARN
    served = setup("vllm", "serve", "m", "-tp", "4", cards=(card(0), card(1)))
    assert only(check_cards(served), "card.count").level is Level.FAIL


def test_one_look_through_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    device = {"name": b"L4", "uuid": "GPU-1", "total": 24 * GIB, "used": 0, "free": 24 * GIB, "mig": 1, "gpu": 0}
    module = fake_nvml.make([device])
    module.nvmlDeviceGetComputeMode = lambda _: 3
    module.nvmlDeviceGetEccMode = lambda _: [1, 1]
    module.nvmlDeviceGetMaxMigDeviceCount = lambda _: 2
    slices = [{"uuid": "MIG-1", "total": 5 * GIB, "free": 4 * GIB}]
    module.nvmlDeviceGetMigDeviceHandleByIndex = lambda _, place: slices[place]
    monkeypatch.setitem(sys.modules, "pynvml", module)
    found = look_at_cards()
    assert found.traits == (DeviceTraits(0, "exclusive", True, None, (MigInstance("MIG-1", 5 * GIB, 4 * GIB),)),)
    assert (found.driver, found.why_none) == ("550.54.15", None)


def test_a_driver_that_does_not_answer_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    module = fake_nvml.make([])
    ended = threading.Event()
    module.nvmlInit = ended.wait
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert "did not answer" in (look_at_cards(0.05).why_none or "")
    ended.set()
