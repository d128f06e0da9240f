"""GIVEN tensors in holders of every kind WHEN the census is taken THEN each is called by the name of its holder."""

from __future__ import annotations

import importlib.util

import pytest
from counted import PRELUDE, groups, taken
from watched import Harness

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")


def test_collections_of_all_kinds_say_their_name_and_length(harness: Harness) -> None:
    text = """
import collections, queue
ahead = queue.SimpleQueue()
for _ in range(4): ahead.put(mib())
ahead.get()
bounded = queue.Queue()
for _ in range(4): bounded.put((0, mib()))
first_out = queue.PriorityQueue()
for number in range(2): first_out.put((number, mib()))
recent = collections.deque(maxlen=5)
for _ in range(7): recent.append(mib())
class Store(dict): pass
store = Store()
store.extra = [mib() for _ in range(6)]
for number in range(20): store[number] = mib()
ordered = collections.OrderedDict((number, mib()) for number in range(17))
by_step = collections.defaultdict(list)
for number in range(24): by_step[number % 2].append(mib())
unique = {mib() for _ in range(9)}
@functools.lru_cache(maxsize=None)
def mask_of(length): return mib()
for number in range(10): mask_of(number)
@functools.lru_cache(maxsize=8)
def bias_of(length): return mib()
for number in range(11): bias_of(number)
class Key: pass
keys = [Key() for _ in range(13)]
beside = weakref.WeakKeyDictionary()
for key in keys: beside[key] = mib()
del key, number
take()
"""
    rows = {row["owner"]: (row["bytes"] >> 20, row["length"]) for row in groups(harness, text)}
    assert rows == {
        "SimpleQueue 'ahead' global in script.py": (3, 3),
        "Queue 'bounded' global in script.py": (4, 4),
        "PriorityQueue 'first_out' global in script.py": (2, 2),
        "deque 'recent' global in script.py": (5, 5),
        "list 'store.extra' global in script.py": (6, 6),
        "Store 'store' global in script.py": (20, 20),
        "OrderedDict 'ordered' global in script.py": (17, 17),
        "list 'by_step[*]' global in script.py": (24, 12),
        "set 'unique' global in script.py": (9, 9),
        "lru_cache 'mask_of' global in script.py": (10, 10),
        "lru_cache 'bias_of' global in script.py": (8, 8),
        "WeakKeyDictionary 'beside' global in script.py": (13, 13),
    }


def test_the_line_is_where_a_queue_is_filled_and_where_a_cached_function_is_written(harness: Harness) -> None:
    text = """
import queue
ahead = queue.SimpleQueue()
@functools.lru_cache(maxsize=None)
def mask_of(length):
    return mib()
for number in range(3):
    mask_of(number)
    ahead.put(mib())
take()
"""
    lines = (PRELUDE + text).splitlines()
    places = {row["owner"].split()[0]: (lines[row["line"] - 1].strip(), row["adds"]) for row in groups(harness, text)}
    assert places == {
        "SimpleQueue": ("ahead.put(mib())", True),
        "lru_cache": ("@functools.lru_cache(maxsize=None)", False),
    }


def test_objects_classes_and_functions_are_looked_into(harness: Harness) -> None:
    text = """
import collections, contextvars, dataclasses, types
@dataclasses.dataclass
class State:
    __slots__ = ('hidden',)
    hidden: object
class Private:
    __slots__ = ('__secret',)
    def __init__(self): self.__secret = mib(3)
class Trainer:
    history = []
for _ in range(4): Trainer.history.append(mib())
def remember(batch, seen=[]): seen.append(batch)
for _ in range(5): remember(mib())
def counted(): pass
counted.kept = [mib() for _ in range(6)]
state, private = State(mib(2)), Private()
Point = collections.namedtuple('Point', 'first second')
point = Point(mib(7), 0)
call = functools.partial(print, more=mib(8))
proxy = types.MappingProxyType({'mask': mib(9)})
row = iter([mib(10)])
leaf = torch.ones(8, requires_grad=True)
def hooked():
    gradients = [mib() for _ in range(11)]
    leaf.register_hook(lambda gradient: gradients.append(gradient))
hooked()
async def serve():
    batch = mib(12)
    await wait()
@types.coroutine
def wait(): yield
waiting = serve()
waiting.send(None)
take()
waiting.close()
"""
    assert {row["owner"]: row["bytes"] >> 20 for row in groups(harness, text)} == {
        "'state.hidden' global in script.py": 2,
        "'private.__secret' global in script.py": 3,
        "list 'Trainer.history' global in script.py": 4,
        "list 'seen' default of an argument of remember()": 5,
        "list 'counted.kept' global in script.py": 6,
        "'point.first' global in script.py": 7,
        "dict 'call' global in script.py": 8,
        "dict 'proxy' global in script.py": 9,
        "list 'row' global in script.py": 10,
        "list 'gradients' in the closure of hooked.<lambda>()": 11,
        "'batch' local to serve(), a suspended function": 12,
    }


