"""GIVEN a process that cannot get any more memory WHEN it fails THEN the record names what held it, and where."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import pytest
from watched import Harness

LIMIT = "import resource\nresource.setrlimit(resource.RLIMIT_AS, ({0} << 20, {0} << 20))\n"
MIB = 1 << 20


def held(harness: Harness, text: str, limit_mib: int = 256) -> list[dict[str, Any]]:
    """Large objects recorded for a script that must fail under the limit as it does without the probe."""
    path = harness.script(LIMIT.format(limit_mib) + text)
    watched = harness.run(path)
    assert watched.returncode == 1
    # More than is sure without the probe ("lost sys.stderr"): the reserve that was given back is room for that too.
    assert watched.stderr.endswith(b"MemoryError\n")
    first, *rest = harness.records("exception")
    assert first["is_memory_error"] is True
    assert first["large_objects"] == []
    assert first["address_space_limit_bytes"] == limit_mib * MIB
    assert first["vm_size_bytes"] <= first["vm_peak_bytes"] <= limit_mib * MIB
    assert 0 < first["rss_bytes"] <= first["rss_peak_bytes"]
    assert "data_limit_bytes" not in first
    assert harness.records("probe-error") == []
    assert [record["id"] for record in rest] == [first["id"]]
    return list(rest[0]["large_objects"])


def test_a_list_that_grew_until_nothing_was_left(each: Harness) -> None:
    text = """
def main():
    batches = []
    while True:
        batches.append(bytes(1000))
main()
"""
    largest, *_ = held(each, text)
    assert (largest["type"], largest["holder"]) == ("list", "local 'batches' in main()")
    assert (largest["file"], largest["line"], largest["function"]) == (str(each.folder / "script.py"), 7, "main")
    assert 180 * MIB < largest["deep_bytes"] < 256 * MIB
    assert largest["complete"] is False
    assert largest["length"] * 1000 < largest["deep_bytes"]


def test_the_smallest_allocation_fails(each: Harness) -> None:
    """Everything is taken to the last word before the error: only the reserve is left to write with."""
    text = """
def main():
    numbers = []
    try:
        number = 1 << 70
        while True:
            number += 1
            numbers.append(number)
    except MemoryError:
        pass
    rest = []
    for size in (1 << 20, 1 << 16, 1 << 12, 1 << 9, 64, 1):
        try:
            while True:
                rest.append(bytearray(size))
        except MemoryError:
            pass
    raise MemoryError
main()
"""
    holders = {row["holder"] for row in held(each, text)}
    assert "local 'numbers' in main()" in holders


def test_a_history_kept_by_an_object(each: Harness) -> None:
    text = """
class Trainer:
    def __init__(self):
        self.history = []
    def step(self):
        self.history.append({'loss': 'x' * 5000, 'step': len(self.history)})
def main():
    trainer = Trainer()
    while True:
        trainer.step()
main()
"""
    largest, *_ = held(each, text)
    assert largest["holder"] == "attribute self.history of Trainer"
    assert (largest["line"], largest["function"]) == (8, "step")
    assert 150 * MIB < largest["deep_bytes"] < 256 * MIB


def test_a_global_cache_names_the_line_that_fills_it(each: Harness) -> None:
    text = """
CACHE = {}
def load(key):
    CACHE[key] = bytearray(100_000)
def main():
    for key in range(1_000_000):
        load(key)
main()
"""
    largest, *_ = held(each, text)
    assert (largest["type"], largest["holder"]) == ("dict", "global 'CACHE' in __main__")
    assert (largest["line"], largest["function"]) == (6, "load")
    assert 180 * MIB < largest["deep_bytes"] < 256 * MIB
    assert largest["own_bytes"] < MIB


def test_one_large_request_that_failed(each: Harness) -> None:
    text = """
def read():
    head = bytearray(50 << 20)
    return bytearray(len(head) * 100)
read()
"""
    largest, *_ = held(each, text)
    assert (largest["type"], largest["holder"], largest["line"]) == ("bytearray", "local 'head' in read()", 6)
    assert largest["deep_bytes"] == pytest.approx(50 * MIB, rel=0.01)
    assert largest["complete"] is True
    assert largest["length"] == 50 * MIB


def test_slots_sets_and_deques(harness: Harness) -> None:
    text = """
import collections
class Node:
    __slots__ = ('payload', 'unset')
