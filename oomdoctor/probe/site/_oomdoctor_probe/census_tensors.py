"""Reads the memory behind a tensor without running anything of the user's and without work on a device.

Only the getters of torch's own base class are called, never an attribute of the object, and only on tensors whose
class leaves dispatch alone: a FakeTensor, a DTensor or another wrapper has no memory of its own, and the plain tensors
inside it are objects that the collector knows as well.
"""

from __future__ import annotations

from types import MemberDescriptorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Storage = tuple[int, int, int]
    """Device, address, bytes."""

    Look = tuple[tuple[int, ...], str]
    """Shape and dtype of a tensor."""


def derives(kind: type, base: type) -> bool:
    """Whether a class derives from another, by identity: no metaclass of the user's is asked."""
    return any(one is base for one in mro(kind))


def mro(kind: type) -> tuple[type, ...]:
    """The class and its bases; no metaclass is asked."""
    found: tuple[type, ...] = _MRO.__get__(kind)
    return found


_MRO: Any = vars(type)["__mro__"]


class Reader:
    """The getters of one torch."""

    def __init__(self, torch: Any, device_type: str = "cuda") -> None:
        base = getattr(torch._C, "TensorBase", None) or torch._C._TensorBase
        self.tensor: type = torch.Tensor
        self.device_type = device_type
        self._device = base.device
        self._shape = base.shape
        self._dtype = base.dtype
        self._grad = base.grad
        self._grad_fn = base.grad_fn
        self._is_leaf = base.is_leaf
        self._retains_grad = getattr(base, "retains_grad", None)
        # Before 2.0 there is the typed storage only, which is a method of the Python class.
        self._untyped = getattr(base, "untyped_storage", None)
        self._typed = torch.Tensor.storage
        # A lazy copy becomes a genuine one when its address is asked for.
        self._is_lazy_copy = getattr(torch._C, "_is_cow_tensor", None)
        self._no_dispatch = getattr(torch._C, "_disabled_torch_dispatch_impl", None)
        self._plain: dict[int, bool] = {}
        self._known: dict[int, Storage] = {}

    def is_tensor(self, held: object) -> bool:
        """Whether it is a tensor, of whatever class."""
        return derives(type(held), self.tensor)

    def is_plain(self, held: object) -> bool:
        """Whether it is a tensor that has memory itself."""
        kind = type(held)
        known = self._plain.get(id(kind))
        if known is None:
            known = self._plain[id(kind)] = derives(kind, self.tensor) and not self._dispatches(kind)
        return known

    def _dispatches(self, kind: type) -> bool:
        for one in mro(kind):
            own = class_attributes(one).get("__torch_dispatch__")
            if own is not None:
                return own is not self._no_dispatch
        return False

    def storage(self, held: Any) -> Storage | None:
        """Where on a device a tensor's memory is, all of it: what a view shows is part of it."""
        if not self.is_plain(held):
            return None
        try:
            device = self._device.__get__(held)
            if device.type != self.device_type or self._is_lazy_copy is not None and self._is_lazy_copy(held):
                return None
            storage = self._untyped(held) if self._untyped is not None else self._typed(held)
            size = int(storage.nbytes())
            return (device.index or 0, int(storage.data_ptr()), size) if size else None
        except Exception:
            # Sparse tensors, functorch's wrappers: nothing behind them that has an address.
            return None

    def storages(self, held: object) -> Iterator[Storage]:
        """All memory of a tensor; that of a wrapper is its plain tensors'."""
        for _, found in self.pieces(held):
            yield found

    def remember(self, held: object) -> bool:
        """Whether a tensor has memory. One that is kept until the census ends is looked at once: many ask for it.

        Only figures are kept: who looks for the holders of a tensor would find a reference to it here.
        """
        found = self.storage(held)
        if found is not None:
            self._known[id(held)] = found
        return found is not None or next(iter(self.pieces(held)), None) is not None

    def pieces(self, held: object) -> Iterator[tuple[object, Storage]]:
        """The tensor, or the plain tensors of a wrapper, each with its memory."""
        found = self._known.get(id(held)) or self.storage(held)
        if found is not None:
            yield held, found
        elif self.is_tensor(held) and not self.is_plain(held):
            # DTensor keeps the plain one in a slot, others in an attribute.
            for inner in [*attributes(held).values(), *slots(held).values()]:
                found = self.storage(inner)
                if found is not None:
                    yield inner, found

    def shape(self, held: Any) -> tuple[int, ...] | None:
        """The sizes of a plain tensor."""
        try:
            return tuple(int(size) for size in self._shape.__get__(held)) if self.is_plain(held) else None
        except Exception:
            return None

    def look(self, held: Any) -> Look:
        """Shape and dtype; empty where there is none to be had."""
        try:
            return self.shape(held) or (), str(self._dtype.__get__(held)).rpartition(".")[2]
        except Exception:
            return (), ""

    def gradient(self, held: object) -> object | None:
        """`.grad`, where asking for it gives no warning."""
        if not self.is_tensor(held):
            return None
        try:
            if self._is_leaf.__get__(held) or self._retains_grad and self._retains_grad.__get__(held):
                gradient: object | None = self._grad.__get__(held)
                return gradient
        except Exception:
            pass
        return None

    def node(self, held: object) -> Any:
        """`.grad_fn`: the last node of the graph that a tensor came from."""
        if not self.is_tensor(held):
            return None
        try:
            return None if self._is_leaf.__get__(held) else self._grad_fn.__get__(held)
        except Exception:
            # A view whose base was changed in a way that autograd does not allow.
            return None


def attributes(held: object) -> dict[str, object]:
    """An object's own attributes; no property is run."""
    try:
        space = object.__getattribute__(held, "__dict__")
    except Exception:
        return {}
    return dict(space) if type(space) is dict else {}


def slots(held: object) -> dict[str, object]:
    """What an object has in the slots of its classes, under the names that the code uses; no property is run.

    Of classes written in C nothing is read: what a member of theirs points to may not be there.
    """
    found: dict[str, object] = {}
    for of in mro(type(held)):
        space = class_attributes(of)
        for name, member in space.items() if "__slots__" in space else ():
            if type(member) is MemberDescriptorType and not name.startswith("__"):
                try:
                    found[_as_written(name, of)] = member.__get__(held)
                except AttributeError:
                    pass  # not set
    return found


def _as_written(name: str, of: type) -> str:
    """`_Net__cache` is `__cache` in the code of Net."""
    private = "_%s__" % type.__getattribute__(of, "__name__").lstrip("_")
    return name[len(private) - 2 :] if name.startswith(private) else name


def class_attributes(of: type) -> dict[str, Any]:
    """What a class itself defines; no metaclass is asked."""
    return dict(type.__getattribute__(of, "__dict__"))
