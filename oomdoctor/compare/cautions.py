"""In what two or more places are so unlike that their figures mean different things."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..language import _
from ..model.units import GIB, format_bytes
from .places import Place, Side

_APART = 0.05
"""What one card leaves a process differs less: contexts and libraries grow by some hundred MiB."""


def cautions_of(compared: Sequence[tuple[Side, Place]]) -> tuple[str, ...]:
    """Sentences about places of devices that are set beside one another; none where they are alike.

    Compared are the cards (or, where their sizes are not known, what each process could have in all), the kinds of
    device, the versions of torch (or, where they are not known, the forms of the snapshots) and the moments.
    """
    found = [(side, place) for side, place in compared if place.is_device]
    if len(found) < 2:
        return ()
    places = [place for _side, place in found]
    return tuple(each for each in (_cards(places), _kinds(places), _versions(found), _moments(places)) if each)


def _cards(places: Sequence[Place]) -> str:
    known = [place.total_bytes for place in places if place.total_bytes is not None]
    if len(known) == len(places):
        if len(set(known)) == 1:
            return ""
        said = _("The cards are unlike ({sizes}): what is free and what fits do not compare.")
        return said.format(sizes=_sizes(known))
    room = [place.reach_bytes for place in places if place.reach_bytes is not None]
    if len(room) < 2 or max(room) - min(room) <= max(_APART * max(room), GIB):
        return ""
    said = _(
        "What each process could have in all is unlike ({sizes}): other cards, or somebody else on one of them; what is"
        " free and what fits do not compare."
    )
    return said.format(sizes=_sizes(room))


def _kinds(places: Sequence[Place]) -> str:
    kinds = list(dict.fromkeys(place.where.split(":")[0] for place in places))
    if len(kinds) == 1:
        return ""
    said = _("The devices are of unlike kinds ({kinds}): each has an allocator of its own, with its own rounding.")
    return said.format(kinds=", ".join(kinds))


def _versions(found: Sequence[tuple[Side, Place]]) -> str:
    by_alone = _("sizes of blocks and segments, and stacks, may differ by that alone.")
    known = [side.settings.get("version", {}).get("torch") for side, _place in found]
    if None not in known:
        versions = list(dict.fromkeys(filter(None, known)))
        said = _("The versions of torch are unlike ({versions}): {what}")
        return said.format(versions=", ".join(versions), what=by_alone) if len(versions) > 1 else ""
    forms = list(dict.fromkeys(place.form for _side, place in found if place.form))
    said = _("The snapshots are of unlike forms, as unlike versions of torch write them: {what}")
    return said.format(what=by_alone) if len(forms) > 1 else ""


def _moments(places: Sequence[Place]) -> str:
    if len({place.has_failed for place in places}) == 1:
        return ""
    return _("The moments are unlike: one is a failure, another is not; what a step holds for a while is in one only.")


def _sizes(sizes: Iterable[int]) -> str:
    return ", ".join(dict.fromkeys(map(format_bytes, sizes)))