def test_what_a_library_keeps_for_itself_is_found(harness: Harness) -> None:
    library = """
import torch
_workspaces = {}
def workspace(size):
    _workspaces[size] = torch.empty(size << 18)
class Pool:
    buffers = []
    def add(self): Pool.buffers.append(torch.empty(1 << 18))
"""
    harness.script(library, "site-packages/library.py")
    text = """
sys.path.insert(0, 'site-packages')
from library import workspace, Pool
for size in (1, 2, 3): workspace(size)
for _ in range(5): Pool().add()
loop = [mib() for _ in range(4)]
loop.append(loop)
del loop
take()
"""
    assert {row["owner"]: (row["bytes"] >> 20, row["length"]) for row in groups(harness, text)} == {
        "dict '_workspaces' global in library": (6, 3),
        "list 'Pool.buffers' global in library": (5, 5),
        "list that no variable leads to": (4, 5),
    }


def test_exceptions_that_are_kept_are_named_and_the_one_that_ends_the_program_is_not_one(harness: Harness) -> None:
    text = """
errors = []
def step():
    activations = mib()
    raise ValueError
for _ in range(5):
    try:
        step()
    except ValueError as error:
        errors.append(error)
def last():
    local = mib(2)
    raise RuntimeError
def excepthook(kind, error, traceback):
    print(json.dumps(census.take(torch, None, 20.0, 'cpu', [traceback])))
sys.excepthook = excepthook
last()
"""
    lines = (PRELUDE + text).splitlines()
    rows = {row["owner"]: row for row in taken(harness, text)["groups"]}
    assert {owner: row["bytes"] >> 20 for owner, row in rows.items()} == {
        "'activations' local to step(), kept by the exceptions of list 'errors' global in script.py": 5,
        "'local' local to last()": 2,
    }
    kept = next(row for owner, row in rows.items() if "errors" in owner)
    assert (kept["length"], kept["adds"], kept["by_error"]) == (5, True, True)
    assert not rows["'local' local to last()"]["by_error"]
    assert lines[kept["line"] - 1].strip() == "errors.append(error)"


def test_the_last_error_of_a_notebook_keeps_what_its_functions_had(harness: Harness) -> None:
    text = """
def cell():
    frame = mib(3)
    raise KeyError
try:
    cell()
except KeyError as error:
    sys.last_value = error
take()
"""
    (row,) = groups(harness, text)
    assert row["owner"] == "'frame' local to cell(), kept by the traceback of 'sys.last_value'"
    assert row["by_error"]


def test_what_a_variable_names_is_not_spoken_of_as_left_behind_by_an_error(harness: Harness) -> None:
    text = """
weights = mib(3)
errors = []
def step(layer):
    raise ValueError
for _ in range(5):
    try:
        step(weights)
    except ValueError as error:
        errors.append(error)
take()
"""
    (row,) = groups(harness, text)
    assert (row["owner"], row["by_error"]) == ("'weights' global in script.py", False)


@pytest.mark.parametrize(
    ("statement", "owner"),
    [
        ("batches = [mib() for _ in items()]", "list 'batches' being made in load()"),
        ("self.kept = {n: mib() for n, _ in enumerate(items())}", "dict 'self.kept' being made in load()"),
        ("join([mib() for _ in items()])", "list being made in load()"),
    ],
)
def test_what_a_comprehension_is_making_is_called_what_it_becomes(harness: Harness, statement: str, owner: str) -> None:
    text = f"""
def items():
    for number in range(20):
        yield number
    take()
def load(self=None, join=None):
    {statement}
try:
    load()
except Exception:
    pass
"""
    (row,) = groups(harness, text)
    assert (row["owner"], row["length"], row["bytes"] >> 20) == (owner, 20, 20)
    assert (PRELUDE + text).splitlines()[row["line"] - 1].strip() == statement


def test_a_dictionary_of_names_is_told_from_one_of_numbers(harness: Harness) -> None:
    text = """
params = {'layers.%d' % n: mib() for n in range(20)}
cache = {n: mib() for n in range(30)}
take()
"""
    rows = {row["owner"]: row["by_name"] for row in groups(harness, text)}
    assert rows == {"dict 'params' global in script.py": True, "dict 'cache' global in script.py": False}


