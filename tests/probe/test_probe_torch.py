"""GIVEN a program that uses torch WHEN a device runs out of memory THEN what torch knew of it is written down."""

from __future__ import annotations

import importlib.util
import pickle

import pytest
from stub_torch import RECORD, write_stub
from watched import SITE, Harness

from oomdoctor.run.handshake import Handshake

FAILING = """
import torch

def forward():
    torch.allocate(1 << 29)
    torch.allocate(1 << 30)

def train():
    forward()

train()
"""
SHOW_CALLS = "import torch\ntorch.cuda._lazy_init()\nprint(torch.cuda.memory.calls)"


@pytest.mark.parametrize("version", ["2.1", "2.14"])
def test_an_uncaught_oom_leaves_figures_stack_and_snapshot(each: Harness, version: str) -> None:
    write_stub(each.folder, version)
    script = each.script(FAILING)
    watched, alone = each.run(script), each.run(script, probe=False)
    assert (watched.stderr, watched.returncode) == (alone.stderr, alone.returncode)
    assert each.records("probe-error") == []
    assert each.records("torch")[0]["version"] == version
    first, second = each.records("device-oom")
    assert first["snapshot_path"] is None
    assert {**first, "snapshot_path": second["snapshot_path"]} == second
    assert (second["device"], second["requested_bytes"], second["count"]) == (0, 1 << 30, 1)
    assert (second["device_total_bytes"], second["device_free_bytes"]) == (1 << 34, 1 << 29)
    assert (second["state"]["allocated_bytes"], second["state"]["active_bytes"]) == (1 << 29, None)
    assert [row[2] for row in second["frames"]] == ["<module>", "train", "forward", "allocate"]
    assert (second["autograd_on"], second["visible_devices"]) == (True, 2)
    assert second["frames"][2][3] == "torch.allocate(1 << 30)"
    with open(each.bundle / second["snapshot_path"], "rb") as file:
        assert pickle.load(file)["free"] == 1 << 29
    (record,) = each.records("exception")
    assert (record["exception_type"], record["is_device_oom"]) == ("torch.OutOfMemoryError", True)
    assert each.records("end")[0]["device_ooms"] == 1


@pytest.mark.parametrize(
    ("message", "recorded"),
    [
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", True),
        ("CUDA error: out of memory", True),
        ("NCCL error: unhandled cuda error. Cuda failure 2 'out of memory'", True),
        ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", True),
        ("GET was unable to find an engine to execute this computation", True),
        ("Triton Error [CUDA]: out of memory", True),
        ("CUDA error: device-side assert triggered", False),
        ("CUDA out of memory. Tried to allocate 20.00 MiB, says who wraps it", False),
        ("the process group is NOT_INITIALIZED", False),
    ],
)
def test_what_the_allocator_held_when_a_library_failed_is_recorded(each: Harness, message: str, recorded: bool) -> None:
    write_stub(each.folder, "2.14")
    script = each.script(f"import torch\nkept = torch.allocate(1 << 29)\nraise RuntimeError({message!r})")
    assert each.run(script).returncode == 1
    (record,) = each.records("exception")
    assert record["is_library_oom"] is recorded
    states = [state for state in each.records("allocator") if state["device"] == 0]
    # the last state of a process is written at its end in any case
    assert len(states) == 1 + recorded
    assert {state["reserved_bytes"] for state in states} == {1 << 29}
    failed = each.latest("library-oom")
    assert len(failed) == recorded
    if recorded:
        assert (each.bundle / failed[0]["snapshot_path"]).exists()
        assert [frame[2] for frame in failed[0]["frames"]] == ["<module>"]
        assert [failed[0][name] for name in ("device", "autograd_on", "count")] == [None, None, 1]
    assert each.records("probe-error") == []
    assert each.records("end")[0]["device_ooms"] == 0


MANY = """
import threading, torch
torch.cuda._lazy_init()
def fail():
    raise RuntimeError('CUDA error: out of memory')
for _ in range(40):
    one = threading.Thread(target=fail); one.start(); one.join()
"""


def test_of_many_failures_of_libraries_the_first_have_snapshots(harness: Harness) -> None:
    write_stub(harness.folder, "2.14")
    harness.run(harness.script(MANY))
    assert len(harness.latest("library-oom")) == 40
    kept = sorted(path.stem.split("-", 1)[1] for path in harness.bundle.glob("snapshots/*"))
    assert kept == ["library-1", "library-3"]


