"""Sets the probe up in a process that has just started."""

from __future__ import annotations

import os
import sys

from . import caught, exceptions, finish, identity, imports, records, reserve
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


class _Started:
    """Whether this process is watched already: `sitecustomize` can be imported twice."""

    yes = False


@guarded("starting")
def start(bundle: str) -> None:
    """Watch this process, and all that it forks."""
    if _Started.yes or not os.path.isdir(bundle):
        return
    _Started.yes = True
    records.open_bundle(bundle)
    identity.write_process()
    reserve.take()
    exceptions.watch_main_thread()
    finish.watch_exit()
    caught.watch()
    imports.when_imported("threading", exceptions.watch_threads)
    imports.when_imported("multiprocessing.util", _watch_multiprocessing)
    imports.when_imported("torch", _watch_torch)
    sys.meta_path.insert(0, imports.finder)
    os.register_at_fork(after_in_child=_in_child)


@guarded("watching torch")
def _watch_torch(torch: ModuleType) -> None:
    from . import torch_hook

    torch_hook.watch(torch)


@guarded("watching multiprocessing")
def _watch_multiprocessing(util: ModuleType) -> None:
    from . import multiprocess

    multiprocess.watch(util)


@guarded("continuing after a fork")
def _in_child() -> None:
    finish.forget()
    identity.write_process(forked=True)