def test_what_libraries_work_on_is_called_by_the_users_module_and_line(harness: Harness) -> None:
    library = """
from torch import nn
class Last(nn.Module):
    def forward(self, x): self.then(); return x
"""
    harness.script(library, "site-packages/library.py")
    text = """
sys.path.insert(0, 'site-packages')
from library import Last
last = Last()
net = nn.Sequential(nn.Linear(512, 512, bias=False), nn.GELU(), last)
last.then = take
loss = net(torch.ones(1024, 512)).sum()
"""
    rows = groups(harness, text)
    assert {(row["category"], row["owner"]): (row["line"], row["length"]) for row in rows} == {
        ("parameters", "Sequential 'net' global in script.py"): (len((PRELUDE + text).splitlines()), None),
        ("saved-for-backward", "the forward pass of Sequential 'net' global in script.py"): (
            len((PRELUDE + text).splitlines()),
            None,
        ),
        ("activations", "the forward pass of Sequential 'net' global in script.py"): (
            len((PRELUDE + text).splitlines()),
            None,
        ),
    }


CACHES = """
class DynamicLayer:
    def __init__(self): self.keys, self.values = kv(), kv()
class DynamicCache:  # transformers from 4.54
    def __init__(self): self.layers = [DynamicLayer() for _ in range(4)]
class StaticCache:  # before that
    def __init__(self): self.key_cache, self.value_cache = [kv() for _ in range(3)], [kv() for _ in range(3)]
class EncoderDecoderCache:
    def __init__(self): self.self_attention_cache, self.cross_attention_cache = DynamicCache(), StaticCache()
class Attention(nn.Module):
    def __init__(self): super().__init__(); self.cache_k, self.cache_v = kv(), kv()
class KVCache(nn.Module):
    def __init__(self): super().__init__(); self.register_buffer('keys', kv()); self.register_buffer('values', kv())
class FeatureCache:
    def __init__(self): self.features = kv(7)
def kv(count=1): return torch.empty(1, 4, count * 1024, 64)
"""


def test_caches_of_keys_and_values_are_one_holder_each(harness: Harness) -> None:
    text = (
        CACHES
        + """
def decode():
    past, static, both = DynamicCache(), StaticCache(), EncoderDecoderCache()
    legacy = tuple((kv(), kv()) for _ in range(5))
    encoder = [(kv(), kv(), kv(), kv()) for _ in range(3)]
    grown = {layer: (kv(), kv()) for layer in range(9)}
    for layer in range(9):
        keys, values = grown[layer]
        grown[layer] = torch.cat([keys, kv()], 2), torch.cat([values, kv()], 2)
    del keys, values
    named = {layer: {'k': kv(), 'v': kv()} for layer in range(11)}
    halves = {'keys': [kv() for _ in range(6)], 'values': [kv() for _ in range(6)]}
    sessions = [DynamicCache() for _ in range(6)]
    layers = nn.ModuleList(Attention() for _ in range(7))
    buffered = nn.ModuleList(KVCache() for _ in range(8))
    found = FeatureCache()
    images = [(torch.empty(8, 3, 128, 128), torch.empty(8, 3, 128, 128)) for _ in range(2)]
    take()
decode()
"""
    )
    rows = groups(harness, text)
    assert {row["owner"]: row["bytes"] >> 20 for row in rows if row["category"] == "kv"} == {
        "DynamicCache 'past' local to decode()": 8,
        "StaticCache 'static' local to decode()": 6,
        "EncoderDecoderCache 'both' local to decode()": 14,
        "tuple 'legacy' local to decode()": 10,
        "list 'encoder' local to decode()": 12,
        "dict 'grown' local to decode()": 36,
        "dict 'named' local to decode()": 22,
        "dict 'halves' local to decode()": 12,
        "list 'sessions' local to decode()": 48,
        "Attention 'layers[*]' local to decode()": 14,
        "ModuleList 'buffered' local to decode()": 16,
    }
    assert {row["owner"] for row in rows if row["category"] == "other"} == {
        "'found.features' local to decode()",
        "list 'images' local to decode()",
    }


def test_what_checkpointing_computes_again_is_called_so(harness: Harness) -> None:
    text = """
from torch import nn
from torch.utils.checkpoint import checkpoint
class Last(nn.Module):
    def forward(self, x):
        if torch.is_grad_enabled(): self.then()
        return x
last = Last()
net = nn.Sequential(*[nn.Tanh() for _ in range(6)], last, nn.Tanh())
last.then = lambda: None
x = mib(2).requires_grad_()
loss = checkpoint(net, x, use_reentrant=False).sum()
last.then = take
loss.backward()
"""
    rows = {row["owner"]: row for row in groups(harness, text)}
    again = rows["what checkpointing computes again for the backward pass"]
    assert again["category"] in ("activations", "saved-for-backward")
    assert again["bytes"] >> 20 >= 8
    assert not [owner for owner in rows if "recomputed" in owner]
