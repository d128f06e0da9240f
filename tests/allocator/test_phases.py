"""Phases from annotations, from names in stacks, from threads without Python frames, from sizes; each with how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from snapshots.make import ADAM, LINEAR, MIB, MODULE_CALL, NO_GRAD, Device, Stack, frame, snapshot, write

from oomdoctor.allocator.owners import Ownership
from oomdoctor.allocator.phases import NONE, PHASES, phase_of_name, phases
from oomdoctor.allocator.replay import replay
from oomdoctor.allocator.stacks import Category, read_stack
from oomdoctor.model.snapshot import Frame
from oomdoctor.readers.snapshot import read_snapshot

MAIN = frame("<module>", "/home/me/main.py", 7)
PASS = [LINEAR, *MODULE_CALL, MAIN]
STEP = [ADAM, MAIN]
NAMES = "guessed from names in the stacks of allocations"
NO_FRAME = "no Python frame: the autograd thread has none"
ANNOTATION = "the program's own annotation"


def _phases(content: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    found = read_snapshot(write(folder / "s.pickle", content))
    return [(each.name, each.how_known) for each in phases(Ownership(found, replay(found, 0)))]


def _allocate(device: Device, times: int, stack: Stack, size: int = MIB) -> None:
    for _ in range(times):
        device.free(device.malloc(size, stack))


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("Optimizer.step#AdamW.step", "optimizer"),
        ("Optimizer.zero_grad#AdamW.zero_grad", None),
        ("## forward ##", "forward"),
        ("FullyShardedDataParallel.forward", "forward"),
        ("backward", "backward"),
        ("fwd", "forward"),
        ("forward_backward", None),
        ("prefill", "prefill"),
        ("prefill forward", "prefill"),
        ("decode step 17", "decode"),
        ("decoder layer", None),
        ("vae decode", None),
        ("tokenizer.decode", None),
        ("load_model", "load"),
        ("data loading", None),
        ("generate", "generate"),
        ("ProfilerStep#3", None),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", None),
        ("optimizer", "optimizer"),
        ("step", None),
    ],
)
def test_a_name_that_the_program_gave_speaks_of_one_phase_or_of_none(name: str, phase: str | None) -> None:
    assert phase_of_name(name) == (PHASES.index(phase) if phase else NONE)


def test_an_annotation_is_believed_before_the_stack_and_an_inner_one_before_the_outer(tmp_path: Path) -> None:
    device = Device()
    times = [device.time_us]
    for stack in (PASS, PASS, PASS, STEP):
        _allocate(device, 20, stack)
        times.append(device.time_us)
    content = snapshot(device)
    content["external_annotations"] = [
        {"stage": "START", "name": "generate", "device": 0, "time_us": times[0]},
        {"stage": "START", "name": "prefill", "device": 0, "time_us": times[0] + 5},
        {"stage": "END", "name": "prefill", "device": 0, "time_us": times[1]},
        {"stage": "END", "name": "generate", "device": 0, "time_us": times[2]},
        {"stage": "START", "name": "backward", "device": 1, "time_us": times[2]},
        {"stage": "END", "name": "backward", "device": 1, "time_us": times[4]},
    ]
    assert _phases(content, tmp_path) == [
        ("prefill", ANNOTATION),
        ("generate", ANNOTATION),
        ("forward", NAMES),
        ("optimizer", NAMES),
    ]


def test_without_times_annotations_say_nothing(tmp_path: Path) -> None:
    device = Device()
    _allocate(device, 20, PASS)
    content = snapshot(device)
    content["external_annotations"] = [{"stage": "START", "name": "backward", "device": 0, "time_us": 5}]
    for event in content["device_traces"][0]:
        del event["time_us"]
    assert _phases(content, tmp_path) == [("forward", NAMES)]


def test_notes_on_events_name_phases(tmp_path: Path) -> None:
    device = Device()
    _allocate(device, 20, PASS)
    for event in device.events:
        event["user_metadata"] = "decode"
    _allocate(device, 20, PASS)
    assert _phases(snapshot(device), tmp_path) == [
        ("decode", "the program's own note on its allocations"),
        ("forward", NAMES),
    ]


def test_a_note_that_says_load_is_believed_before_the_stack(tmp_path: Path) -> None:
    device = Device()
    _allocate(device, 20, PASS)
    for event in device.events:
        event["user_metadata"] = "load weights"
    _allocate(device, 20, PASS)
    assert _phases(snapshot(device), tmp_path) == [
        ("load", "the program's own note on its allocations"),
        ("forward", NAMES),
    ]


def test_what_has_no_python_frame_while_others_have_is_backward(tmp_path: Path) -> None:
    device = Device()
    _allocate(device, 5, [])
    _allocate(device, 20, PASS)
    _allocate(device, 20, [])
    _allocate(device, 20, STEP)
    assert _phases(snapshot(device), tmp_path) == [("forward", NAMES), ("backward", NO_FRAME), ("optimizer", NAMES)]


def test_a_layer_that_backward_runs_again_is_of_backward(tmp_path: Path) -> None:
    again = [
        LINEAR,
        *MODULE_CALL,
        frame("unpack_hook", "/env/lib/python3.11/site-packages/torch/utils/checkpoint.py", 9),
    ]
    device = Device()
    _allocate(device, 20, PASS)
    _allocate(device, 20, again)
    assert [name for name, _ in _phases(snapshot(device), tmp_path)] == ["forward", "backward"]


def _generation(prompt: int, tokens: int, function: str = "update", appends: int = 1) -> Device:
    """A prompt's pass, then a token at a time, in an engine that calls nothing after its phases."""
    device = Device()
    append = [frame(function, "/env/lib/python3.11/site-packages/transformers/cache_utils.py", 92)]
    for length in (prompt, *[1] * tokens):
        for _layer in range(4):
            _allocate(device, 1, [LINEAR, *MODULE_CALL, NO_GRAD, MAIN], size=length * 8192)
            for _ in range(appends):
                device.malloc(length * 1024, [*append, *MODULE_CALL, NO_GRAD, MAIN])
    return device


