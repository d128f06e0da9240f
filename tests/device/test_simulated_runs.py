"""GIVEN a recorded run WHEN it goes through the model of the allocator THEN that does what torch's did."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from emulation.scenario import FOLDER, Scenario, load, machine_of, names
from emulation.wheel import environment
from extended import extended_but
from on_device import Device, clean_environment

from oomdoctor.allocator.simulation.recording import Kind
from oomdoctor.allocator.simulation.rounding import block_size
from oomdoctor.allocator.simulation.whatif import Card, Simulation, Verdict
from oomdoctor.model.snapshot import Events, Snapshot, SnapshotOom
from oomdoctor.readers.snapshot import read_snapshot

pytestmark = [pytest.mark.device, pytest.mark.slow]

PROGRAM = """
import pickle, runpy, sys
sys.path.insert(0, {folder!r})
sys.argv[:] = [{script!r}]
torch.cuda.memory._set_allocator_settings({settings!r})
torch.cuda.memory._record_memory_history(max_entries=2_000_000, context=None)
def observe(device, size, total, free):
    with open({output!r}, "wb") as file:
        pickle.dump(torch.cuda.memory._snapshot(), file)
torch._C._cuda_attach_out_of_memory_observer(observe)
runpy.run_path({script!r}, run_name="__main__")
"""


def _alone(scenario: Scenario) -> bool:
    """One process with nobody else on the card."""
    started = scenario.name in ("spawn_worker", "kv_growth_expandable")  # which start another script, or process
    return not scenario.neighbours and tuple(scenario.launcher) == ("python",) and not started


RECORDED = [name for name in names() if load(name).record]
"""Where it is the allocator that fails: all but those where the driver or a library does."""
SCENARIOS = [name for name in RECORDED if _alone(load(name))]
CHANGING = "neighbour_comes_and_goes"
"""Its neighbour takes and gives back while it runs, so that an earlier request found more free than the last one."""
WITH_OTHERS = [name for name in RECORDED if not _alone(load(name)) and name != CHANGING]

EVERYWHERE = """
import os, sys
if not sys.argv[0].endswith("torchrun"):
    import pickle, torch
    torch.cuda.init()
    torch.cuda.memory._set_allocator_settings({settings!r})
    torch.cuda.memory._record_memory_history(max_entries=2_000_000, context=None)
    def observe(device, size, total, free):
        with open(os.path.join({folder!r}, f"{{os.getpid()}}.pickle"), "wb") as file:
            pickle.dump(torch.cuda.memory._snapshot(), file)
    torch._C._cuda_attach_out_of_memory_observer(observe)
