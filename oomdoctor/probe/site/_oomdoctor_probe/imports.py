"""Tells when a module has been imported, leaving no trace on the module and no frame in its tracebacks."""

from __future__ import annotations

import sys
from _frozen_importlib import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

_waiting: dict[str, Callable[[ModuleType], None]] = {}
_searching: set[str] = set()


class _WatchedSpec(ModuleSpec):
    """A module's genuine spec that notices the end of the import, then is an ordinary spec again.

    The import system sets `_initializing` to False when the module has run, whether that succeeded or not. Wrapping
    the loader instead would show in `__loader__` and put our frame into the traceback of an import that fails.
    """

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "_initializing" and not value:
            self.__class__ = ModuleSpec  # type: ignore[assignment]
            module = sys.modules.get(self.name)
            if module is not None:
                _fire(module, self.name)


# What repr() shows while the module is being imported.
_WatchedSpec.__name__ = ModuleSpec.__name__


class _Finder:
    """First on sys.meta_path: lets the others find the module, and watches the spec they return."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module somebody waits for; None for all others."""
        if name not in _waiting or name in _searching:
            return None
        _searching.add(name)
        try:
            for other in sys.meta_path:
                find = None if other is finder else getattr(other, "find_spec", None)
                spec: ModuleSpec | None = find(name, path, target) if find else None
                if spec is not None:
                    if type(spec) is ModuleSpec:
                        spec.__class__ = _WatchedSpec
                    return spec
        except Exception:
            # Whoever raised this will be asked again by the import system itself.
            pass
        finally:
            _searching.discard(name)
        return None


finder = _Finder()


def when_imported(name: str, action: Callable[[ModuleType], None]) -> None:
    """Call `action` once with the module, when it has been imported (now, if it has been). It must not raise."""
    _waiting[name] = action
    module = sys.modules.get(name)
    if module is not None:
        _fire(module, name)


def _fire(module: ModuleType, name: str) -> None:
    action = _waiting.pop(name, None)
    if action is not None:
        action(module)