def test_a_loop_called_generate_is_told_by_its_prompts_where_nothing_names_a_cache(tmp_path: Path) -> None:
    """torch.cat leaves no name: keys that grow look like any result of a forward pass."""
    how = "guessed from the sizes of the passes under a function called generate: a prompt's tensors are larger"
    generate = [NO_GRAD, frame("generate", "/home/me/serve.py", 30), MAIN]
    device = Device()
    for prompt in (600, 900):
        for length in (prompt, *[1] * 20):
            for _layer in range(4):
                where = [frame("forward", "/home/me/net.py", 8), frame("turn", "/home/me/net.py", 5 + (length == 1))]
                device.free(device.malloc(length * 8192, [LINEAR, *MODULE_CALL, *where, *generate]))
                device.free(device.malloc((prompt + 1) * 512, [frame("forward", "/home/me/net.py", 9), *generate]))
    assert _phases(snapshot(device), tmp_path) == [("prefill", how), ("decode", how)] * 2
    training = [LINEAR, *MODULE_CALL, frame("generate", "/home/me/serve.py", 30), MAIN]
    device = Device()
    _allocate(device, 20, training)
    assert [name for name, _ in _phases(snapshot(device), tmp_path)] == ["forward"]


def test_a_prompt_among_thousands_of_tokens_is_told_where_it_begins(tmp_path: Path) -> None:
    """A pass is a few dozen allocations; a layer makes a seed as well, as small for a prompt as for a token."""
    generate = [NO_GRAD, frame("generate", "/home/me/serve.py", 30), MAIN]
    device, begins = Device(), []
    for prompt, tokens in ((600, 700), (900, 900)):
        for length in (prompt, *[1] * tokens):
            if length == prompt:
                begins.append(len(device.events))
            for _layer in range(6):
                for line, size in ((8, length * 8192), (10, 512)):
                    where = [frame("forward", "/home/me/net.py", line), *generate]
                    device.free(device.malloc(size, [LINEAR, *MODULE_CALL, *where]))
    recorded = read_snapshot(write(tmp_path / "s.pickle", snapshot(device)))
    found = phases(Ownership(recorded, replay(recorded, 0)))
    assert [each.name for each in found] == ["prefill", "decode"] * 2
    assert [each.begin for each in found if each.name == "prefill"][1] == begins[1]
    assert all(each.end - each.begin <= 2 * 6 * 3 + 1 for each in found if each.name == "prefill")


