"""GIVEN two runs, or the ranks of one WHEN they are compared THEN what grew is named, and what is not known is said."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from report.pages import Page
from snapshots.make import (
    LINEAR,
    LINEAR_INIT,
    MIB,
    MODULE_CALL,
    Device,
    Stack,
    frame,
    snapshot,
    without_addresses,
    write,
)

from oomdoctor.bundle.records import encode_record
from oomdoctor.cli.main import oomdoctor
from oomdoctor.compare.change import align, compare_sides
from oomdoctor.compare.outline import outline_change
from oomdoctor.compare.places import Held, Owners, Place, Side, read_side
from oomdoctor.compare.render import as_terminal
from oomdoctor.compare.spread import spread
from oomdoctor.errors import InputRefused, UsageError
from oomdoctor.model.printable import one_line

MAIN = "/home/me/train.py"


def _forward(line: int, file: str = MAIN) -> Stack:
    return [LINEAR, *MODULE_CALL, frame("forward", file, line), *MODULE_CALL, frame("<module>", file, 9)]


def _device(activations: int, line: int = 40, file: str = MAIN, stacks: bool = True) -> Device:
    """100 MiB of weights, and blocks of 10 MiB kept by the forward pass."""
    device = Device()
    device.malloc(100 * MIB, [LINEAR_INIT, frame("<module>", file, 5)] if stacks else [])
    for _ in range(activations):
        device.malloc(10 * MIB, _forward(line, file) if stacks else [])
    return device


def _snapshot(path: Path, device: Device, **settings: object) -> Path:
    content = snapshot(device)
    content["allocator_settings"] = settings
    return write(path, content)


def _bundle(folder: Path, ranks: dict[int, Device], command: list[str], variables: dict[str, str]) -> Path:
    for part in ("probe", "snapshots"):
        (folder / part).mkdir(parents=True)
    manifest = {
        "schema": "oomdoctor.bundle/1", "command": command, "working_directory": "/w", "started": 1.0, "host": {},
        "variables": variables,
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "supervisor.records").write_bytes(encode_record({"kind": "exit", "time": 9, "status": 1, "ended": 9.0}))
    for rank, device in ranks.items():
        pid = 100 + rank
        devices = (*map(Device, range(device.index)), device)
        write(folder / "snapshots" / f"{pid}-1.pickle", snapshot(*devices))
        process = {"kind": "process", "time": 1, "pid": pid, "ppid": 1, "argv": ["python"], "rank": rank}
        oom = {
            "kind": "device-oom", "time": 5, "device": device.index, "requested_bytes": MIB, "rank": rank,
            "snapshot_path": f"snapshots/{pid}-1.pickle",
        }  # fmt: skip
        (folder / "probe" / f"{pid}.records").write_bytes(b"".join(map(encode_record, (process, oom))))
    return folder


def _run(*words: object) -> Result:
    return CliRunner().invoke(oomdoctor, ["diff", *map(str, words)])


def _json(*paths: Path) -> dict[str, Any]:
    ended = _run(*paths, "--format", "json")
    assert ended.exit_code == 0, ended.exception
    found: dict[str, Any] = json.loads(ended.stdout)
    assert found["schema"] == "oomdoctor.diff/1"
    return found


def test_what_grew_is_named_by_owner_category_and_stack(tmp_path: Path) -> None:
    found = _json(_snapshot(tmp_path / "a", _device(3)), _snapshot(tmp_path / "b", _device(8)))
    (place,) = found["places"]
    (owner,) = place["owners"]
    assert owner["name"] == f"{MAIN}:40 in forward"
    assert (owner["before_bytes"], owner["after_bytes"]) == (30 * MIB, 80 * MIB)
    assert (owner["before_blocks"], owner["after_blocks"]) == (3, 8)
    assert [(row["name"], row["after_bytes"] - row["before_bytes"]) for row in place["categories"]] == [
        ("activations", 50 * MIB)
    ]
    assert [row["after_bytes"] - row["before_bytes"] for row in place["stacks"]] == [50 * MIB]
    assert place["after"]["sizes"]["allocated"] - place["before"]["sizes"]["allocated"] == 50 * MIB


def test_changes_of_owners_add_up_to_the_change_of_what_is_allocated(tmp_path: Path) -> None:
    found = _json(_snapshot(tmp_path / "a", _device(3, line=7)), _snapshot(tmp_path / "b", _device(8, file="/x/y.py")))
    (place,) = found["places"]
    for kind in ("owners", "categories", "stacks"):
        assert sum(row["after_bytes"] - row["before_bytes"] for row in place[kind]) == 50 * MIB


@pytest.mark.parametrize(("line", "file"), [(43, MAIN), (40, "/other/home/me/train.py"), (55, "/srv/me/train.py")])
def test_a_line_that_moved_is_the_same_owner(tmp_path: Path, line: int, file: str) -> None:
    found = _json(_snapshot(tmp_path / "a", _device(3)), _snapshot(tmp_path / "b", _device(8, line, file)))
    (owner,) = [row for row in found["places"][0]["owners"] if "forward" in row["name"]]
    assert (owner["before_bytes"], owner["after_bytes"]) == (30 * MIB, 80 * MIB)
    assert owner["name"] == f"{file}:{line} in forward"


def test_without_stacks_owners_are_not_compared_and_that_is_said(tmp_path: Path) -> None:
    before = _snapshot(tmp_path / "a", _device(3, stacks=False))
    found = _json(before, _snapshot(tmp_path / "b", _device(8)))
    (place,) = found["places"]
    assert (place["owners"], place["how_known"]) == ([], None)
    assert "owners: the first has neither stacks nor a whole census" in place["not_compared"]
    text = _run(before, tmp_path / "b", "--format", "terminal").stdout
    assert "50.00 MiB more (allocated 130.00 MiB → 180.00 MiB)." in " ".join(text.split())


def test_the_settings_that_came_with_it_are_named(tmp_path: Path) -> None:
    before = _bundle(tmp_path / "a", {0: _device(3)}, ["python", "t.py", "--batch-size", "8"], {"OMP": "1"})
    after = _bundle(tmp_path / "b", {0: _device(8)}, ["python", "t.py", "--batch-size=16", "--amp"], {})
    settings = {(s["group"], s["name"]): (s["before"], s["after"]) for s in _json(before, after)["settings"]}
    assert settings[("command", "--batch-size")] == ("8", "16")
    assert settings[("command", "--amp")] == (None, "given")
    assert settings[("environment", "OMP")] == ("1", None)


def test_settings_that_one_side_did_not_record_are_no_change(tmp_path: Path) -> None:
    before = _bundle(tmp_path / "a", {0: _device(3)}, ["python", "t.py"], {"OMP": "1"})
    found = _json(before, _snapshot(tmp_path / "b", _device(8)))
    assert found["settings"] == []
    assert {"command", "environment"} <= set(found["settings_not_compared"])


def test_allocator_settings_of_bare_snapshots_are_compared(tmp_path: Path) -> None:
    before = _snapshot(tmp_path / "a", _device(3), expandable_segments=False)
    found = _json(before, _snapshot(tmp_path / "b", _device(3), expandable_segments=True))
    assert [(s["name"], s["before"], s["after"]) for s in found["settings"]] == [
        ("expandable_segments", "False", "True")
    ]
    assert found["places"][0]["owners"] == []


def test_ranks_of_one_bundle_are_set_on_one_scale(tmp_path: Path) -> None:
    ranks = {}
    for rank, blocks in enumerate((3, 3, 8)):
        ranks[rank] = _device(blocks)
        ranks[rank].index = rank
    bundle = _bundle(tmp_path / "a", ranks, ["torchrun", "t.py"], {})
    found = _json(bundle)
    assert [place["name"] for place in found["places"]] == [f"rank {rank} on cuda:{rank}" for rank in range(3)]
    assert found["owners"] == [{"name": f"{MAIN}:40 in forward", "bytes": [30 * MIB, 30 * MIB, 80 * MIB]}]
    text = " ".join(_run(bundle, "--format", "terminal").stdout.split())
    assert "rank 2 on cuda:2 holds most, 180.00 MiB allocated; rank 0 on cuda:0 least, 130.00 MiB: 50.00 MiB" in text


def test_ranks_that_share_a_card_keep_their_names(tmp_path: Path) -> None:
    found = _json(_bundle(tmp_path / "a", {0: _device(3), 1: _device(5)}, ["torchrun"], {}))
    assert [place["name"] for place in found["places"]] == ["rank 0 on cuda:0", "rank 1 on cuda:0"]


def test_more_than_two_snapshots_are_a_spread(tmp_path: Path) -> None:
    paths = [_snapshot(tmp_path / name, _device(blocks)) for name, blocks in (("a", 1), ("b", 2), ("c", 4))]
    assert _json(*paths)["categories"] == [{"name": "activations", "bytes": [10 * MIB, 20 * MIB, 40 * MIB]}]
    assert "c cuda:0 holds most" in _run(*paths, "--format", "markdown").stdout


def test_a_figure_that_one_side_does_not_tell_is_no_change_to_nothing() -> None:
    before = Place("cuda:0", "", sizes={"held by Python objects": 5 * MIB, "reserved": 7 * MIB})
    after = Place("cuda:0", "", sizes={"allocated": 9 * MIB, "reserved": 10 * MIB})
    change = compare_sides(Side("a", (before,), {}), Side("b", (after,), {}))
    (answer,) = outline_change(change)[0].lines
    assert answer == "cuda:0: 3.00 MiB more (reserved 7.00 MiB → 10.00 MiB)."


def test_a_device_of_one_side_only_is_said(tmp_path: Path) -> None:
    second = _device(2)
    second.index = 1
    before = write(tmp_path / "a", snapshot(_device(3)))
    after = write(tmp_path / "b", snapshot(_device(3), second))
    assert _json(before, after)["only_after"] == ["cuda:1"]
    assert "only the second shows cuda:1" in _run(before, after).stdout


def test_two_kinds_of_device_are_both_named(tmp_path: Path) -> None:
    """Each side has one device only, so these are compared; they are not one."""
    one = _snapshot(tmp_path / "one.pickle", _device(100))
    content = snapshot(_device(100))
    for event in content["device_traces"][0]:
        event["frames"] = [*event["frames"], frame("empty", "/env/lib/site-packages/torch_npu/npu/memory.py", 3)]
    other = write(tmp_path / "other.pickle", content)
    (place,) = _json(one, other)["places"]
    assert (place["name"], place["before"]["where"], place["after"]["where"]) == (
        *("cuda:0 → npu:0", "cuda:0"),
        "npu:0",
    )
    assert "cuda:0 → npu:0: " in _run(one, other, "--format", "markdown").stdout


def test_one_place_alone_leaves_nothing_to_compare(tmp_path: Path) -> None:
    ended = _run(_snapshot(tmp_path / "a", _device(3)))
    assert isinstance(ended.exception, UsageError)
    assert "nothing to compare" in str(ended.exception)


def test_what_tells_nothing_of_memory_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("all is well\n")
    ended = _run(tmp_path / "a.log", _snapshot(tmp_path / "b", _device(3)))
    assert isinstance(ended.exception, InputRefused)
    assert "a.log" in str(ended.exception)


def test_an_input_is_never_overwritten(tmp_path: Path) -> None:
    before, after = _snapshot(tmp_path / "a", _device(3)), _snapshot(tmp_path / "b", _device(8))
    content = after.read_bytes()
    assert isinstance(_run(before, after, "--output", after).exception, UsageError)
    assert after.read_bytes() == content


def test_lines_of_the_terminal_form_fit_80_columns(tmp_path: Path) -> None:
    deep = "/a/very/long/path/" + "folder/" * 12 + "with_a_long_name_of_its_own/train_everything_at_once.py"
    text = _run(
        _snapshot(tmp_path / "a", _device(3)), _snapshot(tmp_path / "b", _device(8, file=deep)), "--format", "terminal"
    ).stdout
    assert max(map(len, text.splitlines())) <= 80


def test_in_forty_columns_each_row_is_a_name_with_its_figures_below_it(tmp_path: Path) -> None:
    sides = (read_side(_snapshot(tmp_path / f"{n}.pickle", _device(n))) for n in (3, 9))
    lines = as_terminal(outline_change(compare_sides(*sides)), 40).splitlines()
    assert max(map(len, lines)) <= 40
    place = lines.index("  reserved")
    assert [line.split(":")[0].strip() for line in lines[place + 1 : place + 4]] == ["before", "after", "change"]


@given(
    st.dictionaries(st.text("ab:1", max_size=3), st.integers(0, 9).map(lambda n: Held(n, 1))),
    st.dictionaries(st.text("ab:1", max_size=3), st.integers(0, 9).map(lambda n: Held(n, 1))),
)
def test_no_byte_is_lost_or_doubled_by_pairing(before: dict[str, Held], after: dict[str, Held]) -> None:
    paired = align(before, after, (lambda key: key.replace("1", ""), len))
    assert sum(b.bytes for _, b, _ in paired) == sum(held.bytes for held in before.values())
    assert sum(a.bytes for _, _, a in paired) == sum(held.bytes for held in after.values())
    assert sum(b.count for _, b, _ in paired) == len(before)


def _bars(source: str) -> list[float]:
    """Where each bar's last segment ends, in percent of the page's width."""
    found = re.findall(r'<svg class="bar".*?</figure>', source, flags=re.DOTALL)
    return [
        max(float(x) + float(w) for x, w in re.findall(r'<svg x="([\d.]+)%" y="1" width="([\d.]+)%"', each))
        for each in found
    ]


def test_a_page_has_both_sides_on_one_scale_and_all_that_the_text_says(tmp_path: Path) -> None:
    before, after = (_snapshot(tmp_path / name, _device(n)) for name, n in (("a.pickle", 3), ("b.pickle", 8)))
    target = tmp_path / "diff.html"
    assert _run(before, after, "--output", target).exit_code == 0
    source = target.read_text(encoding="utf-8")
    page = Page(source)
    shorter, longer = _bars(source)
    assert longer == pytest.approx(100, abs=0.01)
    reserved = [place.sizes["reserved"] for side in map(read_side, (before, after)) for place in side.places]
    assert shorter == pytest.approx(100 * reserved[0] / reserved[1], abs=0.01)
    shown = " ".join(page.texts)
    change = compare_sides(read_side(before), read_side(after))
    for section in outline_change(change):
        assert all(one_line(cell) in shown for row in section.rows for cell in row)
    assert not page.scripts


def test_a_page_of_ranks_has_a_bar_each(tmp_path: Path) -> None:
    ranks = {rank: _device(2 + 3 * rank) for rank in range(3)}
    ended = _run(_bundle(tmp_path / "run", ranks, ["python", "x.py"], {}), "--format", "html")
    bars = _bars(ended.stdout)
    assert len(bars) == 3
    assert bars == sorted(bars)
    assert bars[-1] == pytest.approx(100, abs=0.01)


def test_names_cannot_act_in_the_page(tmp_path: Path) -> None:
    path = _snapshot(tmp_path / "a", _device(3, file="/x/<script>alert(1)</script>.py"))
    ended = _run(path, _snapshot(tmp_path / "b", _device(8)), "--format", "html")
    assert "<script>" not in ended.stdout
    assert "default-src" in ended.stdout


def test_a_recording_that_shows_when_blocks_are_freed_is_compared_with_one_that_does_not(tmp_path: Path) -> None:
    long, short = Device(), Device()
    for device, steps in ((long, 3), (short, 0)):
        for _ in range(steps):
            saved = [device.malloc(10 * MIB, _forward(40)) for _ in range(4)]
            gradient = device.malloc(MIB, [])
            for address in (*saved, gradient):
                device.free(address)
            device.free(device.malloc(512, []))
        for _ in range(4):
            device.malloc(10 * MIB, _forward(40))
    paths = [_snapshot(tmp_path / name, device) for name, device in (("a", short), ("b", long))]
    (place,) = _json(*paths)["places"]
    assert place["categories"] == []


def test_what_rose_more_than_all_is_not_most_of_it(tmp_path: Path) -> None:
    other = _device(0)
    other.malloc(200 * MIB, [frame("collect", "/home/me/other.py", 3), *_forward(80)])
    ended = _run(_snapshot(tmp_path / "a", _device(18)), _snapshot(tmp_path / "b", other))
    assert "What rose most:" in ended.stdout
    assert "Most of it" not in ended.stdout
    assert "What fell most beside it: me/train.py:40 in forward" in " ".join(ended.stdout.split())


def test_a_list_that_grew_is_one_owner() -> None:
    """How many elements it has, and where it was grown last, is in its name."""

    def place(owner: str, size: int) -> Place:
        held = Owners({owner: Held(size, 1), "model of __main__": Held(MIB, 1)}, {"others": Held(size + MIB, 2)})
        return Place("cuda:0", "", sizes={"allocated": size + MIB}, census=held)

    for before, after in (
        ("list 'kept' of __main__ (3 elements)", "list 'kept' of __main__ (9 elements)"),
        ("list 'kept' of __main__", "list 'kept' of __main__ (grew from 3 to 9 elements in 2.1 s)"),
        (
            "list 'kept' of __main__ (3 elements), grown at a.py:3",
            "list 'kept' of __main__ (4 elements), grown at a.py:5",
        ),
    ):
        sides = (Side(name, (place(owner, size),), {}) for name, owner, size in (("a", before, 1), ("b", after, MIB)))
        (changed,) = compare_sides(*sides).places
        assert [(row.key, row.before.bytes, row.after.bytes) for row in changed.owners] == [(after, 1, MIB)]


def test_a_list_is_one_owner_in_all_ranks() -> None:
    places = (
        Place("cuda:0", "", sizes={"allocated": size}, rank=rank, census=Owners({owner: Held(size, 1)}, {}))
        for rank, (owner, size) in enumerate((("list 'a' (3 elements)", 5), ("list 'a' (4 elements)", 7)))
    )
    found = spread((Side("bundle", tuple(places), {}),))
    assert [(row.name, row.bytes) for row in found.owners] == [("list 'a'", (5, 7))]


def test_a_variable_that_the_allocator_shows_too_is_told_once() -> None:
    name, place = "PYTORCH_CUDA_ALLOC_CONF", Place("cuda:0", "", sizes={"allocated": 1})
    before = Side("a", (place,), {"environment": {}, "allocator": {name: "", "expandable_segments": "False"}})
    after = Side(
        "b",
        (place,),
        {
            "environment": {name: "expandable_segments:True"},
            "allocator": {name: "expandable_segments:True", "expandable_segments": "True"},
        },
    )
    found = [(each.group, each.name) for each in compare_sides(before, after).settings]
    assert found == [("environment", name), ("allocator", "expandable_segments")]


def test_one_block_is_one(tmp_path: Path) -> None:
    before, after = (_snapshot(tmp_path / f"{number}.pickle", _device(number)) for number in (2, 3))
    assert ", 1 block more" in _run(before, after).stdout


def _failed(path: Path, free: int, **settings: object) -> Path:
    device = _device(4)
    device.fail(30 * MIB, free, _forward(40))
    return _snapshot(path, device, **settings)


UNLIKE_CARDS = "What each process could have in all is unlike (164.00 MiB, 40.14 GiB): other cards, or somebody else"
UNLIKE_FORMS = "The snapshots are of unlike forms, as unlike versions of torch write them"
UNLIKE_MOMENTS = "The moments are unlike: one is a failure, another is not"


def test_unlike_cards_are_said(tmp_path: Path) -> None:
    small, large = _failed(tmp_path / "a.pickle", 24 * MIB), _failed(tmp_path / "b.pickle", 40 << 30)
    (caution,) = _json(small, large)["cautions"]
    assert caution.startswith(UNLIKE_CARDS)
    assert caution in _run(small, large, "--format", "markdown").stdout.replace("\\", "")
    (of_ranks,) = _json(small, large, small)["cautions"]
    assert of_ranks == caution
    assert "other cards" in _run(small, large, small, "--format", "html").stdout
    assert _json(small, small)["cautions"] == []


def test_cards_of_known_sizes_are_told_by_these(tmp_path: Path) -> None:
    paths = []
    for name, size in (("a", "23.60"), ("b", "79.20")):
        folder = tmp_path / name
        folder.mkdir()
        _failed(folder / "s.pickle", 24 * MIB)
        (folder / "log").write_text(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total capacity of "
            f"{size} GiB of which 24.00 MiB is free. Of the allocated memory 140.00 MiB is allocated by PyTorch, and "
            "0 bytes is reserved by PyTorch but unallocated.\n"
        )
        paths.append(folder)
    (caution,) = _json(*paths)["cautions"]
    assert caution == "The cards are unlike (23.60 GiB, 79.20 GiB): what is free and what fits do not compare."
    assert _json(paths[0], paths[0])["cautions"] == []


def test_unlike_forms_and_versions_of_torch_are_said(tmp_path: Path) -> None:
    old = write(tmp_path / "old.pickle", without_addresses(snapshot(_device(4))))
    new = write(tmp_path / "new.pickle", snapshot(_device(4)))
    (caution,) = _json(old, new)["cautions"]
    assert caution.startswith(UNLIKE_FORMS)
    before, after = (
        Side(name, read_side(new).places, {"version": {"torch": version}})
        for name, version in (("a", "2.1"), ("b", "2.9"))
    )
    (said,) = compare_sides(before, after).cautions
    assert said.startswith("The versions of torch are unlike (2.1, 2.9): sizes of blocks and segments, and stacks")
    assert not compare_sides(before, before).cautions


def test_a_failure_beside_a_quiet_moment_is_said(tmp_path: Path) -> None:
    quiet, failed = _snapshot(tmp_path / "a.pickle", _device(4)), _failed(tmp_path / "b.pickle", 24 * MIB)
    (caution,) = _json(quiet, failed)["cautions"]
    assert caution.startswith(UNLIKE_MOMENTS)


def test_unlike_kinds_of_device_are_said(tmp_path: Path) -> None:
    device = Device()
    device.malloc(MIB, [frame("c10::xpu::XPUCachingAllocator::malloc", "libc10_xpu.so", 0)])
    other = _snapshot(tmp_path / "xpu.pickle", device)
    (caution,) = _json(_snapshot(tmp_path / "a.pickle", _device(4)), other)["cautions"]
    assert caution.startswith("The devices are of unlike kinds (cuda, xpu)")


def test_another_python_shows_in_the_stacks_of_bare_snapshots(tmp_path: Path) -> None:
    paths = []
    for python in ("3.11", "3.12"):
        device = Device()
        device.malloc(MIB, [frame("forward", f"/env/lib/python{python}/site-packages/torch/nn/modules/linear.py", 1)])
        paths.append(write(tmp_path / f"{python}.pickle", snapshot(device)))
    (setting,) = _json(*paths)["settings"]
    assert setting == {"group": "version", "name": "python", "before": "3.11", "after": "3.12"}


def test_the_size_of_a_card_that_only_the_log_tells_is_compared() -> None:
    (place,) = read_side(Path(__file__).parents[2] / "sample_logs" / "fragmentation").places
    assert place.sizes["the device"] == place.total_bytes == 24 << 30