def test_where_cuda_could_not_be_initialised_nothing_is_asked_of_torch(harness: Harness) -> None:
    write_stub(harness.folder, "2.14")
    harness.run(harness.script("import torch\nraise RuntimeError('CUDA error: out of memory')"))
    kinds = {record["kind"] for record in harness.records()}
    assert kinds == {"process", "torch", "exception", "end"}


def test_the_cards_that_a_process_sees_are_recorded(each: Harness) -> None:
    write_stub(each.folder, "2.14")
    each.variables = {"CUDA_VISIBLE_DEVICES": "1,0"}
    each.run(each.script("import torch\ntorch.allocate(1)"))
    (record,) = each.records("devices")
    assert record["visible"] == "1,0"
    assert record["devices"] == [{"index": n, "uuid": None, "total_bytes": 1 << 30} for n in (0, 1)]


@pytest.mark.parametrize("version", ["1.13", "2.0", "2.1", "2.14"])
def test_history_is_turned_on_in_the_spelling_of_the_version(harness: Harness, version: str) -> None:
    write_stub(harness.folder, version)
    expected = {
        "1.13": [],
        "2.0": [{"enabled": True, "max_entries": 100000, "context": False}],
        "2.1": [{"enabled": "all", "context": "alloc", "stacks": "python", "max_entries": 100000}],
        "2.14": [{"enabled": "all", "context": None, "stacks": "python", "max_entries": 100000}],
    }[version]
    assert eval(harness.run("-c", SHOW_CALLS).stdout) == expected
    assert harness.records("probe-error") == []


OLD = """
import sys, threading, time, torch
def fill():
    torch.allocate(1 << 29)
    time.sleep(1.5)
    try: torch.allocate(1 << 30)
    except torch.OutOfMemoryError: pass
    print(torch._C.observers, torch.cuda.asked_by <= {threading.get_ident()})
    torch.allocate(1 << 31)
fill()
"""


@pytest.mark.parametrize(
    ("version", "stacks"),
    [
        ("2.0", "adaptive"),
        *(pytest.param(*each, marks=pytest.mark.extended) for each in [("2.0", "always"), ("1.13", "adaptive")]),
    ],
)
def test_an_old_torch_is_asked_only_when_it_has_failed(each: Harness, version: str, stacks: str) -> None:
    """It holds its lock while it calls observers: a thread that asks for figures meanwhile would wait for ever."""
    write_stub(each.folder, version)
    each.variables = {"OOMDOCTOR_STACKS": stacks}
    script = each.script(OLD)
    watched, alone = each.run(script), each.run(script, probe=False)
    assert (watched.stdout, watched.stderr, watched.returncode) == (alone.stdout, alone.stderr, 1)
    assert watched.stdout == b"[] True\n"
    assert each.records("probe-error") == []
    (record,) = each.latest("device-oom")
    assert (record["requested_bytes"], record["count"], record["frames"][-1][2]) == (None, 1, "allocate")
    with open(each.bundle / record["snapshot_path"], "rb") as file:
        assert pickle.load(file)["free"] == 1 << 29
    assert each.records("allocator")[-1]["allocated_bytes"] == 1 << 29


def test_an_old_torch_that_ends_well_leaves_its_figures(harness: Harness) -> None:
    write_stub(harness.folder, "2.0")
    assert harness.run(harness.script("import torch\ntorch.allocate(1 << 29)")).returncode == 0
    assert [state["allocated_bytes"] for state in harness.records("allocator")] == [1 << 29]


@pytest.mark.parametrize(
    ("history", "stacks", "expected"),
    [
        ("off", "always", None),
        ("5000", "never", {"enabled": "all", "context": None, "stacks": "python", "max_entries": 5000}),
        ("lots", "always", {"enabled": "all", "context": "alloc", "stacks": "python", "max_entries": 100000}),
    ],
)
def test_history_can_be_set(harness: Harness, history: str, stacks: str, expected: dict[str, object] | None) -> None:
    write_stub(harness.folder, "2.14")
    harness.variables = {"OOMDOCTOR_HISTORY": history, "OOMDOCTOR_STACKS": stacks}
    assert eval(harness.run("-c", SHOW_CALLS).stdout) == ([] if expected is None else [expected])
    assert len(harness.records("probe-error")) == (history == "lots")


