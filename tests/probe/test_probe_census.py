"""GIVEN a program's tensors WHEN the census is taken THEN each is named by what holds it, and none is kept alive.

The same walk is taken over CPU tensors here; tests/device takes it over the emulated device.
"""

from __future__ import annotations

import importlib.util
import json

import pytest
from counted import MIB, PRELUDE, groups, run, taken, told
from extended import extended_but
from watched import Harness

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")


def test_a_training_is_told_apart(harness: Harness) -> None:
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512, bias=False) for _ in range(3))
        self.register_buffer('mask', mib(2))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x

def train():
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters())
    losses = []
    for step in range(5):
        loss = net(torch.ones(1024, 512)).square().mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        losses.append(loss)
    del loss
    take()

train()
"""
    rows = groups(harness, text)
    assert told(rows) == {
        ("saved-for-backward", "list 'losses' local to train()"): 5 * 2 * 4,
        ("parameters", "Net 'net' local to train()"): 3,
        ("buffers", "Net 'net' local to train()"): 2,
        ("gradients", "gradients of Net 'net' local to train()"): 3,
        ("optimizer", "AdamW 'optimizer' local to train(): exp_avg"): 3,
        ("optimizer", "AdamW 'optimizer' local to train(): exp_avg_sq"): 3,
    } or told(rows)["saved-for-backward", "list 'losses' local to train()"] in range(40, 60)
    losses = rows[0]
    assert (losses["length"], losses["adds"], losses["function"]) == (5, True, "train")
    lines = (PRELUDE + text).splitlines()
    assert lines[losses["line"] - 1].strip() == "losses.append(loss)"
    (parameters,) = [row for row in rows if row["category"] == "parameters"]
    assert parameters["parts"] == [[".layers[*]".lstrip("."), 3 * MIB]]


def test_other_holders_are_named(harness: Harness) -> None:
    text = """
class Keeper:
    kept = []
    def __init__(self):
        self.history = {n: mib() for n in range(20)}
    def run(self):
        pair = {'left': mib(2), 'right': mib(2)}
        take()

def make_hook():
    seen = [mib(), mib()]
    def hook(*_):
        seen.append(1)
    return hook

def values():
    waiting = mib(5)
    yield 1
    print(waiting)

def fail():
    lost = mib(6)
    raise ValueError

layer = nn.Linear(2, 2)
layer.register_forward_hook(make_hook())
generator = values()
next(generator)
try:
    fail()
except ValueError as error:
    kept = error
deep = {'a': {'b': [[mib()] for _ in range(30)]}}
alone = mib(7)
keeper = Keeper()
keeper.run()
"""
    found = {owner: size for (_, owner), size in told(groups(harness, text)).items()}
    assert found == {
        "dict 'self.history' of Keeper": 20,
        "dict 'pair' local to Keeper.run()": 4,
        "list 'seen' in the closure of make_hook.hook()": 2,
        "'waiting' local to values(), a suspended function": 5,
        "'lost' local to fail(), kept by the traceback of 'kept' global in script.py": 6,
        "list 'deep['a']['b']' global in script.py": 30,
        "'alone' global in script.py": 7,
    }


def test_caches_are_told_by_their_shape_and_by_their_names(harness: Harness) -> None:
    text = """
class DynamicLayer:
    def __init__(self): self.keys, self.values = mib(), mib()
class DynamicCache:
    def __init__(self): self.layers = [DynamicLayer() for _ in range(4)]
class StaticCache:
    def __init__(self): self.key_cache, self.value_cache = [mib() for _ in range(3)], [mib() for _ in range(3)]

def decode():
    pairs = [(torch.empty(1, 4, 4096, 16), torch.empty(1, 4, 4096, 16)) for _ in range(6)]
    past_key_values = DynamicCache()
    other = StaticCache()
    batches = [(mib(), torch.zeros(1)) for _ in range(2)]
    take()

decode()
"""
    rows = groups(harness, text)
    assert {(owner, size) for (category, owner), size in told(rows).items() if category == "kv"} == {
        ("list 'pairs' local to decode()", 12),
        ("DynamicCache 'past_key_values' local to decode()", 8),
        ("StaticCache 'other' local to decode()", 6),
    }
    assert ("other", "list 'batches' local to decode()") in told(rows)


def test_a_view_counts_for_the_whole_of_its_memory_once_and_blocks_count_whole(harness: Harness) -> None:
    text = """
