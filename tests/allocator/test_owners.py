"""Stacks are read for whose line they are and what they are for; live bytes are shared out without a rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from snapshots import programs
from snapshots.make import ADAM, LINEAR, LINEAR_INIT, MIB, MODULE_CALL, NO_GRAD, Device, Stack, frame, snapshot, write

from oomdoctor.allocator.owners import Ownership
from oomdoctor.allocator.replay import replay
from oomdoctor.allocator.stacks import Category, read_stack, users_frame
from oomdoctor.model.snapshot import Frame
from oomdoctor.readers.snapshot import read_snapshot

MINE = frame("forward", "/home/me/model.py", 29)
MAIN = frame("<module>", "/home/me/main.py", 7)
SITE = "/env/lib/python3.11/site-packages"
ENGINE = frame("torch::autograd::Engine::thread_main", "??", 0)


def _frames(stack: Stack) -> tuple[Frame, ...]:
    return tuple(Frame(f["name"], f["filename"], f["line"]) for f in stack)


def _ownership(device: Device, folder: Path, ring: int | None = None) -> Ownership:
    found = read_snapshot(write(folder / "s.pickle", snapshot(device, ring=ring)))
    return Ownership(found, replay(found, 0))


@pytest.mark.parametrize(
    ("stack", "category"),
    [
        ([LINEAR_INIT, MAIN], Category.WEIGHTS),
        ([frame("_apply", f"{SITE}/torch/nn/modules/module.py", 900), MAIN], Category.WEIGHTS),
        ([frame("from_pretrained", f"{SITE}/transformers/modeling_utils.py", 1), MAIN], Category.WEIGHTS),
        ([ADAM, frame("step", f"{SITE}/torch/optim/adam.py", 238), MAIN], Category.OPTIMIZER_STATE),
        ([frame("step", "/home/me/my_optimizer.py", 76), MAIN], Category.OPTIMIZER_STATE),
        ([frame("at::empty", "??", 0), ENGINE], Category.GRADIENT),
        ([frame("backward", f"{SITE}/torch/autograd/__init__.py", 1), MAIN], Category.GRADIENT),
        ([LINEAR, *MODULE_CALL, MINE, *MODULE_CALL, MAIN], Category.ACTIVATION),
        ([MINE, MAIN], Category.ACTIVATION),
        ([frame("update", f"{SITE}/transformers/cache_utils.py", 450), MINE, *MODULE_CALL, MAIN], Category.KV_APPEND),
        ([frame("append_kv", "/home/me/model.py", 3), MINE, *MODULE_CALL, MAIN], Category.KV_APPEND),
        ([frame("attention", "/home/me/model.py", 12), MINE, *MODULE_CALL, MAIN], Category.ATTENTION_SCORES),
        ([frame("cross_entropy", f"{SITE}/torch/nn/functional.py", 3561), MAIN], Category.LOGITS),
        ([frame("all_reduce", f"{SITE}/torch/distributed/distributed_c10d.py", 1), MAIN], Category.COMMUNICATION),
        ([frame("c10d::Reducer::initialize_buckets", "??", 0), MAIN], Category.COMMUNICATION),
        ([frame("to_device", "/home/me/data.py", 4), MAIN], Category.COPY),
        ([MAIN], Category.OTHER),
    ],
)  # fmt: skip
def test_the_category_is_read_from_names(stack: Stack, category: Category) -> None:
    assert read_stack(_frames(stack)).category is category


def test_the_users_innermost_frame_passes_over_torch_libraries_and_native_code() -> None:
    native = frame("at::_ops::mm::call", "Operators_0.cpp", 0)
    library = frame("update", f"{SITE}/transformers/cache_utils.py", 450)
    assert users_frame(_frames([native, LINEAR, *MODULE_CALL, library, MINE, MAIN])) == Frame(
        "forward", "/home/me/model.py", 29
    )
    assert users_frame(_frames([native, LINEAR, *MODULE_CALL, library])) == Frame(
        "update", f"{SITE}/transformers/cache_utils.py", 450
    )
    assert users_frame(_frames([native])) is None
    assert users_frame(_frames([frame("f", "<ipython-input-3>", 2)])) is not None
    assert read_stack(_frames([native, ENGINE])).owner == "backward pass (autograd thread)"
    assert read_stack(_frames([native])).owner == "native code without a Python frame"


def test_position_ends_at_the_outermost_modules_own_code() -> None:
    layer = frame("forward", "/home/me/model.py", 99)
    reading = read_stack(_frames([layer, *MODULE_CALL, MINE, *MODULE_CALL, NO_GRAD, MAIN]))
    assert [f.line for f in reading.position] == [7, NO_GRAD["line"], 29]
    assert (reading.in_module, reading.gradients_off) == (True, True)


def test_owners_add_up_at_every_moment(tmp_path: Path) -> None:
    device = programs.leak_of_graphs()
    ownership = _ownership(device, tmp_path)
    for event in (-1, 3, len(device.events) // 2, len(device.events) - 1):
        owners = ownership.owners(event)
        truth = device.live[event] if event >= 0 else 0
        assert sum(owner.bytes for owner in owners) == truth
        assert sum(ownership.by_category(event).values()) == truth - ownership.replay.pending_at(event)
        assert [owner.bytes for owner in owners] == sorted((owner.bytes for owner in owners), reverse=True)


def test_categories_of_a_training_run_are_those_planted(tmp_path: Path) -> None:
    device = Device()
    programs.load(device, 4, 20 * MIB)
    device.malloc(20 * MIB, [])
    device.malloc(12 * MIB, [])
    device.malloc(7 * MIB, [ADAM, *programs.at(73)])
    device.malloc(9 * MIB, programs.nested(20, 11, programs.at(71)))
    assert _ownership(device, tmp_path).by_category(len(device.events) - 1) == {
        Category.WEIGHTS: 80 * MIB,
        Category.GRADIENT: 20 * MIB,
        Category.OF_BACKWARD: 12 * MIB,  # no parameter is as large
        Category.OPTIMIZER_STATE: 7 * MIB,
        Category.ACTIVATION: 9 * MIB,
    }


def test_without_a_stack_before_the_ring_nothing_is_guessed(tmp_path: Path) -> None:
    device = Device()
    device.malloc(5 * MIB, [])
    device.malloc(3 * MIB, programs.at(1))
    (last, first) = sorted(_ownership(device, tmp_path, ring=1).owners(0), key=lambda owner: owner.bytes)
    assert (last.category, first.category) == (Category.OTHER, Category.UNKNOWN)
    assert first.name == "allocated before stacks were recorded"
    device = Device()
    device.malloc(5 * MIB, [])
    (only,) = _ownership(device, tmp_path).owners(1)
    assert (only.name, only.category) == ("no stack was recorded", Category.UNKNOWN)


def test_stacks_that_are_switched_on_late_say_nothing_of_what_came_before(tmp_path: Path) -> None:
    """Without a stack before the first one: unknown; after it: the autograd thread, which has no Python frames."""
    device = Device()
    device.malloc(5 * MIB, [])
    device.malloc(3 * MIB, programs.at(1))
    device.malloc(5 * MIB, [])
    device.malloc(2 * MIB, [])
    ownership = _ownership(device, tmp_path)
    assert not ownership.has_all_stacks
    assert ownership.by_category(len(device.events) - 1) == {
        Category.UNKNOWN: 5 * MIB,
        Category.OTHER: 3 * MIB,
        Category.GRADIENT: 5 * MIB,
        Category.OF_BACKWARD: 2 * MIB,
    }


@pytest.mark.parametrize(
    ("turns", "category", "in_the_loop"),
    [(6, Category.WEIGHTS, False), (40, Category.OTHER, False), (300, Category.OTHER, True)],
)
def test_a_constructor_called_turn_after_turn_beside_other_work_makes_no_weights(
    turns: int, category: Category, in_the_loop: bool, tmp_path: Path
) -> None:
    """A record of each turn is kept; a model of many layers, built with temporaries, would look alike for a while."""
    device = Device()
    stack = [frame("__init__", programs.FILE, 5), *programs.at(60)]
    for _ in range(turns):
        device.malloc(2 * MIB, stack)
        device.malloc(3 * MIB, stack)
        device.free(device.malloc(20 * MIB, programs.at(61)))
    ownership = _ownership(device, tmp_path)
    kept = [reading for reading in ownership.readings if reading.owner.endswith("in __init__")]
    assert [(each.category, each.category is Category.OTHER and not each.constructed) for each in kept] == [
        (category, in_the_loop)
    ]


def test_a_model_built_without_other_work_between_is_weights_however_many_layers_it_has(tmp_path: Path) -> None:
    device = Device()
    programs.load(device, 300, MIB)
    for _ in range(300):
        device.malloc(2 * MIB, [frame("__init__", programs.FILE, 5), *programs.at(60)])
    ownership = _ownership(device, tmp_path)
    assert {each.category for each in ownership.readings[:-3]} == {Category.WEIGHTS}
