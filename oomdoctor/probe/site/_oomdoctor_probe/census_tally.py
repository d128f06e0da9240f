"""Who has claimed which memory. The first claim on a piece of memory stands, so that everything is counted once."""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .census_growth import Lengths
    from .census_owners import Owner
    from .census_tensors import Look, Storage

    Blocks = dict[int, dict[int, int]]
    """Device → address of each block in use → its size."""

_MOST_GROUPS = 60
_MOST_ADDRESSES = 4096
_MOST_PARTS = 6
_MOST_SAMPLED = 256
_MOST_SAMPLED_OF_ALL = 4096
_LONGEST_SHAPE = 16


class _Claim:
    """A block, and whose it is."""

    __slots__ = ("category", "elements", "look", "owner", "saved", "size")

    def __init__(self, size: int, category: str, owner: Owner, saved: bool) -> None:
        self.size = size
        self.category = category
        self.owner = owner
        self.saved = saved
        self.elements = 0
        self.look: Look = ((), "")

    def show(self, look: Look) -> None:
        """Of all tensors that lie in the block the largest is told: others are views of it."""
        elements = 1
        for size in look[0]:
            elements *= size
        if elements > self.elements:
            self.elements, self.look = elements, look


class Tally:
    """Claims on the allocator's blocks; without a snapshot, on storages."""

    def __init__(self, blocks: Blocks | None) -> None:
        self._blocks = blocks
        self._starts = {device: sorted(known) for device, known in (blocks or {}).items()}
        self._claims: dict[tuple[int, int], _Claim] = {}
        self._outside: dict[tuple[int, int], int] = {}

    def _place(self, storage: Storage) -> tuple[int, int] | None:
        """The block that a storage lies in, as (address, size); None where the allocator knows of none."""
        device, address, size = storage
        if self._blocks is None:
            return address, size
        known = self._blocks.get(device, {})
        exact = known.get(address)
        if exact is not None:
            return address, exact
        starts = self._starts.get(device, [])
        position = bisect_right(starts, address) - 1
        if position >= 0 and address < starts[position] + known[starts[position]]:
            return starts[position], known[starts[position]]
        return None

    def claim(self, storage: Storage, category: str, owner: Owner, look: Look, saved: bool = False) -> int:
        """Count a storage as its owner's, unless it is claimed already; the bytes that were not.

        `saved`: because autograd saved it.
        """
        place = self._place(storage)
        if place is None:
            # Of another process, another allocator, or freed meanwhile.
            self._outside[storage[:2]] = storage[2]
            return 0
        key = storage[0], place[0]
        known = self._claims.get(key)
        if known is not None:
            known.show(look)
            return 0
        made = self._claims[key] = _Claim(place[1], category, owner, saved)
        made.show(look)
        return place[1]

    def is_claimed(self, storage: Storage) -> bool:
        """Whether somebody has claimed it, or it cannot be claimed."""
        place = self._place(storage)
        return place is None or (storage[0], place[0]) in self._claims

    def groups(self, lengths: Lengths | None = None) -> list[dict[str, object]]:
        """Owners, largest first; what is beyond the first sixty is summed up, so that all adds up."""
        found: dict[tuple[int, str, int], list[tuple[int, _Claim]]] = {}
        for (device, address), claim in self._claims.items():
            found.setdefault((device, claim.category, id(claim.owner)), []).append((address, claim))
        ordered = sorted(found.items(), key=lambda item: -_bytes(item[1]))
        rows: list[dict[str, object]] = []
        owners = {id(claims[0][1].owner): claims[0][1].owner for _, claims in ordered[:_MOST_GROUPS]}
        earlier = {} if lengths is None else {number: lengths.earlier(owner) for number, owner in owners.items()}
        room = _MOST_SAMPLED_OF_ALL if self._blocks is not None else 0
        for (device, category, _), claims in ordered[:_MOST_GROUPS]:
            sampled = _spread([address for address, _ in claims], min(_MOST_SAMPLED, room))
            room -= len(sampled)
            rows.append(_row(device, category, claims, sampled, earlier.get(id(claims[0][1].owner))))
        rest: dict[tuple[int, str], list[list[tuple[int, _Claim]]]] = {}
        for (device, category, _), claims in ordered[_MOST_GROUPS:]:
            rest.setdefault((device, category), []).append(claims)
        for (device, category), groups in rest.items():
            rows.append(
                {
                    "device": device,
                    "category": category,
                    "owner": "%d others" % len(groups),
                    "bytes": sum([_bytes(claims) for claims in groups]),
                    "saved_bytes": sum([claim.size for claims in groups for _, claim in claims if claim.saved]),
                    "count": sum([len(claims) for claims in groups]),
                }
            )
        return rows

    def devices(self, vocabulary: list[int]) -> list[dict[str, object]]:
        """For each device, what its allocator has in use and how much of it has an owner."""
        rows: list[dict[str, object]] = []
        for device in sorted({key[0] for key in self._claims} | set(self._blocks or ())):
            held = {key[1]: claim.size for key, claim in self._claims.items() if key[0] == device}
            known = self._blocks.get(device) if self._blocks is not None else None
            unheld = sorted((item for item in (known or {}).items() if item[0] not in held), key=lambda item: -item[1])
            rows.append(
                {
                    "device": device,
                    "allocated_bytes": None if known is None else sum(known.values()),
                    "held_bytes": sum(held.values()),
                    "unheld_bytes": None if known is None else sum(size for _, size in unheld),
                    "unheld_count": None if known is None else len(unheld),
                    "unheld_addresses": [address for address, _ in unheld[:_MOST_ADDRESSES]],
                    "vocabulary": vocabulary,
                    "outside_bytes": sum(size for key, size in self._outside.items() if key[0] == device),
                }
            )
        return rows


def _row(
    device: int, category: str, claims: list[tuple[int, _Claim]], sampled: list[int], earlier: tuple[int, float] | None
) -> dict[str, object]:
    owner = claims[0][1].owner
    line, adds = owner.place()
    parts = sorted(owner.parts.items(), key=lambda item: -item[1])[:_MOST_PARTS]
    shape, dtype = max([claim for _, claim in claims], key=lambda claim: claim.size).look
    return {
        "device": device,
        "category": category,
        "owner": owner.text,
        "file": owner.file,
        "line": line,
        "function": owner.function,
        "bytes": _bytes(claims),
        "saved_bytes": sum([claim.size for _, claim in claims if claim.saved]),
        "count": len(claims),
        "length": owner.length,
        "earlier_length": earlier[0] if earlier is not None else None,
        "earlier_seconds": round(earlier[1], 3) if earlier is not None else None,
        "adds": adds,
        "of_a_step": owner.is_of_a_step,
        "by_name": owner.by_name,
        "by_error": owner.by_error,
        "parts": [list(part) for part in parts] if category == "parameters" else [],
        "largest_shape": list(shape[:_LONGEST_SHAPE]),
        "largest_dtype": dtype or None,
        "sample_addresses": sampled,
    }


def _bytes(claims: list[tuple[int, _Claim]]) -> int:
    return sum([claim.size for _, claim in claims])


def _spread(addresses: list[int], most: int) -> list[int]:
    """At most so many, evenly spread, the first and the last among them."""
    if len(addresses) <= most:
        return addresses
    if most < 2:
        return addresses[:most]
    return [addresses[number * (len(addresses) - 1) // (most - 1)] for number in range(most)]
