"""Which cards the command will see, as CUDA reads CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..language import _, ngettext, pgettext
from ..model.devices import DeviceReading
from ..model.printable import one_line
from .finding import Finding, Level
from .setup import Setup

VARIABLE = "CUDA_VISIBLE_DEVICES"
_MOST_SHOWN = 60
_ORDERS = ("FASTEST_FIRST", "PCI_BUS_ID")


@dataclass(frozen=True)
class Visible:
    """The cards that the command sees; where `known` is False, nobody can say which."""

    cards: tuple[DeviceReading, ...]
    known: bool = True
    instance: str | None = None
    """The MIG instance that it sees instead of a card."""


def visible_cards(setup: Setup) -> Visible:
    """The cards in the order of the variable; CUDA stops at the first entry that it cannot find."""
    readings = setup.cards.readings
    wanted = setup.variables.get(VARIABLE)
    if wanted is None:
        return Visible(readings)
    found: list[DeviceReading] = []
    for word in _words(wanted):
        if word.startswith("MIG-"):
            return Visible((), known=False, instance=word)
        card = _card(word, readings)
        if card is None:
            break
        if card in found:
            return Visible(())  # one card twice: CUDA sees none
        found.append(card)
    by_place = any(word.lstrip("+-").isdigit() for word in _words(wanted))
    return Visible(tuple(found), known=not (by_place and _order_unknown(setup)))


def check_visible(setup: Setup) -> Iterable[Finding]:
    """Whether the variable names cards that are there."""
    yield from _order(setup)
    wanted = setup.variables.get(VARIABLE)
    if wanted is None:
        return
    shown = f"{VARIABLE}={one_line(wanted, _MOST_SHOWN)}"
    words = _words(wanted)
    if not words or words[0] in ("-1", "NoDevFiles", "void"):
        level = Level.FAIL if setup.command.engine not in (None, "llama.cpp") else Level.WARN
        yield Finding(
            "card.visible",
            level,
            _("{shown} hides every card").format(shown=shown),
            _("Programs then run on the CPU or say that there is none"),
            _("Leave the variable away, or name a card"),
            (f"export {VARIABLE}=0",),
        )
        return
    if not setup.cards.readings:
        yield Finding(
            "card.visible",
            Level.UNSEEN,
            _("Whether {shown} names cards that are there").format(shown=shown),
            setup.cards.why_none or _("no card is seen"),
        )
        return
    yield _judged(setup, words, shown)


def _judged(setup: Setup, words: list[str], shown: str) -> Finding:
    readings = setup.cards.readings
    there = ngettext(
        "the driver has {number} card, 0", "the driver has {number} cards, from 0 to {last}", len(readings)
    ).format(number=len(readings), last=len(readings) - 1)
    if any(word.startswith("MIG-") for word in words):
        return _of_instances(setup, words, shown)
    seen: list[DeviceReading] = []
    for place, word in enumerate(words):
        card = _card(word, readings)
        if card is None:
            left = (
                _("so no card is visible")
                if place == 0
                else _("so only the first {place} of {words} are visible").format(place=place, words=len(words))
            )
            why = _("CUDA stops at the first entry that it cannot find, {left}; {there}").format(left=left, there=there)
            level = Level.FAIL if place == 0 else Level.WARN
            return Finding(
                "card.visible",
                level,
                _("{shown} names {word}, which is not there").format(
                    shown=shown, word=word or pgettext("value", "nothing")
                ),
                why,
                _("Name cards that are there"),
                _lines(readings, len(words)),
            )
        if card in seen:
            why = _("CUDA then shows no card at all")
            return Finding(
                "card.visible",
                Level.FAIL,
                _("{shown} names one card twice").format(shown=shown),
                why,
                _("Name each once"),
            )
        seen.append(card)
    return Finding("card.visible", Level.FINE, _("{shown}: all of them are there").format(shown=shown))


def _of_instances(setup: Setup, words: list[str], shown: str) -> Finding:
    known = [each.uuid for card in setup.cards.traits for each in card.instances or () if each.uuid]
    if len(words) > 1:
        why = _("A process sees one MIG instance at most; CUDA takes the first")
        return Finding(
            "card.visible", Level.WARN, _("{shown} names several entries with MIG among them").format(shown=shown), why
        )
    if any(card.instances is None for card in setup.cards.traits):
        return Finding(
            "card.visible",
            Level.UNSEEN,
            _("Whether {shown} is there").format(shown=shown),
            _("NVML does not list MIG instances here"),
        )
    if not any(uuid.startswith(words[0]) for uuid in known):
        lines = tuple(f"export {VARIABLE}={uuid}" for uuid in known[:4])
        return Finding(
            "card.visible",
            Level.FAIL,
            _("{shown} names a MIG instance that is not there").format(shown=shown),
            _("No card is visible then"),
            _("Name one that is there") if lines else "",
            lines,
        )
    return Finding("card.visible", Level.FINE, _("{shown}: the instance is there").format(shown=shown))


def _order(setup: Setup) -> Iterable[Finding]:
    order = setup.variables.get("CUDA_DEVICE_ORDER")
    if order is not None and order not in _ORDERS:
        yield Finding(
            "card.order",
            Level.WARN,
            _("CUDA_DEVICE_ORDER={order} is no order that CUDA knows").format(order=order),
            _("It is one of {orders}").format(orders=_(" and ").join(_ORDERS)),
            _("Write it so"),
            ("export CUDA_DEVICE_ORDER=PCI_BUS_ID",),
        )
    elif _order_unknown(setup):
        yield Finding(
            "card.order",
            Level.WARN,
            _("The cards differ, and CUDA_DEVICE_ORDER is not set"),
            _("CUDA counts the fastest card first, nvidia-smi by the bus: card 0 may be another one than it shows"),
            _("Count both alike"),
            ("export CUDA_DEVICE_ORDER=PCI_BUS_ID",),
        )


def _order_unknown(setup: Setup) -> bool:
    """Whether CUDA may count the cards in another order than the driver."""
    kinds = {(card.name, card.total_bytes) for card in setup.cards.readings}
    return len(kinds) > 1 and setup.variables.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"


def _words(wanted: str) -> list[str]:
    words = [word.strip() for word in wanted.split(",")]
    return words if any(words) else []


def _card(word: str, readings: tuple[DeviceReading, ...]) -> DeviceReading | None:
    if re.fullmatch(r"[0-9]{1,4}", word):
        return next((card for card in readings if card.index == int(word)), None)
    if not word.startswith("GPU-"):
        return None
    found = [card for card in readings if card.uuid is not None and card.uuid.lower().startswith(word.lower())]
    return found[0] if len(found) == 1 else None


def _lines(readings: tuple[DeviceReading, ...], wanted: int) -> tuple[str, ...]:
    return (f"export {VARIABLE}={','.join(str(card.index) for card in readings[:wanted])}",)