def main():
    node = Node(); node.payload = bytes(20 << 20)
    window = collections.deque(bytes(1 << 16) for _ in range(400))
    seen = {bytes([n % 256]) * (1 << 15) + bytes([n // 256]) for n in range(300)}
    bytes(1 << 40)
main()
"""
    sizes = {row["holder"]: row["deep_bytes"] for row in held(harness, text)}
    assert sizes["local 'node' in main()"] == pytest.approx(20 * MIB, rel=0.01)
    assert sizes["local 'window' in main()"] == pytest.approx(25 * MIB, rel=0.01)
    assert sizes["local 'seen' in main()"] == pytest.approx(9.4 * MIB, rel=0.01)


def test_what_is_held_many_times_counts_once(harness: Harness) -> None:
    text = """
def main():
    page = bytes(8 << 20)
    pages = [page] * 1000
    bytes(1 << 40)
main()
"""
    sizes = {row["holder"]: row["deep_bytes"] for row in held(harness, text)}
    assert sizes["local 'pages' in main()"] == pytest.approx(8 * MIB, rel=0.01)


def test_no_code_of_the_users_is_run(harness: Harness) -> None:
    text = """
class Trap(list):
    def refuse(self, *a): print('RUN')
    __len__ = __iter__ = __sizeof__ = __eq__ = __hash__ = __getattr__ = __getitem__ = __bool__ = refuse
    __class__ = shape = nbytes = property(refuse)
def main():
    trap = Trap([bytes(4 << 20)])
    bytes(1 << 40)
main()
"""
    path = harness.script(text)
    assert harness.run(path).stdout == b""
    (record,) = harness.latest("exception")
    assert record["large_objects"][0]["holder"] == "local 'trap' in main()"


def test_a_large_heap_is_searched_for_a_bounded_time(harness: Harness) -> None:
    text = """
def main():
    table = {n: {'a': [n, str(n)], 'b': (n,)} for n in range(300_000)}
    others = [{'x': n} for n in range(300_000)]
    bytes(1 << 60)
main()
"""
    path = harness.script(text)
    harness.run(path)
    first, second = harness.records("exception")
    assert second["time"] == first["time"]
    assert harness.records("end")[0]["time"] - first["time"] < 4
    assert second["large_objects"][0]["holder"] == "local 'table' in main()"


def test_a_memory_error_in_a_thread(each: Harness) -> None:
    text = "import threading\ndef work():\n    kept = bytes(30 << 20)\n    bytes(1 << 60)\n"
    each.run(each.script(text + "t = threading.Thread(target=work, name='loader')\nt.start()\nt.join()\nprint('on')"))
    (record,) = each.latest("exception")
    assert (record["thread"], record["large_objects"][0]["holder"]) == ("loader", "local 'kept' in work()")


def test_a_memory_error_behind_another_error(harness: Harness) -> None:
    text = """
def load():
    kept = bytes(30 << 20)
    bytes(1 << 60)
try:
    load()
except MemoryError:
    raise RuntimeError('worker failed')
"""
    harness.run(harness.script(text))
    (record,) = harness.latest("exception")
    assert record["is_memory_error"] is False
    assert record["chain"][0]["is_memory_error"] is True
    assert record["large_objects"][0]["holder"] == "local 'kept' in load()"


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="numpy is not installed here")
def test_numpy_arrays_and_their_views(harness: Harness) -> None:
    text = """
import numpy
def main():
    base = numpy.zeros((10, 1 << 20))
    view = base[2:4]
    rows = [numpy.zeros(1 << 17) for _ in range(30)]
    del base
    numpy.zeros(1 << 50)
main()
"""
    harness.run(harness.script(text))
    (record,) = harness.latest("exception")
    assert record["exception_type"].endswith("_ArrayMemoryError")
    sizes = {row["holder"]: row["deep_bytes"] for row in record["large_objects"]}
    assert sizes["local 'view' in main()"] == pytest.approx(80 * MIB, rel=0.01)
    assert sizes["local 'rows' in main()"] == pytest.approx(30 * MIB, rel=0.01)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")
def test_tensors_on_the_cpu(harness: Harness) -> None:
    text = """
import torch
def main():
    weights = torch.zeros(5 << 20)
    views = [weights[n:] for n in range(10)]
    losses = [torch.zeros(1 << 18) for _ in range(40)]
    torch.empty(1 << 50)
main()
"""
    harness.run(harness.script(text))
    (record,) = harness.latest("exception")
    assert (record["exception_type"], record["is_memory_error"]) == ("RuntimeError", True)
    sizes = {row["holder"]: row["deep_bytes"] for row in record["large_objects"]}
    assert sizes["local 'weights' in main()"] == pytest.approx(20 * MIB, rel=0.01)
    assert sizes["local 'views' in main()"] == pytest.approx(20 * MIB, rel=0.01)
    assert sizes["local 'losses' in main()"] == pytest.approx(40 * MIB, rel=0.01)


def test_a_memory_error_that_was_caught_changes_nothing(harness: Harness) -> None:
    text = "try:\n    bytes(1 << 60)\nexcept MemoryError:\n    print('smaller, then')\n"
    started = time.monotonic()
    assert harness.run(harness.script(text)).stdout == b"smaller, then\n"
    assert harness.records("exception") == []
    assert time.monotonic() - started < 5


def test_the_line_is_where_the_code_adds_not_where_memory_ran_out(each: Harness) -> None:
    text = """
unseen = []
def load():
    return bytearray(1 << 20)
def train():
    seen = []
    for step in range(10 ** 6):
        batch = load()
        # seen.append(nothing)
        seen.append(batch)
def other():
    seen = []
    seen.append(1)
train()
"""
    largest, *_ = held(each, text)
    assert (largest["holder"], largest["line"], largest["adds"]) == ("local 'seen' in train()", 12, True)


def test_the_line_that_stores_into_a_dict_that_an_object_keeps(each: Harness) -> None:
    text = """
class Cache:
    def __init__(self):
        self.rows = {}
    def fetch(self, key):
        if self.rows.get(key) == key:
            return None
        value = bytes(1 << 20)
        self.rows[key] = value
def main():
    cache = Cache()
    for key in range(10 ** 6):
        cache.fetch(key)
main()
"""
    largest, *_ = held(each, text)
    assert (largest["type"], largest["line"], largest["adds"]) == ("dict", 11, True)
    assert ".rows" in largest["holder"]


def test_where_nothing_adds_the_line_is_where_the_stack_stood(each: Harness) -> None:
    text = """
def main():
    kept = [bytearray(1 << 20) for _ in range(10 ** 6)]
main()
"""
    rows = held(each, text)
    assert all(row["adds"] is False for row in rows)


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="numpy is not installed here")
def test_the_users_name_comes_before_a_librarys(harness: Harness) -> None:
    text = """
import numpy
base = numpy.zeros(1 << 22)
def library():
    return numpy.full_like(base, 1.0, shape=(1 << 50,))
library()
"""
    harness.run(harness.script(text))
    (record,) = harness.latest("exception")
    largest = record["large_objects"][0]
    assert (largest["holder"], largest["adds"]) == ("global 'base' in __main__", False)
    assert any("full_like" in frame[2] for frame in record["frames"])


def test_a_library_frame_names_what_nothing_of_the_users_does(harness: Harness) -> None:
    harness.script("def inner(size):\n    kept = bytes(size)\n    return bytes(1 << 60)\n", "site-packages/lib.py")
    path = harness.script("import sys\nsys.path.insert(0, 'site-packages')\nimport lib\nlib.inner(30 << 20)\n")
    harness.run(path)
    (record,) = harness.latest("exception")
    assert record["large_objects"][0]["holder"] == "local 'kept' in inner()"


def test_what_has_no_items_is_not_sized_by_them(each: Harness) -> None:
    """A generator or a frame begins where others count their items: `object` would multiply by an address."""
    text = """
import sys
def numbers():
    kept = yield 1
class Own(BaseException):
    pass
def main():
    generator, frame, error, kept = numbers(), sys._getframe(), Own(), bytearray(32 << 20)
    next(generator)
    return bytes(1 << 60)
main()
"""
    rows = held(each, text)
    assert rows[0]["holder"] == "local 'kept' in main()"
    assert sum(row["own_bytes"] for row in rows) < 33 * MIB


def test_what_the_users_code_holds_comes_before_what_a_library_does(harness: Harness) -> None:
    library = "class Shell:\n    def run(self, code, names):\n        self.names = dict.fromkeys(range(99), names)\n"
    harness.script(library + "        exec(code, names)\n", "site-packages/shell.py")
    text = "import sys\nsys.path.insert(0, 'site-packages')\nimport shell\nkept = [bytes(30 << 20)]\n"
    code = "shell.Shell().run(compile('kept.append(bytes(1 << 60))', 'cell.py', 'exec'), globals())\n"
    harness.run(harness.script(text + code))
    (record,) = harness.latest("exception")
    assert record["large_objects"][0]["holder"] == "global 'kept' in __main__"


def test_an_error_that_a_notebook_shows_is_recorded(each: Harness) -> None:
    """IPython catches what a cell raises and goes on; no hook of Python's is called."""
    shell = """
import sys
class InteractiveShell:
    def showtraceback(self, exc_tuple=None, filename=None):
        print("shown", (exc_tuple or sys.exc_info())[0].__name__, filename)
"""
    for name in ("IPython/__init__.py", "IPython/core/__init__.py"):
        each.script("", name)
    each.script(shell, "IPython/core/interactiveshell.py")
    text = """
from IPython.core.interactiveshell import InteractiveShell
kept = [bytearray(30 << 20)]
for size in (-1, 1 << 60):
    try:
        kept.append(bytearray(size))
    except Exception:
        InteractiveShell().showtraceback(filename="cell")
"""
    watched = each.run(each.script(text))
    assert watched.stdout.split() == [b"shown", b"ValueError", b"cell", b"shown", b"MemoryError", b"cell"]
    (record,) = each.latest("exception")
    assert (record["fatal"], record["is_memory_error"]) == (False, True)
    assert record["large_objects"][0]["holder"] == "global 'kept' in __main__"


@pytest.mark.parametrize("how", ["pool", "loader"])
def test_an_error_that_came_from_a_worker_is_not_explained_by_who_waited(harness: Harness, how: str) -> None:
    text = """
import multiprocessing, sys
def work(size):
    return len(bytearray(size))
if __name__ == "__main__":
    kept = [bytearray(30 << 20)]
    if sys.argv[1] == "loader":
        raise MemoryError("Caught MemoryError in DataLoader worker process 0.\\nOriginal Traceback: …")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(work, [1 << 60])
"""
    assert harness.run(harness.script(text), how).returncode == 1
    (record,) = harness.latest("exception")
    assert (record["from_worker"], record["large_objects"]) == (True, [])
    assert "vm_size_bytes" not in record
