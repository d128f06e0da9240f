"""Records the exceptions that nothing caught, and those about host memory that were seen as they were raised.

Python calls `sys.excepthook` for the main thread and `threading.excepthook` for the others. Both are wrapped and call
what was there before; so are `sys.__excepthook__` and `threading.__excepthook__`, because some libraries ask whether
the hook is still the original one, or put that one back. A program that sets a hook of its own and never calls the
former one loses ours: for the main thread the end of the process makes up for it (`record_last`), for other threads
nothing does. `sys.unraisablehook` is left alone: what it reports ends nothing.
"""

from __future__ import annotations

import _thread
import os
import sys
from time import time

from . import identity, process_size, records, reserve
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

_LONGEST_CHAIN = 8
_RAISED_IN_FULL = 20
"""Of more than these, seen as they were raised, fewer and fewer have a record."""
_ENOMEM = 12
_SHORT_OF_MEMORY = (
    "ALLOC_FAILED", "cudaErrorMemoryAllocation", "INSUFFICIENT_RESOURCES", "ALLOCATION_FAILED",
    "valid cuDNN algorithm", "nable to find an engine to execute", "unhandled cuda error",
)  # fmt: skip
"""What libraries say when they found no memory for a handle, a workspace or a buffer, and seldom otherwise."""
_NOT_THE_ALLOCATOR = ("CUDA error", "CUDA driver error", "Cuda failure", "NCCL", "[CUDA]", "HIP error")
"""Who says `out of memory` beside torch's own allocator, which says `CUDA out of memory`."""
_FROM_ELSEWHERE = ("_RemoteTraceback", "RemoteTraceback", "RayTaskError")
"""What pools of processes chain an error to that a worker had, or derive it from."""


class _State:
    """What has been seen in this process."""

    count = 0
    raised = 0
    """How many errors about memory were seen as they were raised."""
    last_raised = (0, "")
    """id() of the last of them, and that of its record."""
    ended_by = 0
    """id() of the exception that reached the main thread's hook. Python keeps it alive as sys.last_value."""


def watch_main_thread() -> None:
    """Wrap the main thread's hook."""
    original = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> Any:
        # At a prompt an exception ends nothing.
        record(value, fatal=not hasattr(sys, "ps1"))
        return original(kind, value, traceback)

    if sys.__excepthook__ is original:
        sys.__excepthook__ = excepthook
    sys.excepthook = excepthook


@guarded("watching threads")
def watch_threads(threading: Any) -> None:
    """Wrap the hook of the other threads."""
    original = threading.excepthook

    def excepthook(arguments: Any) -> Any:
        if not issubclass(arguments.exc_type, SystemExit):
            name = arguments.thread.name if arguments.thread is not None else "unknown"
            record(arguments.exc_value, thread=name)
        return original(arguments)

    if getattr(threading, "__excepthook__", None) is original:
        threading.__excepthook__ = excepthook  # novm: only where there is one (3.10)
    threading.excepthook = excepthook


def forget() -> None:
    """In a forked child: nothing has ended it yet."""
    _State.ended_by = 0
    _State.last_raised = (0, "")


def ended_by_exception() -> bool:
    """Whether an uncaught exception ended the main thread."""
    return _State.ended_by != 0


@guarded("recording the last exception")
def record_last() -> None:
    """At the end of the process: what ended the main thread, if a hook of the user's kept it from us."""
    error = getattr(sys, "last_value", None)
    if error is not None and id(error) != _State.ended_by and not hasattr(sys, "ps1"):
        record(error)


@guarded("recording an exception")
def record(error: BaseException, thread: str | None = None, fatal: bool = True) -> None:
    """Write an uncaught exception down; when memory ran out, what held it as well."""
    # Python forgets that it has to die of SIGINT when anything evaluates a string before the end, as importing
    # `linecache` and `re` does: an interrupt gets the short form, which needs neither.
    interrupted = issubclass(type(error), KeyboardInterrupt)
    chain = [error] if interrupted else _chain(error)
    out_of_memory = any(is_memory_error(link) for link in chain)
    if out_of_memory:
        reserve.release()
    if fatal and thread is None:
        _State.ended_by = id(error)
    about: dict[str, Any] = {
        "time": time(),
        "id": _id_of(chain),
        "pid": os.getpid(),
        "fatal": fatal,
        "thread": thread,
        "rank": identity.rank(),
    }
    from_worker = out_of_memory and any(map(_is_from_worker, chain))
    if from_worker:
        # This process lacked nothing: neither its size nor its objects explain what the worker lacked.
        about["from_worker"] = True
    elif out_of_memory:
        # Now, before the stack unwinds: nobody outside can tell how large the process was when it failed.
        about.update(process_size.read())
    # The first record of a MemoryError asks for as little as it can; the process may not live to write the second.
    _write(about, chain, with_code=not (out_of_memory or interrupted))
    if from_worker:
        _write(about, chain, with_code=True)
    elif out_of_memory:
        _write_with_objects(about, chain)
        if thread is not None:
            # The process goes on and may need it again. One that ends needs room to print its traceback.
            reserve.take()
    if any(is_device_oom(link) or is_library_oom(link) for link in chain):
        _look_at_devices(chain, thread)


