"""A stand-in for torch with the surface that the probe uses, in the shape of several versions."""

from __future__ import annotations

from pathlib import Path

RECORD = {
    "1.13": "def _record_memory_history(enabled, device=None):\n    calls.append({'enabled': enabled})\n",
    "2.0": (
        "def _record_memory_history(enabled, record_context=True, trace_alloc_max_entries=1,\n"
        "                           trace_alloc_record_context=False, device=None, record_context_cpp=False):\n"
        "    calls.append({'enabled': enabled, 'max_entries': trace_alloc_max_entries, 'context': record_context})\n"
    ),
    "2.1": (
        "def _record_memory_history(enabled='all', *args, **kwargs):\n"
        "    _record_memory_history_impl(enabled, *args, **kwargs)\n"
        "def _record_memory_history_impl(enabled='all', context='all', stacks='all', max_entries=0, device=None):\n"
        "    calls.append({'enabled': enabled, 'context': context, 'stacks': stacks, 'max_entries': max_entries})\n"
    ),
    "2.14": (
        "def _record_memory_history(enabled='all', *args, **kwargs):\n"
        "    _record_memory_history_impl(enabled, *args, **kwargs)\n"
        "def _record_memory_history_impl(enabled='all', context='all', stacks='all', max_entries=0, device=None,\n"
        "                                clear_history=False, compile_context=False, skip_actions=None):\n"
        "    calls.append({'enabled': enabled, 'context': context, 'stacks': stacks, 'max_entries': max_entries})\n"
    ),
    # With cudaMallocAsync torch refuses this, and observers too.
    "cudaMallocAsync": "def _record_memory_history(*args, **kwargs):\n    raise RuntimeError('not supported')\n",
    "refusing": "def _record_memory_history(*args, **kwargs):\n    raise RuntimeError('not supported')\n",
}
WITHOUT_OBSERVERS = ("1.13",)

MESSAGE = (
    "CUDA out of memory. Tried to allocate %d bytes",
    "Allocation on device 0 would exceed allowed memory. (out of memory)\nRequested : %d bytes",
)
INIT = """
__version__ = {version!r}
class OutOfMemoryError(RuntimeError): pass
OutOfMemoryError.__module__ = 'torch'
from . import _C, cuda, version
def is_grad_enabled(): return True

def __getattr__(name):
    # As torch does: its compiler is imported when somebody asks for it.
    if name != '_inductor':
        raise AttributeError(name)
    import importlib
    return importlib.import_module('torch._inductor')

def allocate(size, device=0):
    cuda._lazy_init()
    if size > _C.free:
        for observer in _C.observers:
            observer(device, size, 1 << 34, _C.free)
        raise OutOfMemoryError({message!r} % size)
    _C.free -= size
"""
C = """
observers = []
free = 1 << 30
def _cuda_getDeviceCount(): return 2
"""
OBSERVER = """
def _cuda_attach_out_of_memory_observer(callback):
    if {refuses}:
        raise RuntimeError('no observers')
    observers.append(callback)
"""
CUDA = """
import threading
from . import memory
_initialized = False
_tls = threading.local()
_queued_calls = []
asked_by = set()
def is_initialized(): return _initialized
def device_count(): return 2
class _Properties: total_memory = 1 << 30
def get_device_properties(device): return _Properties
def memory_stats_as_nested_dict(device):
    from .. import _C
    asked_by.add(threading.get_ident())
    if not _initialized: return {}
    used = (1 << 30) - _C.free if device == 0 else 0
    return {'allocated_bytes': {'all': {'current': used}}, 'reserved_bytes': {'all': {'current': used, 'peak': used}},
            'num_ooms': 0}
def _lazy_call(callable, **kwargs):
    if _initialized: callable()
    else: _queued_calls.append((callable, []))
def _lazy_init():
    global _initialized
    if _initialized or hasattr(_tls, 'is_initializing'): return
    _tls.is_initializing = True
    for call, _ in _queued_calls: call()
    del _tls.is_initializing
    _initialized = True
"""
MEMORY = """
calls = []
{record}
def _snapshot(device=None):
    import torch
    from .. import _C
    names = hasattr(torch, '_inductor') and hasattr(torch._inductor, 'codecache') and torch._inductor.codecache.names
    return {{'names': names, 'segments': [], 'device_traces': [[]], 'free': _C.free}}
"""


def write_stub(folder: Path, version: str) -> None:
    """Put the stub into a folder of the script's."""
    torch = folder / "torch"
    (torch / "cuda").mkdir(parents=True)
    observer = OBSERVER.format(refuses=version == "cudaMallocAsync") if version not in WITHOUT_OBSERVERS else ""
    (torch / "__init__.py").write_text(
        INIT.format(version=version if version[0].isdigit() else "2.14", message=MESSAGE[version == "cudaMallocAsync"])
    )
    (torch / "version.py").write_text("cuda = '12.4'\nhip = None\n")
    (torch / "_C.py").write_text(C + observer)
    (torch / "_inductor").mkdir()
    (torch / "_inductor" / "__init__.py").write_text("from . import codecache\n")
    (torch / "_inductor" / "codecache.py").write_text("names = 'compiled'\n")
    (torch / "cuda" / "__init__.py").write_text(CUDA)
    (torch / "cuda" / "memory.py").write_text(MEMORY.format(record=RECORD[version]))