def main():
    whole = mib(4)
    part = whole[:10]
    address = whole.untyped_storage().data_ptr()
    take({0: {address: 5 * MIB, 1 << 20: 3 * MIB}})
main()
"""
    census = taken(harness, text)
    (device,) = census["devices"]
    assert (device["allocated_bytes"], device["held_bytes"], device["unheld_bytes"]) == (8 * MIB, 5 * MIB, 3 * MIB)
    assert device["unheld_addresses"] == [1 << 20]
    (group,) = census["groups"]
    assert (group["owner"], group["bytes"], group["count"]) == ("'whole' local to main()", 5 * MIB, 1)


def test_nothing_is_kept_alive_and_nothing_of_the_users_runs(harness: Harness) -> None:
    text = """
class Loud:
    @property
    def __class__(self): print('asked'); return int
    def __getattr__(self, name): print('asked', name); raise AttributeError
class Tensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *arguments, **named):
        print('asked')
        return super().__torch_function__(*arguments, **named)
class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), named=None):
        if quiet: print('asked the mode')
        return function(*arguments, **named or {})
quiet = False
from torch._subclasses.fake_tensor import FakeTensorMode

def main():
    loud, own = Loud(), mib().as_subclass(Tensor)
    fake = FakeTensorMode().from_tensor(torch.empty(8))
    meta = torch.empty(1 << 30, device='meta')
    sparse = torch.eye(3).to_sparse()
    leaf = torch.ones(512, 512, requires_grad=True)
    def unpack_hook(packed):
        print('unpacked')
        return packed
    with torch.autograd.graph.saved_tensors_hooks(torch.Tensor.detach, unpack_hook):
        hooked = (leaf * leaf).exp()
    middle = (leaf * 2).exp()
    held = mib()
    dead = weakref.ref(held)
    middle_dead = weakref.ref(middle)
    global quiet
    with Mode():
        quiet = True
        take()
        quiet = False
    del held, middle
    print(dead(), middle_dead())
    del hooked, own
    gc.collect()
    take()
main()
"""
    ended = run(harness, text)
    assert ended.stderr == b""
    first, alive, second = ended.stdout.decode().splitlines()
    assert alive == "None None"
    assert json.loads(first)["hooked"] >= 1
    assert "'own' local to main()" in {row["owner"] for row in json.loads(first)["groups"]}
    assert [row["owner"] for row in json.loads(second)["groups"] if row["bytes"] >= MIB] == ["'leaf' local to main()"]


def test_nothing_waits_for_the_collector_to_be_let_go(harness: Harness) -> None:
    """A program that runs out of memory and tries again with less must find what it gave back."""
    text = """
import queue, threading
gc.collect()
gc.disable()
stop = threading.Event()
def wait(own): stop.wait()
def generator():
    inside = mib()
    yield
def fail():
    lost = mib()
    raise ValueError
def step(depth):
    ahead, seen, leaf = queue.SimpleQueue(), {}, torch.ones(512, 512, requires_grad=True)
    thread = threading.Thread(target=wait, args=(mib(),), daemon=True)
    thread.start()
    ahead.put(mib())
    seen['x'] = [mib()]
    def closure(): return seen
    suspended = generator()
    next(suspended)
    net = nn.Linear(512, 512)
    net.register_forward_hook(lambda *_: closure() and None)
    loss = net(leaf).exp().sum()
    loss.backward(retain_graph=True)
    try:
        fail()
    except ValueError:
        take()
    for failing in (), ():
        census.take(torch, None, 20.0, 'cpu', failing)
    stop.set()
    thread.join()
    return [weakref.ref(one) for one in (leaf, leaf.grad, seen['x'][0], loss, net.weight)]
for _ in range(2):
    stop.clear()
    print([dead() is None for dead in step(0)])
ours = 'Walk', 'Owners', 'Graph', 'Climb', 'Tally', 'Objects'
print([one for one in gc.get_objects() if type(one).__name__ in ours])
"""
    ended = run(harness, text)
    assert ended.stderr == b""
    *_, first, _, second, left = ended.stdout.decode().splitlines()
    assert first == second == str([True] * 5)
    assert left == "[]"


def test_a_variable_of_a_function_outside_the_walk_stays_what_it_was(harness: Harness) -> None:
    """Up to Python 3.12 asking a frame for its variables makes a dictionary that would keep them."""
    text = """
def outer():
    first = mib()
    dead = weakref.ref(first)
    snapshot = locals()
    take()
    return sorted(snapshot), dead
