"""One pass over the objects that Python's collector knows: tensors, and what may say what they are for."""

from __future__ import annotations

from .census_clock import now
from .census_tensors import attributes, derives
from .tracked import all_but_tuples

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from .census_tensors import Reader

_NOTHING, _TENSOR, _MODULE, _OPTIMIZER, _LOADER, _TRACEBACK, _SUSPENDED, _FUNCTION = range(8)
_CLASSES = (("nn.Module", _MODULE), ("optim.Optimizer", _OPTIMIZER), ("utils.data.DataLoader", _LOADER))
_AT_ONCE = 50000
_SUSPENDED_KINDS = ("generator", "coroutine", "async_generator")


class Objects:
    """What was found. It must be dropped when the census ends: it keeps all of it alive."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.modules: list[Any] = []
        self.optimizers: list[Any] = []
        self.loaders: list[Any] = []
        self.tracebacks: list[TracebackType] = []
        self.suspended: list[Any] = []
        self.unpack_hooks = False
        """A function is alive that may unpack what autograd saved."""
        self.seen = 0
        self.complete = True
        self.bases: list[tuple[type, int]] = []
        """The classes of torch that are looked for."""

    def add_reached(self, reached: list[Any]) -> None:
        """Take in what was reached in another way and the pass has not met."""
        lists = {_TENSOR: self.tensors, _MODULE: self.modules, _OPTIMIZER: self.optimizers, _LOADER: self.loaders}
        known = {id(held) for kind in lists.values() for held in kind}
        codes: dict[int, int] = {}
        for held in reached:
            of = type(held)
            code = codes.get(id(of))
            if code is None:
                code = codes[id(of)] = _classify(of, self.bases)
            if code in lists and id(held) not in known:
                lists[code].append(held)


def collect(torch: Any, reader: Reader, deadline: float) -> Objects:
    """Sort all objects by what their class says. Nothing but their class is looked at."""
    found = Objects()
    lists: dict[int, list[Any]] = {
        _TENSOR: found.tensors,
        _MODULE: found.modules,
        _OPTIMIZER: found.optimizers,
        _LOADER: found.loaders,
        _TRACEBACK: found.tracebacks,
        _SUSPENDED: found.suspended,
    }
    bases = found.bases = [(reader.tensor, _TENSOR)]
    for path, code in _CLASSES:
        base: Any = torch
        for name in path.split("."):
            base = vars(base).get(name) if base is not None else None
        if base is not None:
            bases.append((base, code))
    # By the identity of the class: its hash may be the user's code.
    codes: dict[int, int] = {}
    wanted: set[int] = set()
    objects = all_but_tuples()
    for start in range(0, len(objects), _AT_ONCE):
        if start and now() > deadline:
            found.complete = False
            found.seen = start
            return found
        # Millions of objects, few of which matter: what can be is left to functions in C.
        part = objects[start : start + _AT_ONCE]
        kinds = list(map(id, map(type, part)))
        if set(kinds) - codes.keys():
            for number, kind in dict(zip(kinds, map(type, part))).items():  # noqa: B905 (Python 3.10)
                if number not in codes:
                    codes[number] = _classify(kind, bases)
            wanted = {number for number, code in codes.items() if code}
        for held in [held for held in part if id(type(held)) in wanted]:
            code = codes[id(type(held))]
            if code == _FUNCTION:
                found.unpack_hooks = found.unpack_hooks or _may_unpack(held)
            else:
                lists[code].append(held)
    found.seen = len(objects)
    return found


def _classify(kind: type, bases: list[tuple[type, int]]) -> int:
    for base, code in bases:
        if derives(kind, base):
            return code
    name = type.__getattribute__(kind, "__name__")
    if name == "traceback":
        return _TRACEBACK
    if name in _SUSPENDED_KINDS:
        return _SUSPENDED
    return _FUNCTION if name == "function" else _NOTHING


def _may_unpack(function: Any) -> bool:
    """Whether a function looks like one that was given to `saved_tensors_hooks`: those are nearly always closures."""
    name: str = function.__qualname__
    return "unpack" in name and "<locals>" in name


def module_children(module: object) -> dict[str, object]:
    """The modules that a module holds, by name."""
    children = attributes(module).get("_modules")
    return dict(children) if isinstance(children, dict) else {}


def own_tensors(module: object, which: str) -> dict[str, object]:
    """The module's own `_parameters` or `_buffers`."""
    own = attributes(module).get(which)
    return {name: held for name, held in own.items() if held is not None} if isinstance(own, dict) else {}
