"""What a training keeps from step to step: parameters, buffers, gradients, and the state of optimizers."""

from __future__ import annotations

from .census_caches import is_cache_class, is_called_cache
from .census_objects import module_children, own_tensors
from .census_owners import Owner
from .census_tensors import attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .census_claims import Claims
    from .census_objects import Objects
    from .census_owners import Owners

_DEEPEST = 60


def claim(objects: Objects, owners: Owners, claims: Claims) -> None:
    """Claim them all, parameters first."""
    named: dict[int, Owner] = {}
    gradients: list[tuple[Any, Owner]] = []
    for root in roots(objects.modules):
        found = owners.of(root)
        kind = type(root).__name__
        if found is None:
            owner = Owner("a %s that no variable holds" % kind)
        elif found.length is not None:
            owner = _like(found, "modules in %s" % found.text)
        else:
            owner = _like(found, "%s %s" % (kind, found.text))
        owner = named.setdefault(hash((owner.text, owner.file)), owner)
        _claim_module(root, owner, gradients, claims)
    for optimizer in objects.optimizers:
        _claim_optimizer(optimizer, owners, gradients, claims)
    by_owner: dict[int, Owner] = {}
    for parameter, owner in gradients:
        gradient = claims.reader.gradient(parameter)
        if gradient is None:
            gradient = attributes(parameter).get("main_grad")
        if gradient is None:
            continue
        of = by_owner.get(id(owner))
        if of is None:
            of = by_owner[id(owner)] = _like(owner, "gradients of %s" % owner.text)
        claims.claim(gradient, "gradients", of)


def is_training(objects: Objects) -> bool | None:
    """Whether a model with parameters, which no other module holds, is in training mode; None where there is none."""
    found = None
    for root in roots(objects.modules):
        mode = attributes(root).get("training")
        if isinstance(mode, bool) and _has_parameters(root):
            if mode:
                return True
            found = False
    return found


def claim_other_gradients(tensors: list[Any], owners: Owners, claims: Claims) -> None:
    """Gradients of leaf tensors that no module holds."""
    for tensor in claims.while_there_is_time(tensors):
        gradient = claims.reader.gradient(tensor)
        if gradient is not None:
            found = owners.of(tensor)
            of = "gradients of %s" % found.text if found is not None else "gradients of tensors without a name"
            claims.claim(gradient, "gradients", _like(found, of))


def _like(owner: Owner | None, text: str) -> Owner:
    """The same place under another text; not a collection that grows."""
    made = Owner(text)
    if owner is not None:
        made.file, made.line, made.function = owner.file, owner.line, owner.function
    return made


def _has_parameters(root: Any) -> bool:
    stack, seen = [root], set()
    while stack:
        module = stack.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        if own_tensors(module, "_parameters"):
            return True
        stack += [child for child in module_children(module).values() if child is not None]
    return False


def roots(modules: list[Any]) -> list[Any]:
    """Modules that no other module holds, the one with the most below it first."""
    held = {id(child) for module in modules for child in module_children(module).values() if child is not module}
    return [module for module in modules if id(module) not in held]


def _claim_module(root: Any, owner: Owner, gradients: list[tuple[Any, Owner]], claims: Claims) -> None:
    stack: list[tuple[Any, str, int]] = [(root, "", 0)]
    seen: set[int] = set()
    while stack:
        module, path, depth = stack.pop()
        if id(module) in seen or depth > _DEEPEST:
            continue
        seen.add(id(module))
        for which, category in (("_parameters", "parameters"), ("_buffers", "buffers")):
            for name, held in own_tensors(module, which).items():
                part = (path or name).strip(".")
                if category == "buffers" and (is_called_cache(name) or is_cache_class(type(module))):
                    claims.claim(held, "kv", owner)
                    continue
                size = claims.claim(held, category, owner)
                if category == "parameters":
                    owner.parts[part] = owner.parts.get(part, 0) + size
                    gradients.append((held, owner))
        for name, child in module_children(module).items():
            if child is None:
                continue
            step = "[*]" if str(name).isdigit() else ".%s" % name
            # Two levels say enough: `model.layers[*]`, not each projection in it.
            stack.append((child, path + step if path.count(".") + path.count("[") < 2 else path, depth + 1))


def _claim_optimizer(optimizer: Any, owners: Owners, gradients: list[tuple[Any, Owner]], claims: Claims) -> None:
    space = attributes(optimizer)
    found = owners.of(optimizer)
    text = type(optimizer).__name__ if found is None else "%s %s" % (type(optimizer).__name__, found.text)
    owner = _like(found, text)
    groups = space.get("param_groups")
    for group in list(groups) if isinstance(groups, list) else ():
        for parameter in list(group.get("params", ())) if isinstance(group, dict) else ():
            # Parameters that no module holds; those of modules are claimed already.
            claims.claim(parameter, "parameters", _like(owner, "parameters given to %s" % text))
            gradients.append((parameter, owner))
    state = space.get("state")
    slots: dict[str, Owner] = {}
    for entry in list(dict.values(state)) if isinstance(state, dict) else ():
        for slot, held in list(entry.items()) if isinstance(entry, dict) else ():
            of = slots.setdefault(str(slot), _like(owner, "%s: %s" % (text, slot)))
            for one in held if type(held) in (list, tuple) else (held,):
                claims.claim(one, "optimizer", of)