names, dead = outer()
print(names, dead())
"""
    ended = run(harness, text)
    assert ended.stdout.splitlines()[-1] in (
        b"['dead', 'first'] None",
        b"['dead', 'first', 'snapshot'] None",
    )


COUNTED_CLOCK = """
from _oomdoctor_probe import census_clock
looks = []
def clock():
    looks.append(None)
    return len(looks) / 2000  # it is read twice a look: a thousand looks are a second, however busy the machine is
census_clock.monotonic = census_clock.thread_time = clock
"""
NODES = """
class Node: pass
nodes = []
for _ in range(300):
    inner = []
    for _ in range(1000):
        node = Node(); node.other = inner[-1:]; inner.append(node)
    nodes.append(inner)
tensors = [mib() for _ in range(3)]
"""


@pytest.mark.parametrize(
    ("allowed", "cut", "looks"),
    extended_but(
        [(0.015, "the pass over all objects", 40), (0.05, "the walk from variables", 80), (1000.0, None, 100000)],
        (0.05, "the walk from variables", 80),
    ),
)
def test_it_stops_when_its_time_is_over_and_says_so(
    harness: Harness, allowed: float, cut: str | None, looks: int
) -> None:
    text = f"{COUNTED_CLOCK}{NODES}print(json.dumps(census.take(torch, None, {allowed}, 'cpu')), len(looks) // 2)"
    ended = run(harness, text)
    assert ended.stderr == b""
    told_of, _, looked = ended.stdout.decode().rpartition(" ")
    census = json.loads(told_of)
    assert census["complete"] is (cut is None)
    assert (census["stopped"] or "").startswith(cut or "")
    assert cut is None or "for want of time" in census["stopped"]
    # each part of it looks once more at most, and then leaves it
    assert int(looked) <= looks
    # what variables lead to at once is found all the same
    assert [row["bytes"] for row in census["groups"] if row["owner"] == "list 'tensors' global in script.py"] == [
        3 * MIB
    ]


def test_tensors_by_the_hundred_thousand_are_counted_as_far_as_the_time_goes(harness: Harness) -> None:
    text = "tensors = [torch.empty(4) for _ in range(5000)]\nprint(json.dumps(census.take(torch, None, 0.06, 'cpu')))"
    census = json.loads(run(harness, COUNTED_CLOCK + text).stdout)
    assert not census["complete"]
    assert "the count of what each holder has" in census["stopped"]
    assert 0 < census["tensors"] <= 5000
    assert 0 < sum(row["count"] for row in census["groups"]) < 5000


def test_many_objects_without_tensors_cost_little_and_what_is_among_them_is_found(harness: Harness) -> None:
    text = """
class Sample:
    def __init__(self, number): self.ids, self.extra = [number], {'more': [number]}
samples = [Sample(number) for number in range(70000)]
samples[12345].extra['mask'] = mib(50)
tensors = [mib() for _ in range(2000)]
import time
before = time.thread_time()
take()
print(time.thread_time() - before)
"""
    census, computed = map(json.loads, run(harness, text).stdout.splitlines())
    assert census["complete"]
    assert {row["owner"]: (row["bytes"] >> 20, row["length"]) for row in census["groups"]} == {
        "list 'tensors' global in script.py": (2000, 2000),
        "list 'samples' global in script.py": (50, 70000),
    }
    assert computed < 2.0  # of computing, however busy the machine is


def test_what_was_frozen_is_found_by_the_walk(harness: Harness) -> None:
    text = """
def serve():
    net = nn.Linear(512, 512, bias=False)
    cache = [mib() for _ in range(5)]
    gc.freeze()
    take()
serve()
"""
    assert told(groups(harness, text)) == {
        ("parameters", "Linear 'net' local to serve()"): 1,
        ("other", "list 'cache' local to serve()"): 5,
    }


def test_a_list_for_each_layer_is_one_holder(harness: Harness) -> None:
    text = """
seen = {}
def keep(layer, output):
    seen.setdefault(layer, [])
    seen[layer].append(output)
for step in range(10):
    for layer in ('first', 'second', 'third'):
        keep(layer, mib())
take()
"""
    (row,) = groups(harness, text)
    assert (row["owner"], row["bytes"] >> 20, row["length"]) == ("list 'seen[*]' global in script.py", 30, 10)
    assert (PRELUDE + text).splitlines()[row["line"] - 1].strip() == "seen[layer].append(output)"
