"""GIVEN tuples that are still being made WHEN the census is taken THEN it goes round their holes and lets them be."""

from __future__ import annotations

import importlib.util

import pytest
from counted import groups, run
from watched import SITE, Harness

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")


def test_a_tuple_with_holes_is_not_read(each: Harness) -> None:
    text = """
import gc, sys
sys.path.insert(0, SITE)
from _oomdoctor_probe import census_containers
def told():
    for number in range(3):
        unfinished = [one for one in gc.get_referrers(MARK) if type(one) is tuple and len(one) > 3]
        counts = [len(census_containers.elements(one, 'tuple')) for one in unfinished]
        print([census_containers.is_unfinished(one) for one in unfinished], counts)
        del unfinished
        yield MARK
class Mark: pass
MARK = Mark()
whole = tuple(told())
print(census_containers.is_unfinished(whole), census_containers.elements((1, 'a', whole), 'tuple') == [1, 'a', whole])
print(census_containers.elements([3, 1, 2], 'list'))
"""
    ended = each.run(each.script(f"SITE = {str(SITE)!r}\n" + text))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.decode().splitlines() == ["[] []", "[True] [1]", "[True] [2]", "False True", "[3, 1, 2]"]


def test_modules_on_their_way_into_a_call_are_counted(harness: Harness) -> None:
    """`nn.Sequential(*parts)` of a generator is a tuple with holes while memory runs out in it."""
    text = """
def parts():
    for number in range(3):
        yield nn.Linear(512, 512, bias=False)
    take()
network = nn.Sequential(*parts())
"""
    (row,) = groups(harness, text)
    assert (row["category"], row["bytes"] >> 20) == ("parameters", 3)
    assert row["owner"].endswith("collected for a call under way")


def test_another_thread_can_finish_its_tuple(harness: Harness) -> None:
    """Python raises SystemError where somebody else refers to a tuple that is being made."""
    text = """
import threading, time
stop = False
def numbers(count):
    for number in range(count):
        yield number
def work():
    while not stop:
        for count in range(40): tuple(numbers(count))
kept = [mib() for _ in range(3)]
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(5): census.take(torch, None, 20.0, 'cpu')
stop = True
for thread in threads: thread.join()
"""
    ended = run(harness, text)
    assert (ended.returncode, ended.stderr) == (0, b"")