@guarded("recording an error that may be caught")
def record_raised(error: BaseException) -> None:
    """Write down, shortly, that memory ran out: the program may catch it. If nothing does, `record` replaces this."""
    _State.raised += 1
    _State.last_raised = (0, "")
    if _State.raised > _RAISED_IN_FULL and _State.raised & (_State.raised - 1):
        return
    identity_of_record = _id_of([])
    reserve.release()
    about: dict[str, Any] = {"time": time(), "id": identity_of_record, "pid": os.getpid(), "fatal": False}
    about.update(thread=_thread_name(), rank=identity.rank(), large_objects=[], chain=[], **process_size.read())
    from . import frames

    described = {**_describe(error, with_code=False), "frames": frames.of_stack(sys._getframe(), with_code=False)}
    records.write("exception", **about, **described)
    reserve.take()
    _State.last_raised = (id(error), identity_of_record)


def _id_of(chain: list[BaseException]) -> str:
    """A new one, or that of the record that was written of one of these as it was raised."""
    known, record_id = _State.last_raised
    if any(id(link) == known and is_memory_error(link) for link in chain):
        return record_id
    _State.count += 1
    return "%d-%d" % (os.getpid(), _State.count)


def _thread_name() -> str | None:
    threading = sys.modules.get("threading")
    if threading is None:
        return None
    number = _thread.get_ident()
    if number == threading.main_thread().ident:
        return None
    return str(getattr(threading._active.get(number), "name", "unknown"))


@guarded("recording what held device memory")
def _look_at_devices(chain: list[BaseException], thread: str | None) -> None:
    """A device ran out; what the tracebacks hold is still there. A worker's error has been told by the worker."""
    if any(map(_is_from_worker, chain)):
        return
    watching = sys.modules.get(__package__ + ".device_oom")
    if any(_is_of_allocator(link) for link in chain):
        if watching is not None:
            watching.ended_by(chain, thread)
        return
    from . import library_oom

    library_oom.record(chain, thread)


@guarded("finding what held the memory")
def _write_with_objects(about: dict[str, Any], chain: list[BaseException]) -> None:
    from . import large_objects

    found = large_objects.find([link.__traceback__ for link in chain])
    _write({**about, "large_objects": found}, chain, with_code=True)


def _write(about: dict[str, Any], chain: list[BaseException], with_code: bool) -> None:
    links = [_describe(link, with_code) for link in chain]
    records.write("exception", **{"large_objects": [], **about, **links[0], "chain": links[1:]})


def _describe(error: BaseException, with_code: bool) -> dict[str, object]:
    from . import frames
    from .masking import mask_text

    kind = type(error)
    module = "" if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "."
    return {
        "exception_type": module + kind.__qualname__,
        "message": mask_text(_message(error)[:20000]),
        "frames": frames.of_traceback(error.__traceback__, with_code),
        "is_memory_error": is_memory_error(error),
        "is_device_oom": is_device_oom(error),
        "is_library_oom": is_library_oom(error),
    }


def _chain(error: BaseException) -> list[BaseException]:
    """The exception and what it came from, as Python would print them, nearest first."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(chain) < _LONGEST_CHAIN and all(link is not known for known in chain):
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _is_from_worker(error: BaseException) -> bool:
    """Whether another process had it; torch's loaders name the worker in its text."""
    if any(kind.__name__ in _FROM_ELSEWHERE for kind in type(error).__mro__):
        return True
    return " worker process " in (text := _message(error).partition("\n")[0]) and text.startswith("Caught ")


def is_memory_error(error: BaseException) -> bool:
    """Whether it says that the process could not get host memory."""
    if issubclass(type(error), MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == _ENOMEM
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in _message(error)


def is_device_oom(error: BaseException) -> bool:
    """Whether it says that a device ran out of memory (torch before 1.13 raises a plain RuntimeError)."""
    if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and "CUDA" in (text := _message(error)) and "out of memory" in text


def is_library_oom(error: BaseException) -> bool:
    """Whether the driver or a library, not torch's own allocator, found no device memory left, or may have."""
    kind, text = type(error), _message(error)
    if any(one.__name__ == "OutOfMemoryError" for one in kind.__mro__):
        return False
    if "CUDA_ERROR_OUT_OF_MEMORY" in text or "cuMemAlloc" in text:
        return True  # bindings of the driver have classes of their own
    if not issubclass(kind, RuntimeError):
        return False
    if any(word in text for word in _SHORT_OF_MEMORY):
        return True
    if "NOT_INITIALIZED" in text:
        # What cuBLAS and cuDNN say as well when there is no room for their handle.
        return any(library in text for library in ("CUBLAS", "CUDNN", "CUSOLVER", "CUSPARSE"))
    return "out of memory" in text and any(name in text for name in _NOT_THE_ALLOCATOR)


def _is_of_allocator(error: BaseException) -> bool:
    """Whether torch's own allocator raised it, so that an observer has been told of it where there are observers."""
    kinds = [kind for kind in type(error).__mro__ if kind.__name__ == "OutOfMemoryError"]
    if any(str(kind.__module__).startswith("torch") for kind in kinds):
        return True
    # As torch before 1.13 raises it, and who wraps it in an error of another class.
    return is_device_oom(error) and "Tried to allocate" in _message(error)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "<its text could not be had>"
