"""Shares of a card that the command asks for, against what is free of it now."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ..estimate.engines import ENGINES
from ..knobs.versions import within
from ..language import _
from ..model.devices import DeviceReading
from ..model.units import format_bytes
from .cards import name_of
from .finding import Finding, Level
from .setup import Setup
from .visible import visible_cards
from .words import script_tree

_FLAGS = {"vllm": "gpu-memory-utilization", "sglang": "mem-fraction-static", "tgi": "cuda-memory-fraction"}
_CAP = "per_process_memory_fraction"
_FIRST_WITH_LARGER_SHARE = "0.20"


def check_shares(setup: Setup) -> Iterable[Finding]:
    """The engine's share, then a cap of the allocator in the environment or the script."""
    visible = visible_cards(setup)
    cards = [card for card in visible.cards if card.total_bytes is not None and card.free_bytes is not None]
    engine = setup.command.engine
    if engine in _FLAGS:
        yield from _engine(setup, engine, cards)
    for fraction, where in _caps(setup):
        yield from _cap(fraction, where, cards)


def share_of(setup: Setup) -> tuple[float | None, str]:
    """What the engine of the command takes of a card, and where that is said; None: not readable."""
    engine = setup.command.engine or ""
    flag = _FLAGS.get(engine)
    given = setup.command.options.get(flag) if flag else None
    if given is not None:
        return _number(given), f"--{flag} {given}"
    if engine != "vllm":
        return None, ""
    version = setup.interpreter.versions.get("vllm")
    old = version is not None and not within(version, _FIRST_WITH_LARGER_SHARE, None)
    share = 0.9 if old else ENGINES["vllm"].fraction
    return share, _("vLLM's default of {share}").format(share=f"{share:g}")


def _engine(setup: Setup, engine: str, cards: list[DeviceReading]) -> Iterable[Finding]:
    share, said = share_of(setup)
    if share is None:
        if said:
            yield Finding(
                "card.share",
                Level.FAIL,
                _("{said} is not a number").format(said=said),
                _("It is a share of the card, such as 0.85"),
            )
        return
    if not 0 < share <= 1:
        why = _("It is a share of the whole card, above 0 and at most 1; bytes and percent are not taken")
        yield Finding("card.share", Level.FAIL, _("{said} is no share of a card").format(said=said), why)
        return
    if setup.command.container:
        return  # its engine's version and its cards are the container's
    if not cards:
        yield Finding(
            "card.share",
            Level.UNSEEN,
            _("Whether what {said} asks for is free").format(said=said),
            _("No card is seen"),
        )
        return
    for card in cards[: setup.command.cards or 1]:
        yield _against(engine, share, said, card)


def _against(engine: str, share: float, said: str, card: DeviceReading) -> Finding:
    total, free = _seen_by_cuda(card)
    wanted = int(share * total)
    figures = {"share": share, "wanted_bytes": wanted, "free_bytes": free, "total_bytes": total, "card": card.index}
    asked = _("{said} of {name} is {wanted}").format(said=said, name=name_of(card), wanted=format_bytes(wanted))
    if wanted <= free:
        return Finding(
            "card.share",
            Level.FINE,
            _("{asked}; {free} are free").format(asked=asked, free=format_bytes(free)),
            figures=figures,
        )
    largest = int(100 * free / total) / 100
    if engine == "vllm":
        why = _("vLLM counts the share of the whole card, not of what is free, and does not start with less free")
        lines = (f"--gpu-memory-utilization {largest:.2f}",) if largest > 0 else ()
        do = _("Free the card, or ask for less") if lines else _("Free the card")
        return Finding(
            "card.share",
            Level.FAIL,
            _("{asked}, and {free} are free").format(asked=asked, free=format_bytes(free)),
            why,
            do,
            lines,
            figures,
        )
    why = _("The share is meant for a card that nobody else uses; what others hold is missing from it")
    return Finding(
        "card.share",
        Level.WARN,
        _("{asked}, and {free} are free").format(asked=asked, free=format_bytes(free)),
        why,
        _("Free the card, or ask for less"),
        figures=figures,
    )


def _seen_by_cuda(card: DeviceReading) -> tuple[int, int]:
    """Total and free bytes as a program sees them: the driver's reserve is not among them."""
    return (card.total_bytes or 0) - (card.reserved_by_driver_bytes or 0), card.free_bytes or 0


def _caps(setup: Setup) -> Iterator[tuple[float, str]]:
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        for part in setup.variables.get(name, "").split(","):
            key, _colon, value = part.strip().partition(":")
            number = _number(value) if key == _CAP else None
            if number is not None:
                yield number, f"{name} ({_CAP}:{value})"
    tree = script_tree(setup)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == f"set_{_CAP}":
            given = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "fraction")]
            share = given[0].value if given and isinstance(given[0], ast.Constant) else None
            if isinstance(share, int | float) and not isinstance(share, bool):
                call = f"set_{_CAP}({share})"
                yield (
                    float(share),
                    _("{call} in {place}").format(call=call, place=f"{setup.command.script}:{node.lineno}"),
                )


def _cap(fraction: float, where: str, cards: list[DeviceReading]) -> Iterable[Finding]:
    if not 0 <= fraction <= 1:
        yield Finding(
            "card.cap",
            Level.FAIL,
            _("{where} is no share of a card").format(where=where),
            _("torch takes a number from 0 to 1"),
        )
        return
    if not cards:
        yield Finding("card.cap", Level.UNSEEN, _("What {where} leaves").format(where=where), _("No card is seen"))
    for card in cards[:1]:
        total, free = _seen_by_cuda(card)
        cap = int(fraction * total)
        figures = {"share": fraction, "cap_bytes": cap, "free_bytes": free, "card": card.index}
        said = _("{where} caps a process at {cap} of {name}").format(
            where=where, cap=format_bytes(cap), name=name_of(card)
        )
        if cap <= free:
            yield Finding("card.cap", Level.FINE, said, figures=figures)
        else:
            why = _("It is a share of the whole card, and {free} are free: memory ends before the cap does").format(
                free=format_bytes(free)
            )
            yield Finding("card.cap", Level.WARN, said, why, _("Free the card"), figures=figures)


def cap_bytes(setup: Setup, card: DeviceReading) -> int | None:
    """The smallest cap of a process on a card; None: there is none that can be seen."""
    total, _free = _seen_by_cuda(card)
    return min((int(fraction * total) for fraction, _where in _caps(setup) if 0 <= fraction <= 1), default=None)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number == number else None
