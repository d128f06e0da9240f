"""The driver numbers all cards of the machine; a process numbers those that it sees. One run gets one numbering."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..model.devices import DeviceReading
from ..model.run import ProcessRecord

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Numbered:
    """Readings of a run's devices. Where `known`, `seen` has the command's numbers; `hidden` has the driver's."""

    seen: tuple[DeviceReading, ...]
    hidden: tuple[DeviceReading, ...] = ()
    known: bool = True


def number_devices(
    readings: tuple[DeviceReading, ...], processes: Iterable[ProcessRecord], variables: Mapping[str, str]
) -> Numbered:
    """By what the processes recorded of their devices, else by the variables the command began with."""
    cards = {reading.index: reading.uuid for reading in readings}
    sliced = {reading.index for reading in readings if reading.mig_mode}
    told = [process for process in processes if process.devices]
    try:
        numbers = _as_told(cards, told) if told else _as_set(cards, variables, readings)
    except _Unknown:
        return Numbered(readings, known=False)
    if sliced and (numbers is None or sliced & numbers.keys()):
        # what a process sees of a divided card is a slice, which the driver counts as part of the card
        return Numbered(readings, known=False)
    if numbers is None:
        return Numbered(readings)
    return Numbered(
        tuple(replace(reading, index=numbers[reading.index]) for reading in readings if reading.index in numbers),
        tuple(reading for reading in readings if reading.index not in numbers),
    )


class _Unknown(Exception):
    """Nothing says how the command numbers the devices, or its processes differ."""


def _as_told(cards: Mapping[int, str | None], processes: Sequence[ProcessRecord]) -> dict[int, int] | None:
    """The driver's number → the processes' own; None: they are the same, as far as anybody can tell."""
    by_uuid = {_plain(uuid): index for index, uuid in cards.items() if uuid is not None}
    numbers: dict[int, int] = {}
    for process in processes:
        for device in process.devices:
            card = by_uuid.get(_plain(device.uuid)) if device.uuid is not None else None
            if card is None and (device.uuid is not None or len(process.devices) != len(cards)):
                raise _Unknown  # a slice of a card (MIG), or an old torch that sees some of them only
            if card is None:
                card = device.index
            if numbers.setdefault(card, device.index) != device.index:
                raise _Unknown
    if len(set(numbers.values())) != len(numbers):
        raise _Unknown
    return numbers or None


def _as_set(
    cards: Mapping[int, str | None], variables: Mapping[str, str], readings: Sequence[DeviceReading]
) -> dict[int, int] | None:
    wanted = next((variables[name] for name in _VISIBLE if name in variables), None)
    # By speed, unless told otherwise: cards that differ may stand in another order than the driver's.
    alike = len({(reading.name, reading.total_bytes) for reading in readings}) <= 1
    ordered = alike or variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if wanted is None:
        if not ordered:
            raise _Unknown
        return None
    places = {str(index): index for index in cards}
    numbers: dict[int, int] = {}
    for place, word in enumerate(part.strip() for part in wanted.split(",")):
        is_number = word.isascii() and word.isdecimal()
        if is_number:
            if not ordered:
                raise _Unknown
            card = places.get(word.lstrip("0") or "0")
        elif word == "-1":
            card = None
        else:
            found = [index for index, uuid in cards.items() if word and _plain(uuid).startswith(_plain(word))]
            card = found[0] if len(found) == 1 else None
        if card is None and numbers and (is_number or word == "-1"):
            break  # CUDA shows the cards before the first number that is none
        if card is None or card in numbers:
            raise _Unknown
        numbers[card] = place
    return numbers


def _plain(uuid: str | None) -> str:
    """NVML says `GPU-e0e7…`, torch `e0e7…`."""
    return (uuid or "").strip().lower().removeprefix("gpu-")