ADAPTIVE = """
import sys, time, torch
torch.cuda._lazy_init()
for free in (1 << 30, 200 << 20, 500 << 20, 200 << 20):
    torch._C.free = free
    time.sleep(0.5)
print([(call['context'], call['max_entries']) for call in torch.cuda.memory.calls])
"""


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.1", [("alloc", 100000)]),
        ("2.14", [(None, 100000), ("alloc", 100000), (None, 100000), ("alloc", 100000)]),
    ],
)
def test_stacks_follow_how_full_a_device_is(harness: Harness, version: str, expected: list[object]) -> None:
    """Up to 2.5 torch may forget its history when stacks are switched: there they are on from the start."""
    write_stub(harness.folder, version)
    assert eval(harness.run(harness.script(ADAPTIVE)).stdout) == expected
    assert harness.records("probe-error") == []


def test_a_refusal_of_torch_is_written_down_and_stops_nothing(harness: Harness) -> None:
    write_stub(harness.folder, "refusing")
    script = harness.script(FAILING)
    assert harness.run(script).stderr == harness.run(script, probe=False).stderr
    assert [error["error"] for error in harness.records("probe-error")] == ["RuntimeError: not supported"]
    assert len(harness.latest("device-oom")) == 1
    assert set(RECORD) > {"refusing"}


WITHOUT_OBSERVERS = """
import threading, torch
torch.cuda._lazy_init()
def fill():
    torch.allocate(1 << 29)
    torch.allocate(1 << 40)
"""


@pytest.mark.parametrize(
    ("run", "thread", "outermost"),
    [("fill()", None, "<module>"), ("threading.Thread(target=fill, name='filler').start()", "filler", "run")],
)
def test_where_torch_has_no_observers_an_uncaught_error_tells(
    harness: Harness, run: str, thread: str | None, outermost: str
) -> None:
    write_stub(harness.folder, "cudaMallocAsync")
    script = harness.script(WITHOUT_OBSERVERS + run)
    assert harness.run(script).stderr == harness.run(script, probe=False).stderr
    errors = [error["error"] for error in harness.records("probe-error")]
    assert errors == ["RuntimeError: not supported", "RuntimeError: no observers"]
    (record,) = harness.latest("device-oom")
    # The stub has two devices; the message says which it was.
    assert record["device"] == 0
    assert [record[name] for name in ("requested_bytes", "device_free_bytes", "snapshot_path")] == [None] * 3
    assert (record["thread"], record["frames"][-1][2], record["count"]) == (thread, "allocate", 1)
    assert outermost in [frame[2] for frame in record["frames"]]
    assert harness.records("allocator")[0]["allocated_bytes"] == 1 << 29
    assert harness.records("end")[-1]["device_ooms"] == 1


CAUGHT = """
import torch
torch.allocate(1 << 29)
for size in range(40, 43):
    try:
        torch.allocate(1 << size)
    except torch.OutOfMemoryError as error:
        print(repr(error))
try:
    raise torch.OutOfMemoryError('CUDA out of memory')  # a program that tries what it does then
except torch.OutOfMemoryError:
    pass
"""


def test_where_torch_has_no_observers_caught_errors_are_counted(each: Harness) -> None:
    write_stub(each.folder, "cudaMallocAsync")
    script = each.script(CAUGHT)
    watched, alone = each.run(script), each.run(script, probe=False)
    assert (watched.stdout, watched.returncode) == (alone.stdout, alone.returncode)
    found = each.latest("device-oom")
    assert [(record["count"], record["device"]) for record in found] == [(1, 0), (2, 0), (3, 0)]
    assert found[0]["state"]["allocated_bytes"] == 1 << 29
    assert found[0]["frames"][0][2] == "<module>"
    assert each.records("census") == []
    assert each.records("end")[0]["device_ooms"] == 3


def test_an_error_that_a_worker_sent_is_not_counted_where_it_is_unpacked(harness: Harness) -> None:
    write_stub(harness.folder, "cudaMallocAsync")
    text = """
import multiprocessing, torch
torch.cuda._lazy_init()
receiver, sender = multiprocessing.Pipe()
sender.send(torch.OutOfMemoryError('Allocation on device 0 would exceed allowed memory'))
print(repr(receiver.recv()))
"""
    harness.run(harness.script(text))
    assert [record["count"] for record in harness.latest("device-oom")] == [1]


def test_an_error_that_a_worker_had_is_not_told_again_by_who_waited_for_it(harness: Harness) -> None:
    write_stub(harness.folder, "cudaMallocAsync")
    text = """
import torch
torch.cuda._lazy_init()
class _RemoteTraceback(Exception): pass
raise torch.OutOfMemoryError('CUDA out of memory') from _RemoteTraceback('in the worker')
"""
    harness.run(harness.script(text))
    assert harness.latest("device-oom") == []