"""
"""As PROGRAM, in every process of a scenario, the ones that it starts included."""

IN_SHORT = ("random_frees", "long_prompt")


def record(device: Device, script: Path, settings: str, output: Path) -> Snapshot | None:
    """The snapshot of the last request that failed when the script ran with these settings; None if none did."""
    device.run(PROGRAM.format(folder=str(FOLDER), script=str(script), settings=settings, output=str(output)))
    return read_snapshot(output) if output.exists() else None


def last(snapshot: Snapshot) -> SnapshotOom:
    return snapshot.ooms[-1]


def requests_before(snapshot: Snapshot) -> list[int]:
    """The sizes of all requests up to the last that failed; whole only where the ring is."""
    events = snapshot.events[last(snapshot).device]
    before = slice(0, last(snapshot).event_index)
    return [int(size) for size in events.size_bytes[before][events.action[before] == 0]]


def cut(snapshot: Snapshot, oom: SnapshotOom, first: int) -> tuple[Snapshot, SnapshotOom]:
    """As if the ring had held the events from `first` on only."""

    def shorter(events: Events) -> Events:
        if events.device != oom.device:
            return events
        columns = {
            name: getattr(events, name)[first:]
            for name in ("action", "address", "size_bytes", "stream", "time_us", "stack")
        }
        return replace(events, **columns, pool=None if events.pool is None else events.pool[first:])

    kept = tuple(
        replace(one, event_index=one.event_index - first)
        for one in snapshot.ooms
        if one.device == oom.device and one.event_index >= first
    )
    shortened = replace(snapshot, events=tuple(map(shorter, snapshot.events)), ooms=kept)
    return shortened, kept[-1]


def simulate(snapshot: Snapshot, scenario: Scenario, allowed_bytes: int | None = None) -> Simulation:
    oom = last(snapshot)
    return Simulation(snapshot, oom, Card(scenario.cards().memory_bytes[oom.device], allowed_bytes))


def figures(simulation: Simulation) -> str:
    """What `--junitxml` keeps of a run: the figures of docs/accuracy.md."""
    trust, recording = simulation.trust, simulation.recording
    segments = f"{len(recording.end.areas)} segments alike" if trust.reproduced else trust.why_not
    return f"{trust.placed_alike} of {trust.requests} requests placed alike, {segments}"


@pytest.mark.parametrize("name", extended_but(SCENARIOS, *IN_SHORT))
def test_the_model_does_what_torch_does_with_and_without_expandable_segments(
    name: str, device_with: Callable[..., Device], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    scenario = load(name)
    cards = scenario.cards()
    allowed = cards.memory_bytes[0] // 4 if name == "memory_fraction" else None
    runs = []
    for expandable in (False, True):
        device = device_with(memory_bytes=cards.memory_bytes, context_bytes=cards.context_bytes)
        settings = f"expandable_segments:{expandable}"
        snapshot = record(device, scenario.script, settings, tmp_path / f"{expandable}.pickle")
        runs.append(snapshot)
        if snapshot is None:
            record_property(settings, "does not fail")
            continue
        simulation = simulate(snapshot, scenario, allowed)
        record_property(settings, figures(simulation))
        assert simulation.settings.expandable_segments == expandable
        assert simulation.recording.begins_empty
        assert simulation.trust.exact, simulation.trust
        _check_cut(snapshot, scenario, allowed)
    assert runs[0] is not None
    for recorded, genuine in ((runs[0], runs[1]), (runs[1], runs[0])):
        if recorded is None:
            continue
        simulation = simulate(recorded, scenario, allowed)
        changed = not simulation.settings.expandable_segments
        answer = simulation.ask(replace(simulation.settings, expandable_segments=changed))
        asked = requests_before(recorded)
        record_property(f"expandable_segments:{changed} asked", answer.verdict.value)
        if answer.verdict is Verdict.SERVED:
            assert genuine is None or len(requests_before(genuine)) > len(asked)
        else:
            assert answer.verdict in (Verdict.FAILS, Verdict.FAILS_EARLIER)
            assert genuine is not None
            assert len(requests_before(genuine)) == len(asked) - answer.requests_earlier
            assert last(genuine).requested_bytes == answer.failed_request_bytes


OTHER_SETTINGS = (
    ("max_split_size_mb:64,roundup_power2_divisions:4", None),
    ("max_split_size_mb:256,garbage_collection_threshold:0.6", 0.9),
    ("expandable_segments:True,garbage_collection_threshold:0.6,roundup_power2_divisions:[256:8,>:2]", 0.9),
)
"""With the share of the card that the process may have: garbage is collected only where that is not all."""


@pytest.mark.extended
@pytest.mark.parametrize(("settings", "share"), OTHER_SETTINGS)
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "memory_fraction"])
def test_the_model_does_what_torch_does_under_other_settings(
    name: str,
    settings: str,
    share: float | None,
    device_with: Callable[..., Device],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """memory_fraction has a share of its own, with the settings of the test before."""
    scenario = load(name)
    cards = scenario.cards()
    script = tmp_path / "program.py"
    bound = "" if share is None else f"torch.cuda.set_per_process_memory_fraction({share})\n"
    folder, target = str(FOLDER), str(scenario.script)
    script.write_text(
        f"import runpy, sys, torch\n{bound}sys.argv[:] = [{target!r}]\nsys.path.insert(0, {folder!r})\n"
        f"runpy.run_path({target!r}, run_name='__main__')\n"
    )
    device = device_with(memory_bytes=cards.memory_bytes, context_bytes=cards.context_bytes)
    snapshot = record(device, script, settings, tmp_path / "s.pickle")
    if snapshot is None:
        pytest.skip("does not fail under these settings")
    oom = last(snapshot)
    allowed = int(cards.memory_bytes[0] * share) if share is not None and oom.device == 0 else None
    simulation = simulate(snapshot, scenario, allowed)
    record_property(settings, figures(simulation))
    assert simulation.trust.exact, simulation.trust
    _check_cut(snapshot, scenario, allowed)


@pytest.mark.extended
@pytest.mark.parametrize("name", WITH_OTHERS)
@pytest.mark.parametrize("expandable", [False, True])
def test_the_model_does_what_torch_does_where_others_are_on_the_card(
    name: str, expandable: bool, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """What it foretells is not compared: when the others come and go differs from run to run."""
    scenario = load(name)
    settings = f"expandable_segments:{expandable}"
    snapshots = tmp_path / "snapshots"
    snapshots.mkdir()
    (tmp_path / "sitecustomize.py").write_text(EVERYWHERE.format(folder=str(snapshots), settings=settings))
    with machine_of(scenario) as machine:
        variables = machine.variables({**clean_environment(), "PYTORCH_CUDA_ALLOC_CONF": settings})
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(tmp_path), variables.get("PYTHONPATH"))))
        ended = subprocess.run(scenario.command(), env=variables, capture_output=True, text=True, check=False)
    found = sorted(snapshots.iterdir())
    assert found, ended.stderr
    for path in found:
        snapshot = read_snapshot(path)
        simulation = simulate(snapshot, scenario)
        record_property(settings, figures(simulation))
        assert simulation.recording.begins_empty
        assert simulation.trust.exact, simulation.trust
        _check_cut(snapshot, scenario, None)


@pytest.mark.extended
def test_where_the_room_changed_while_it_ran_the_model_does_what_torch_does_or_says_that_it_does_not(
    tmp_path: Path,
) -> None:
    """The model knows one room for the whole of a run: that which the failed request found."""
    scenario = load(CHANGING)
    with machine_of(scenario) as machine:
        (tmp_path / "sitecustomize.py").write_text(
            EVERYWHERE.format(folder=str(tmp_path), settings="expandable_segments:False")
        )
        variables = machine.variables(clean_environment())
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(tmp_path), variables.get("PYTHONPATH"))))
        subprocess.run(scenario.command(), env=variables, capture_output=True, check=False)
    (output,) = tmp_path.glob("*.pickle")
    trust = simulate(read_snapshot(output), scenario).trust
    assert trust.exact or "earlier" in (trust.why_not or "")


def _check_cut(snapshot: Snapshot, scenario: Scenario, allowed: int | None) -> None:
    """With the ring begun half way, the state there is the one rebuilt backwards."""
    oom = last(snapshot)
    total = scenario.cards().memory_bytes[oom.device]
    for share in (0.3, 0.9):
        shortened, failure = cut(snapshot, oom, int(oom.event_index * share))
        simulation = Simulation(shortened, failure, Card(total, allowed))
        assert simulation.recording.contradictions == 0
        assert simulation.trust.reproduced, simulation.trust


RANDOM = """
import random
chance = random.Random({seed})
streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
live = []
for step in range(100_000):
    if live and chance.random() < 0.47:
        tensor = live.pop(chance.randrange(len(live)))
        if chance.random() < 0.1:
            tensor.record_stream(streams[1])
        del tensor
    else:
        size = int(chance.choice([2e3, 3e5, 2e6, 15e6, 60e6, 3e8]) * (0.5 + chance.random()))
        with torch.cuda.stream(streams[chance.random() < 0.2]):
            live.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    if {empty} and step % 211 == 210:
        torch.cuda.empty_cache()
