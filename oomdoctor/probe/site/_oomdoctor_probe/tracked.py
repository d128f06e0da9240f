"""All objects that Python's collector knows, but for tuples.

Python refuses to finish a tuple that it is making (SystemError, in the thread that makes it) while somebody else refers
to it, and the collector's list refers to all. So that list never reaches Python code: it is made, filtered and dropped
within one call of functions in C, during which no other thread runs.
"""

from __future__ import annotations

import gc
import operator
from functools import partial
from itertools import chain, compress, repeat, starmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_twice = partial(repeat, times=2)
_is_not_tuple = partial(operator.is_not, tuple)


def all_but_tuples() -> list[Any]:
    """In the collector's order."""
    lists = starmap(gc.get_objects, [()])
    # Each object comes twice in a row: once for `compress` to keep or not, once to tell by its type.
    objects: Any = chain.from_iterable(map(_twice, chain.from_iterable(lists)))
    found = list(compress(objects, map(_is_not_tuple, map(type, objects))))
    kept = found[:]
    # It is among the objects itself, and would keep all of them alive until the collector runs.
    found.clear()
    return kept