def test_nothing_is_initialised_by_the_probe(harness: Harness) -> None:
    write_stub(harness.folder, "2.14")
    ended = harness.run("-c", "import torch; print(torch.cuda._initialized, torch._C.observers)")
    assert ended.stdout == b"False []\n"


@pytest.mark.extended
def test_a_search_for_the_largest_batch_does_not_fill_the_disk(harness: Harness) -> None:
    write_stub(harness.folder, "2.14")
    text = """
import torch
for attempt in range(3000):
    try:
        torch.allocate((1 << 31) + attempt)
    except torch.OutOfMemoryError:
        pass
torch.allocate(1 << 29)
torch.allocate(1 << 40)
"""
    harness.run(harness.script(text))
    records = harness.latest("device-oom")
    assert len(records) < 60
    last = max(records, key=lambda record: record["count"])
    assert (last["count"], last["requested_bytes"]) == (3001, 1 << 40)
    assert harness.records("end")[0]["device_ooms"] == 3001
    names = sorted(path.name for path in harness.bundle.glob("snapshots/*"))
    assert len(names) == 2
    assert (harness.bundle / last["snapshot_path"]).exists()


def test_the_largest_of_many_requests_is_recorded_wherever_it_stands(harness: Harness) -> None:
    write_stub(harness.folder, "2.14")
    text = """
import torch
for size in [1 << 31] * 30 + [1 << 37] + [1 << 32] * 40:
    try:
        torch.allocate(size)
    except torch.OutOfMemoryError:
        pass
"""
    harness.run(harness.script(text))
    assert max(record["requested_bytes"] for record in harness.latest("device-oom")) == 1 << 37


def test_first_last_and_largest_snapshots_are_kept(harness: Harness) -> None:
    write_stub(harness.folder, "2.14")
    text = """
import sys, torch
def fail(size):
    sys.modules['_oomdoctor_probe.device_oom']._Current.observer._not_before = 0.0
    try: torch.allocate(size)
    except torch.OutOfMemoryError: pass
torch.cuda._lazy_init()
for free in (900, 100, 500, 700, 800):
    torch._C.free = free << 20
    fail(1 << 31)
"""
    harness.run(harness.script(text))
    kept = sorted(int(path.stem.split("-")[1]) for path in harness.bundle.glob("snapshots/*.pickle"))
    assert kept == [1, 2, 5]


@pytest.mark.parametrize("compiles", [False, True])
def test_a_snapshot_does_not_import_torchs_compiler(harness: Harness, compiles: bool) -> None:
    write_stub(harness.folder, "2.14")
    text = """
import sys, torch
try: torch.allocate(1 << 40)
except torch.OutOfMemoryError: pass
print('torch._inductor' in sys.modules, '_inductor' in vars(torch), torch._inductor.codecache.names)
"""
    prefix = "import torch._inductor" if compiles else ""
    ended = harness.run(harness.script(prefix + text))
    assert ended.stdout.decode() == f"{compiles} {compiles} compiled\n"
    (record,) = harness.latest("device-oom")
    with open(harness.bundle / record["snapshot_path"], "rb") as file:
        assert pickle.load(file)["names"] == ("compiled" if compiles else False)


def test_the_allocator_is_sampled_while_it_changes(harness: Harness) -> None:
    write_stub(harness.folder, "2.14")
    text = """
import threading, time, torch
torch.allocate(1 << 20)
time.sleep(3)
torch.allocate(1 << 20)
print(threading.active_count(), len(threading.enumerate()))
"""
    assert harness.run(harness.script(text)).stdout == b"1 1\n"
    samples = harness.records("allocator")
    assert [(sample["device"], sample["allocated_bytes"]) for sample in samples] == [(0, 1 << 20), (0, 2 << 20)]


def test_a_day_of_samples_is_thinned_and_its_peaks_are_kept(harness: Harness) -> None:
    write_stub(harness.folder, "2.14")
    text = f"""
import sys
sys.path.insert(0, {str(SITE)!r})
from _oomdoctor_probe import sampler
import torch
torch.cuda._lazy_init()
now, kept, state = 0.0, [], dict(device=0, peak_reserved_bytes=100, peak_allocated_bytes=100, allocated_bytes=0)
sampler.time.monotonic = lambda: now
sampler.read_state = lambda torch, device: dict(state) if device == 0 else {{}}
sampler.records.write = lambda kind, **fields: kept.append((now, fields["peak_reserved_bytes"]))
watch = sampler._Sampler(torch)
for second in range(86_400):
    now, state["allocated_bytes"] = float(second), second % 7
    if second == 50_001: state["peak_reserved_bytes"] = 102
    watch.sample()
watch.sample(last=True)
print(5_000 < len(kept) < 6_000, len([at for at, _ in kept if at <= 600]), (50_001.0, 102) in kept, kept[-1][0])
"""
    assert harness.run(harness.script(text), probe=False).stdout == b"True 601 True 86399.0\n"


