"""The cards: who is on them, what mode they are in, whether there are as many as the command wants."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..language import _, begun, ngettext
from ..model.devices import DeviceReading, DeviceTraits
from ..model.units import MIB, format_bytes
from .finding import Finding, Level
from .setup import Setup
from .visible import visible_cards

_SMALL_BYTES = 512 * MIB
"""Less than this of a card held by others is a desktop or a monitor, and no news."""
_MOST_NAMED = 4


def check_cards(setup: Setup) -> Iterable[Finding]:
    """Each card that the command sees, then their number."""
    if not setup.cards.readings:
        why = setup.cards.why_none or _("no card is seen")
        level, do = Level.UNSEEN, ""
        if Path(setup.root / "dev/nvidia0").exists() or Path(setup.root / "proc/driver/nvidia").exists():
            do = _("There is a driver: give the container its tools (NVIDIA_DRIVER_CAPABILITIES=compute,utility)")
        yield Finding("card", level, _("The cards: who is on them, how much of them is free"), why, do)
        return
    visible = visible_cards(setup)
    shown = visible.cards if visible.known else setup.cards.readings
    traits = {each.index: each for each in setup.cards.traits}
    for card in shown:
        yield _occupied(setup, card)
        if card.index in traits:
            yield from _mode(card, traits[card.index])
    yield from _enough(setup, len(visible.cards) if visible.known else None)


def name_of(card: DeviceReading) -> str:
    """`card 0 (NVIDIA H100)`."""
    name = _("card {number}").format(number=card.index)
    return f"{name} ({card.name})" if card.name else name


def _occupied(setup: Setup, card: DeviceReading) -> Finding:
    name, where = name_of(card), "card.processes"
    if card.free_bytes is None or card.total_bytes is None:
        return Finding(where, Level.UNSEEN, _("How much of {name} is free").format(name=name), _("NVML does not tell"))
    reserved = card.reserved_by_driver_bytes or 0
    held = card.used_bytes if card.used_bytes is not None else card.total_bytes - card.free_bytes - reserved
    figures: dict[str, int | float | str | None] = {
        "card": card.index,
        "free_bytes": card.free_bytes,
        "total_bytes": card.total_bytes,
        "used_bytes": held,
    }
    room = _("{free} of {total} free").format(free=format_bytes(card.free_bytes), total=format_bytes(card.total_bytes))
    processes = [each for each in card.processes or () if each.used_bytes != 0]
    if held < _SMALL_BYTES:
        idle = "" if processes else _(", nobody on it") if card.processes is not None else ""
        return Finding(where, Level.FINE, f"{begun(name)}: {room}{idle}", figures=figures)
    named = [
        _("{program} (pid {pid}) {size}").format(program=_program(each.name), pid=each.pid, size=_held(each.used_bytes))
        for each in sorted(processes, key=lambda each: -(each.used_bytes or 0))[:_MOST_NAMED]
    ]
    more = _(" and {number} more").format(number=len(processes) - _MOST_NAMED) if len(processes) > _MOST_NAMED else ""
    sizes = [each.used_bytes for each in processes if each.used_bytes is not None]
    # What a missing table or an untold size leaves out is not nobody's.
    listed = sum(sizes) if card.processes is not None and len(sizes) == len(processes) else None
    figures["listed_bytes"] = listed
    who = _(": {names}{more}").format(names=_(", ").join(named), more=more) if named else ""
    why = _("On it{who}.").format(who=who) if named else _("No process is shown.")
    if listed is not None and held - listed >= _SMALL_BYTES:
        why += _(" {held} belong to nobody whom this process may see: another container or user.").format(
            held=format_bytes(held - listed)
        )
    foreign = [each for each in processes if each.pid is not None and not (setup.root / f"proc/{each.pid}").exists()]
    if foreign:
        why += _(" Process ids are the host's; this container has others.")
    do = _("Wait for them, take another card, or count with what is free")
    return Finding(
        where,
        Level.WARN,
        _("Others hold {held} of {name}, {room}").format(held=format_bytes(held), name=name, room=room),
        why,
        do,
        figures=figures,
    )


def _held(size: int | None) -> str:
    return format_bytes(size) if size is not None else _("of unknown size")


def _program(name: str | None) -> str:
    return Path(name.split(" ", 1)[0]).name[:40] if name else _("a process")


def _mode(card: DeviceReading, traits: DeviceTraits) -> Iterable[Finding]:
    name = name_of(card)
    if traits.compute_mode == "prohibited":
        yield Finding(
            "card.mode",
            Level.FAIL,
            _("{name} is in compute mode PROHIBITED").format(name=name),
            _("No process may use it for computing"),
            _("Set the default mode"),
            (f"sudo nvidia-smi -i {card.index} -c DEFAULT",),
        )
    elif traits.compute_mode == "exclusive":
        taken = [each for each in card.processes or () if each.kind != "G"]
        yield Finding(
            "card.mode",
            Level.FAIL if taken else Level.WARN,
            _("{name} is in an exclusive compute mode").format(name=name),
            _("One process may use it, and one is on it: the next is told that the card is busy or unavailable")
            if taken
            else _("One process may use it: a second one (a worker, a rank) is told that it is busy or unavailable"),
            _("Set the default mode, or wait until it is free"),
            (f"sudo nvidia-smi -i {card.index} -c DEFAULT",),
        )
    if traits.uncorrected_errors:
        yield Finding(
            "card.ecc",
            Level.WARN,
            ngettext(
                "{name} has {number} uncorrected memory error",
                "{name} has {number} uncorrected memory errors",
                traits.uncorrected_errors,
            ).format(name=name, number=f"{traits.uncorrected_errors:,}"),
            _("Since the driver was loaded; a run may end with an ECC error instead of a result"),
            _("Reset or replace the card"),
        )
    yield from _mig(card, traits)


def _mig(card: DeviceReading, traits: DeviceTraits) -> Iterable[Finding]:
    if not card.mig_mode:
        return
    name, check = name_of(card), "card.mig"
    if traits.instances is None:
        yield Finding(
            check,
            Level.UNSEEN,
            _("How large the MIG instances of {name} are").format(name=name),
            _("NVML does not list them here"),
        )
    elif not traits.instances:
        why = _("Programs see no card then: CUDA_ERROR_NO_DEVICE")
        yield Finding(
            check,
            Level.FAIL,
            _("{name} has MIG on and no instance").format(name=name),
            why,
            _("Make an instance, or turn MIG off"),
        )
    else:
        sizes = ", ".join(format_bytes(each.total_bytes) for each in traits.instances if each.total_bytes is not None)
        yield Finding(
            check,
            Level.WARN,
            _("{name} is divided by MIG into {instances}: {sizes}").format(
                name=name, instances=len(traits.instances), sizes=sizes or _("sizes not shown")
            ),
            _("A process sees one instance, with its memory only"),
            _("Count with the instance, not with the card"),
        )


def _enough(setup: Setup, visible: int | None) -> Iterable[Finding]:
    wanted = setup.command.cards
    if wanted is None or wanted < 2 or setup.command.container:
        return
    if visible is None:
        yield Finding(
            "card.count",
            Level.UNSEEN,
            _("Whether {wanted} cards are visible").format(wanted=wanted),
            _("the cards are not known by number"),
        )
    elif wanted > visible:
        yield Finding(
            "card.count",
            Level.FAIL if setup.command.engine else Level.WARN,
            _("The command wants {wanted} cards and sees {visible}").format(wanted=wanted, visible=visible),
            _("A rank beyond the last card fails with 'invalid device ordinal', unless two share one on purpose"),
            _("Ask for as many as there are, or show more"),
            figures={"wanted": wanted, "visible": visible},
        )
    else:
        yield Finding(
            "card.count", Level.FINE, _("{visible} cards for {wanted} processes").format(visible=visible, wanted=wanted)
        )
