"""GIVEN each Python that the probe supports WHEN the census looks for holders THEN it finds the same names.

torch is not installed for all of them: objects of a class stand in for its tensors.
"""

from __future__ import annotations

import json

from watched import Harness

SCRIPT = """
import collections, functools, json, queue, sys, types, weakref
from _oomdoctor_probe import census_clock, census_objects, census_owners, census_roots, census_walk
class T: pass
class Reader:
    tensor = T
    def shape(self, t): return ()
def of(): return T()
ahead = queue.SimpleQueue(); ahead.put(of())
bounded = queue.Queue(); bounded.put(of())
@functools.lru_cache(maxsize=None)
def cached(n): return of()
cached(1)
@functools.lru_cache(maxsize=3)
def cached2(n): return of()
cached2(1)
class Slots:
    __slots__ = ("__a",)
    def __init__(self): self.__a = of()
slots = Slots()
class Trainer: kept = [of()]
def default(x, seen=[of()]): pass
Point = collections.namedtuple("Point", "x y"); point = Point(of(), 1)
part = functools.partial(print, of())
proxy = types.MappingProxyType({"m": of()})
it = iter([of()])
weak = weakref.WeakKeyDictionary(); key = Reader(); weak[key] = of()
errors = []
def fail():
    lost = of(); raise ValueError
try: fail()
except ValueError as e: errors.append(e)
def gen():
    inside = of(); yield
g = gen(); next(g)
def run():
    stacks = census_roots.Stacks([])
    class torch: pass
    objects = census_objects.collect(torch, Reader(), census_clock.now()+9)
    walk = census_walk.Walk(Reader(), None, census_clock.now()+9, stacks.running)
    own, lib = stacks.variables()
    walk.follow(own + list(census_roots.of_globals(stacks)) + list(census_roots.of_suspended(objects.suspended)))
    owners = census_owners.Owners(walk)
    names = sorted(str(getattr(owners.of(t), "text", None)) for t in objects.tensors)
    return names
print(json.dumps(run()))
"""


def test_holders_have_the_same_names_in_every_python(each: Harness) -> None:
    ended = each.run(each.script(SCRIPT))
    assert ended.stderr == b""
    assert json.loads(ended.stdout) == [
        "'inside' local to gen(), a suspended function",
        "'lost' local to fail(), kept by the exceptions of list 'errors' global in script.py",
        "'point.x' global in script.py",
        "'slots.__a' global in script.py",
        "Queue 'bounded' global in script.py",
        "SimpleQueue 'ahead' global in script.py",
        "WeakKeyDictionary 'weak' global in script.py",
        "dict 'proxy' global in script.py",
        "list 'Trainer.kept' global in script.py",
        "list 'it' global in script.py",
        "list 'seen' default of an argument of default()",
        "lru_cache 'cached' global in script.py",
        "lru_cache 'cached2' global in script.py",
        "tuple 'part' global in script.py",
    ]


MAKING = """
import json
from _oomdoctor_probe import census_comprehensions, census_roots
def item(number):
    if number == 3:
        found = census_comprehensions.under_way(census_roots.Stacks([]))
        print(json.dumps([(root.name, root.where, root.line) for makes, root in found if list in makes]))
    return number
class Loader: pass
def load(self):
    kept = [1 for _ in range(9)]
    batches = [item(number) for number in range(5)]
    self.batches = list(item(number) for number in range(5))
    return [item(number) for number in range(5)]
load(Loader())
"""


def test_a_comprehension_has_the_same_name_in_every_python(each: Harness) -> None:
    ended = each.run(each.script(MAKING))
    assert ended.stderr == b""
    first = MAKING.splitlines().index("    kept = [1 for _ in range(9)]") + 1
    assert [json.loads(line) for line in ended.stdout.splitlines()] == [
        [["batches", "being made in load()", first + 1]],
        [["self.batches", "being made in load()", first + 2]],
        [["", "being made in load()", first + 3]],
    ]