@pytest.mark.parametrize(("wanted", "used"), [(True, True), (True, False), (False, True)])
def test_the_supervisor_looks_at_the_end_where_it_wants_to(harness: Harness, wanted: bool, used: bool) -> None:
    """After the allocator's last record: what the driver says then is of that state."""
    write_stub(harness.folder, "2.14")
    path = str(harness.folder / "ask")
    harness.variables.update(OOMDOCTOR_SOCKET=path, **({"OOMDOCTOR_LOOK_AT_END": "1"} if wanted else {}))
    recorded: list[int] = []
    handshake = Handshake(path, lambda: recorded.append(-1), lambda: recorded.append(len(harness.records("allocator"))))
    handshake.start()
    harness.run(harness.script("import torch\n" + ("torch.allocate(1 << 20)" if used else "")))
    handshake.stop()
    assert recorded == ([1] if wanted and used else [])


def test_of_very_many_failures_the_last_has_a_record(harness: Harness) -> None:
    write_stub(harness.folder, "2.14")
    text = """
import torch
for step in range(60):
    try:
        torch.allocate((1 << 40) - (step << 20))
    except torch.OutOfMemoryError:
        pass
"""
    harness.run(harness.script(text))
    found = max(harness.latest("device-oom"), key=lambda record: record["count"])
    assert (found["count"], found["requested_bytes"]) == (60, (1 << 40) - (59 << 20))
    assert len(harness.latest("device-oom")) < 60


@pytest.mark.parametrize("initialised", [False, True])
def test_a_forked_child_counts_its_own(harness: Harness, initialised: bool) -> None:
    write_stub(harness.folder, "2.14")
    text = """
import os, torch
if INITIALISED:
    torch.allocate(1 << 20)
if os.fork() == 0:
    torch.allocate(1 << 40)
os.wait()
"""
    harness.run(harness.script(text.replace("INITIALISED", str(initialised))))
    assert sorted(end["device_ooms"] for end in harness.records("end")) == [0, 1]
    (record,) = harness.latest("device-oom")
    forked = [process["pid"] for process in harness.records("process") if process["forked"]]
    assert [record["pid"]] == forked
    assert record["snapshot_path"].startswith(f"snapshots/{forked[0]}-")


def test_a_failure_on_a_thread_without_python_frames_gives_the_main_threads_stack(harness: Harness) -> None:
    write_stub(harness.folder, "2.14")
    text = """
import _thread, time, torch
def backward():
    torch.cuda._lazy_init()
    _thread.start_new_thread(torch._C.observers[0], (0, 1 << 30, 1 << 34, 0))
    time.sleep(0.5)
backward()
"""
    harness.run(harness.script(text))
    (record,) = harness.latest("device-oom")
    assert record["frames_of"] == "main"
    assert record["frames"][-1][2:] == ["backward", "time.sleep(0.5)"]


def test_torch_can_be_imported_in_threads_and_reloaded(each: Harness) -> None:
    write_stub(each.folder, "2.14")
    text = """
import threading
threads = [threading.Thread(target=importlib.import_module, args=('torch',)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
import torch
importlib.reload(torch)
assert type(torch.__spec__) is importlib.machinery.ModuleSpec
assert type(torch.__loader__) is importlib.machinery.SourceFileLoader and not vars(torch.__loader__).get('exec_module')
print(len(torch.cuda._queued_calls), importlib.util.find_spec('torch').name)
"""
    assert each.run(each.script("import importlib.machinery, importlib.util" + text)).stdout == b"1 torch\n"
    assert len(each.records("torch")) == 1


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")
def test_the_genuine_torch_is_not_disturbed(harness: Harness) -> None:
    command = "import torch; print(torch.ones(2).sum(), torch.cuda.is_initialized(), torch.__spec__.loader is not None)"
    watched = harness.run("-c", command)
    assert (watched.stdout, watched.stderr) == (b"tensor(2.) False True\n", b"")
    (record,) = harness.records("torch")
    assert record["version"].count(".") >= 2
    assert harness.records("probe-error") == []
