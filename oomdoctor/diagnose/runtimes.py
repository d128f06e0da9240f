"""What to ask each runtime for that puts memory on a device: in its own words, and nothing that it does not have."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import _
from ..model.diagnosis import Missing
from ..model.facts import FactSet, Scope

VERSION_BY = {
    "torch": "python -c 'import torch; print(\"torch==\" + torch.__version__)'",
    "mps": "python -c 'import torch; print(\"torch==\" + torch.__version__)'",
    "jax": "python -c 'import jax; jax.print_environment_info()'",
    "tensorflow": "python -c 'import tensorflow as tf; print(tf.__version__)'",
    "llama.cpp": "llama-server --version",
    "ollama": "ollama --version",
    "mlx": "pip show mlx",
}
"""How each prints its version; of a program that only Metal's own words tell of (`metal`), nobody knows."""
_WITHOUT_TABLE = frozenset({"mps", "metal"})
"""Allocators on devices of which no tool lists who holds what."""
_OF_OTHER_TOOLS = frozenset({"hip", "xpu", "npu", "mlu", "neuron"})
"""Allocators on devices that only the vendor's own tool knows; nvidia-smi may know those of all others."""
_OF_BACKEND = {"jax": "jax", "tensorflow": "tensorflow", "mps": "mps", "metal": "metal"}


def runtime_of(facts: FactSet) -> str:
    """A key of VERSION_BY, or `metal`: the engine where it has no torch in it, else by the allocator that refused."""
    engine = facts.value("engine.name")
    if engine in ("llama.cpp", "ollama", "mlx"):
        return str(engine)
    backends = (facts.value("oom.backend", member) for member in facts.members(Scope.DEVICE))
    return next((_OF_BACKEND[str(each)] for each in backends if each in _OF_BACKEND), "torch")


def who_is_on(facts: FactSet, *, numbered: bool = False) -> Iterator[Missing]:
    """What would show who else was on the failed device: nothing where no tool lists that.

    `numbered`: the message lists others with what they hold, but by their numbers only.
    """
    backend = facts.value("oom.backend")
    if backend in _WITHOUT_TABLE or runtime_of(facts) == "mlx":
        return
    yield Missing(
        _("what the other processes on the device are") if numbered else _("who else was on the device"),
        _("the message tells their numbers and sizes only")
        if numbered
        else _("no process table of the device is in the input"),
        _("the vendor's own tool shows it (rocm-smi, xpu-smi, npu-smi); of such only nvidia-smi's is read")
        if backend in _OF_OTHER_TOOLS
        else _("`nvidia-smi > nvidia-smi.txt` while the command runs"),
    )


def holders_of(runtime: str, *, watched: bool = False) -> Iterator[Missing]:
    """What would show who held the memory; nothing where the runtime offers nothing of the kind.

    `watched`: the input is such a run already, and none was taken in it.
    """
    if runtime == "torch" and watched:
        yield Missing(
            _("a memory snapshot of the failure"),
            _("none was taken in this run; who held the memory cannot be seen"),
            _(
                "call `torch.cuda.memory._record_memory_history()` before and "
                "`torch.cuda.memory._dump_snapshot('snapshot.pickle')` at the failure"
            ),
        )
    elif runtime == "torch":
        yield Missing(
            _("a memory snapshot of the failure"),
            _("only the message tells of the allocator; who held the memory cannot be seen"),
            _(
                "`oomdoctor run -- <your command>` takes one; or call `torch.cuda.memory._record_memory_history()` "
                "before and `torch.cuda.memory._dump_snapshot('snapshot.pickle')` at the failure"
            ),
        )
    elif runtime == "jax":
        yield Missing(
            _("what held the device's memory"),
            _("only the message of XLA's allocator tells of it"),
            _(
                "`jax.profiler.save_device_memory_profile('memory.prof')` before the failing call, to be read with "
                "pprof"
            ),
        )
    elif runtime == "tensorflow":
        yield Missing(
            _("what held the device's memory"),
            _("only the message of TensorFlow's allocator tells of it"),
            _(
                "`print(tf.config.experimental.get_memory_info('GPU:0'))` before the failing step, and the log from "
                "its start"
            ),
        )
