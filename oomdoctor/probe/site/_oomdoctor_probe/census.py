"""The census: who holds device memory, taken when a device has run out of it and everything is still there.

One pass over the objects that Python's collector knows finds the tensors; a walk from the user's variables gives them
names; the graphs behind them show what autograd keeps. It reads and counts: it starts no work, allocates nothing on a
device, runs no code of the user's, and keeps nothing alive when it is done.
"""

from __future__ import annotations

import gc
import os
from itertools import chain
from time import monotonic

from . import census_comprehensions, census_objects, census_roots, census_state
from .census_autograd import Graph
from .census_claims import Claims, batch_size_of, vocabulary_of
from .census_clock import now
from .census_owners import Owners
from .census_referrers import Climb
from .census_tally import Tally
from .census_tensors import Reader
from .census_walk import Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any

    from .census_growth import Lengths
    from .census_objects import Objects
    from .census_tally import Blocks

SECONDS = 2.0
_SHARE_OF_PASS = 0.4
_SHARE_OF_WALKS = 0.6
_SHARE_OF_LOOKS = 0.6
_SHARE_OF_GRAPHS = 0.9
_MOST_VOCABULARIES = 16


def seconds() -> float:
    """Time allowed: OOMDOCTOR_CENSUS_SECONDS, 2 if not set; 0 for none.

    Of computing: where others keep the thread waiting, it may be four times that by the clock on the wall.
    """
    try:
        wanted = float(os.environ.get("OOMDOCTOR_CENSUS_SECONDS", "") or SECONDS)
    except ValueError:
        return SECONDS
    return SECONDS if wanted != wanted else wanted  # no time is ever later than nan


def take(
    torch: Any,
    blocks: Blocks | None,
    allowed: float,
    device_type: str = "cuda",
    failing: Sequence[TracebackType | None] = (),
    lengths: Lengths | None = None,
) -> dict[str, object] | None:
    """The census as fields of a record; None where this torch has no tensors to count.

    `failing`: tracebacks of the error that ends the program, where it has been raised already. `lengths`: of the
    collections that earlier censuses of this process saw.
    """
    if getattr(torch, "Tensor", None) is None or allowed <= 0:
        return None
    # A subclass or a mode of the user's that overrides torch functions would be asked otherwise.
    quiet = torch._C.DisableTorchFunction
    collects = gc.isenabled()
    # What is made here and dropped again would set the collector off, over objects by the hundred thousand.
    gc.disable()
    try:
        with quiet():
            return _take(torch, blocks, allowed, device_type, list(failing), lengths)
    finally:
        if collects:
            gc.enable()


def _take(
    torch: Any,
    blocks: Blocks | None,
    allowed: float,
    device_type: str,
    failing: list[TracebackType | None],
    lengths: Lengths | None,
) -> dict[str, object]:
    begun, started = monotonic(), now()
    reader = Reader(torch, device_type)
    objects = census_objects.collect(torch, reader, started + allowed * _SHARE_OF_PASS)
    module = vars(torch.nn).get("Module") if "nn" in vars(torch) else None
    stacks = census_roots.Stacks(failing)
    walk = Walk(reader, module, started + allowed * _SHARE_OF_WALKS, stacks.running)
    own, libraries = stacks.variables()
    kept = census_roots.of_notebook()
    walk.follow(chain(own, census_roots.of_globals(stacks), census_roots.of_suspended(objects.suspended), kept))
    walk.follow(chain(libraries, census_roots.of_tracebacks(objects.tracebacks, stacks.running)))
    if gc.get_freeze_count() or not objects.complete:
        # `gc.freeze()`, as servers do: what was there before is not among the collector's objects.
        objects.add_reached(list(walk.held.values()))
    claims = Claims(reader, Tally(blocks), started, allowed)
    live = [
        tensor for tensor in claims.while_there_is_time(objects.tensors, _SHARE_OF_LOOKS) if reader.remember(tensor)
    ]
    making = census_comprehensions.under_way(stacks)
    climb = Climb(walk, [objects.tensors, objects.modules, live], started + allowed * _SHARE_OF_WALKS, making)
    climb.find(census_state.roots(objects.modules))
    walked = monotonic()
    owners = Owners(walk)
    vocabulary = claims.vocabulary = vocabulary_of(objects.modules, reader)
    claims.batch_size = batch_size_of(objects.loaders)
    census_state.claim(objects, owners, claims)
    census_state.claim_other_gradients(live, owners, claims)
    graph = Graph(torch, reader, objects.unpack_hooks, started + allowed * _SHARE_OF_GRAPHS)
    claims.claim_others(live, owners, graph, climb)
    graphed = monotonic()
    return {
        "complete": objects.complete and walk.complete and graph.complete and graph.possible and claims.complete,
        "stopped": _stopped(objects, walk, graph, claims),
        "seconds": round(monotonic() - begun, 4),
        "seconds_walking": round(walked - begun, 4),
        "seconds_in_graphs": round(graphed - walked, 4),
        "objects": objects.seen,
        "tensors": len(live),
        "nodes": graph.nodes,
        "hooked": graph.hooked,
        "joined": blocks is not None,
        "training": census_state.is_training(objects),
        "devices": claims.tally.devices(sorted(vocabulary)[:_MOST_VOCABULARIES]),
        "groups": claims.tally.groups(lengths),
    }


def _stopped(objects: Objects, walk: Walk, graph: Graph, claims: Claims) -> str | None:
    """What was cut short, in words."""
    if not objects.complete:
        return "the pass over all objects, for want of time: what no variable leads to was not seen"
    if not claims.complete:
        return "the count of what each holder has, for want of time: the rest has no name"
    if not walk.complete:
        return "the walk from variables, for want of time: some holders have no name"
    if not graph.complete:
        return "the walk through autograd's graphs, for want of time"
    if not graph.possible:
        return "autograd's graphs: this torch does not say which saved tensors have hooks, and some may"
    return None