"""
OPTIONS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:32,roundup_power2_divisions:4",
    "roundup_power2_divisions:[1:2,64:8,>:16]",
    "expandable_segments:True,max_split_size_mb:64",
)


@pytest.mark.parametrize("seed", extended_but([1, 2, 3], 1))
def test_every_setting_does_what_torch_does_and_foretells_every_other(
    seed: int, device_with: Callable[..., Device], tmp_path: Path
) -> None:
    script = tmp_path / "program.py"
    script.write_text("import torch\n" + RANDOM.format(seed=seed, empty=False))
    simulations, length = {}, {}
    for number, options in enumerate(OPTIONS):
        device = device_with(memory_bytes=(3 << 30,))
        snapshot = record(device, script, options, tmp_path / f"{number}.pickle")
        assert snapshot is not None
        simulations[options] = Simulation(snapshot, last(snapshot), Card(3 << 30))
        assert simulations[options].trust.exact, (options, simulations[options].trust)
        length[options] = len(requests_before(snapshot))
        assert all(step.kind is not Kind.EMPTY for step in simulations[options].recording.steps)
    _check_each_foretells_every_other(simulations, length)


def _check_each_foretells_every_other(simulations: dict[str, Simulation], length: dict[str, int]) -> None:
    for options, simulation in simulations.items():
        for other, asked in simulations.items():
            answer = simulation.ask(asked.settings)
            if answer.verdict is Verdict.SERVED:
                assert length[other] > length[options]
            else:
                assert length[other] == length[options] - answer.requests_earlier, (options, other, answer)


@pytest.mark.parametrize("options", OPTIONS)
def test_emptying_the_cache_does_what_it_does_in_torch(
    options: str, device_with: Callable[..., Device], tmp_path: Path
) -> None:
    script = tmp_path / "program.py"
    script.write_text("import torch\n" + RANDOM.format(seed=3, empty=True))
    snapshot = record(device_with(memory_bytes=(3 << 30,)), script, options, tmp_path / "s.pickle")
    assert snapshot is not None
    simulation = Simulation(snapshot, last(snapshot), Card(3 << 30))
    assert simulation.trust.exact, simulation.trust
    assert any(step.kind is Kind.EMPTY for step in simulation.recording.steps)


def test_garbage_collection_under_a_memory_fraction(device_with: Callable[..., Device], tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    fraction = "import torch\ntorch.cuda.set_per_process_memory_fraction(0.5)\n"
    script.write_text(fraction + RANDOM.format(seed=5, empty=True))
    device = device_with(memory_bytes=(6 << 30,))
    snapshot = record(device, script, "garbage_collection_threshold:0.6", tmp_path / "s.pickle")
    assert snapshot is not None
    simulation = Simulation(snapshot, last(snapshot), Card(6 << 30, 3 << 30))
    assert simulation.trust.exact, simulation.trust


COLLECTING = (
    "",
    "garbage_collection_threshold:0.5",
    "garbage_collection_threshold:0.8,max_split_size_mb:64",
    "garbage_collection_threshold:0.6,roundup_power2_divisions:8",
    "garbage_collection_threshold:0.6,expandable_segments:True",
)


@pytest.mark.extended
@pytest.mark.parametrize("seed", [6, 7])
def test_settings_under_a_memory_fraction_foretell_every_other(
    seed: int, device_with: Callable[..., Device], tmp_path: Path
) -> None:
    """Garbage is collected only where the process may not have the whole card."""
    script = tmp_path / "program.py"
    fraction = "import torch\ntorch.cuda.set_per_process_memory_fraction(0.5)\n"
    script.write_text(fraction + RANDOM.format(seed=seed, empty=False))
    simulations, length = {}, {}
    for number, options in enumerate(COLLECTING):
        snapshot = record(device_with(memory_bytes=(6 << 30,)), script, options, tmp_path / f"{number}.pickle")
        assert snapshot is not None
        simulations[options] = Simulation(snapshot, last(snapshot), Card(6 << 30, 3 << 30))
        assert simulations[options].trust.exact, (options, simulations[options].trust)
        length[options] = len(requests_before(snapshot))
    _check_each_foretells_every_other(simulations, length)


@pytest.mark.extended
@pytest.mark.parametrize("card_gib", [2, 4])
def test_another_card_is_foretold(card_gib: int, device_with: Callable[..., Device], tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import torch\n" + RANDOM.format(seed=4, empty=True))
    for number, options in enumerate(("", "expandable_segments:True", "max_split_size_mb:128")):
        recorded = record(device_with(memory_bytes=(3 << 30,)), script, options, tmp_path / f"{number}-3.pickle")
        (tmp_path / "card").unlink()  # one that is there keeps its size
        device = device_with(memory_bytes=(card_gib << 30,))
        other = record(device, script, options, tmp_path / f"{number}-{card_gib}.pickle")
        (tmp_path / "card").unlink()
        assert recorded is not None
        assert other is not None
        simulation = Simulation(recorded, last(recorded), Card(3 << 30))
        answer = simulation.ask(simulation.settings, card_gib << 30)
        before, length = len(requests_before(recorded)), len(requests_before(other))
        if answer.verdict is Verdict.SERVED:
            assert length > before
        else:
            assert length == before - answer.requests_earlier, (options, answer)
            assert answer.failed_request_bytes is not None
            assert last(other).requested_bytes == block_size(answer.failed_request_bytes, simulation.settings)


@pytest.mark.extended
@pytest.mark.parametrize("torch", ["2.1.2", "2.6.0"])
@pytest.mark.parametrize("options", ["", "expandable_segments:True"])
def test_the_model_does_what_older_releases_do(
    torch: str, options: str, device_with: Callable[..., Device], tmp_path: Path
) -> None:
    if not environment(torch).is_made:
        pytest.skip(f"the environment of torch {torch} is not made: emulate.py --torch {torch} makes it")
    script = tmp_path / "program.py"
    script.write_text("import torch\n" + RANDOM.format(seed=2, empty=True))
    snapshot = record(device_with(torch, memory_bytes=(3 << 30,)), script, options, tmp_path / "s.pickle")
    assert snapshot is not None
    simulation = Simulation(snapshot, last(snapshot), Card(3 << 30))
    assert simulation.trust.exact, simulation.trust