@pytest.mark.parametrize("appends", [1, 2])
def test_a_prompts_pass_is_told_from_those_of_single_tokens(appends: int, tmp_path: Path) -> None:
    """A value is appended right after its key, with no work between."""
    sizes = "guessed from the sizes of a forward pass that adds keys and values: a prompt's tensors are larger"
    device = _generation(512, 20, appends=appends)
    _allocate(device, 4, [LINEAR, *MODULE_CALL, NO_GRAD, MAIN], size=8192)  # the head of the last pass
    assert _phases(snapshot(device), tmp_path) == [("prefill", sizes), ("decode", sizes)]


@pytest.mark.parametrize(
    ("function", "file", "phase"),
    [
        ("forward_extend", "/env/lib/python3.11/site-packages/sglang/srt/model_executor/model_runner.py", "prefill"),
        ("forward_decode", "/env/lib/python3.11/site-packages/sglang/srt/model_executor/model_runner.py", "decode"),
        ("_prefill", "/env/lib/python3.11/site-packages/transformers/generation/utils.py", "prefill"),
        ("profile_run", "/env/lib/python3.11/site-packages/vllm/v1/worker/gpu_model_runner.py", "load"),
        ("decode", "/home/me/serve.py", "decode"),
        ("decode", "/env/lib/python3.11/site-packages/diffusers/models/autoencoders/vae.py", ""),
        ("decoder_layer", "/home/me/serve.py", ""),
    ],
)
def test_functions_called_after_a_phase_name_it(tmp_path: Path, function: str, file: str, phase: str) -> None:
    device = Device()
    _allocate(device, 20, [*PASS[:-1], frame(function, file, 3), MAIN])
    assert _phases(snapshot(device), tmp_path) == [(phase or "forward", NAMES)]


def test_an_engine_that_tries_out_decoding_still_starts() -> None:
    stack = tuple(
        Frame(name, "/env/lib/python3.11/site-packages/vllm/v1/worker/gpu_model_runner.py", 1)
        for name in ("forward_decode", "_dummy_run", "run")
    )
    assert read_stack(stack).named_phase == "load"


def test_a_model_that_trains_generates_nothing_by_naming_keys_and_values(tmp_path: Path) -> None:
    cache = frame("update_cache", "/home/me/attention.py", 5)
    device = Device()
    _allocate(device, 20, [cache, *PASS])
    assert _phases(snapshot(device), tmp_path)[0][0] == "generate"
    _allocate(device, 20, [])
    assert _phases(snapshot(device), tmp_path)[0][0] == "forward"


@pytest.mark.parametrize(
    ("function", "file", "category"),
    [
        ("update", "cache_utils.py", Category.KV_APPEND),
        ("append_kv", "model.py", Category.KV_APPEND),
        ("repeat_kv", "modeling_llama.py", Category.ACTIVATION),
        ("_set_cos_sin_cache", "modeling_llama.py", Category.ACTIVATION),
        ("kv_proj", "model.py", Category.ACTIVATION),
    ],
)
def test_what_only_speaks_of_keys_and_values_is_no_cache(function: str, file: str, category: Category) -> None:
    stack = [frame(function, f"/env/lib/python3.11/site-packages/m/{file}", 3), *PASS[1:]]
    assert read_stack(tuple(Frame(f["name"], f["filename"], f["line"]) for f in stack)).category is category


def test_a_program_called_after_its_cache_holds_other_things_too() -> None:
    stack = (Frame("<listcomp>", "/home/me/kv_cache_test.py", 9), Frame("<module>", "/home/me/kv_cache_test.py", 20))
    assert read_stack(stack).category is Category.OTHER
    library = (Frame("grow", "/home/me/kv_cache.py", 9), Frame("<module>", "/home/me/main.py", 20))
    assert read_stack(library).category is Category.KV_APPEND


def test_layers_made_in_a_file_called_after_a_cache_are_weights() -> None:
    made = frame("__init__", "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", 109)
    stack = [made, frame("build", "/home/me/kv_cache.py", 9), MAIN]
    read = read_stack(tuple(Frame(f["name"], f["filename"], f["line"]) for f in stack))
    assert read.category is Category.WEIGHTS
