"""Who has claimed which memory. The first claim on a piece of memory stands, so that everything is counted once."""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .census_owners import Owner
    from .census_tensors import Storage

    Blocks = dict[int, dict[int, int]]
    """Device → address of each block in use → its size."""

_MOST_GROUPS = 60
_MOST_ADDRESSES = 4096
_MOST_PARTS = 6
_ROUNDING = 512


class Tally:
    """Claims on the allocator's blocks; without a snapshot, on storages."""

    def __init__(self, blocks: Blocks | None) -> None:
        self._blocks = blocks
        self._starts = {device: sorted(known) for device, known in (blocks or {}).items()}
        self._claims: dict[tuple[int, int], tuple[int, str, Owner]] = {}
        self._outside: dict[tuple[int, int], int] = {}

    def _place(self, storage: Storage) -> tuple[int, int] | None:
        """The block that a storage lies in, as (address, size); None where the allocator knows of none."""
        device, address, size = storage
        if self._blocks is None:
            return address, -(-size // _ROUNDING) * _ROUNDING
        known = self._blocks.get(device, {})
        exact = known.get(address)
        if exact is not None:
            return address, exact
        starts = self._starts.get(device, [])
        position = bisect_right(starts, address) - 1
        if position >= 0 and address < starts[position] + known[starts[position]]:
            return starts[position], known[starts[position]]
        return None

    def size(self, storage: Storage) -> int:
        """Bytes that count for a storage."""
        place = self._place(storage)
        return place[1] if place is not None else 0

    def claim(self, storage: Storage, category: str, owner: Owner) -> bool:
        """Count a storage as its owner's, unless it is claimed already."""
        place = self._place(storage)
        if place is None:
            # Of another process, another allocator, or freed meanwhile.
            self._outside[storage[:2]] = storage[2]
            return False
        key = storage[0], place[0]
        if key in self._claims:
            return False
        self._claims[key] = (place[1], category, owner)
        return True

    def is_claimed(self, storage: Storage) -> bool:
        """Whether somebody has claimed it, or it cannot be claimed."""
        place = self._place(storage)
        return place is None or (storage[0], place[0]) in self._claims

    def groups(self) -> list[dict[str, object]]:
        """Owners, largest first; what is beyond the first sixty is summed up, so that all adds up."""
        sums: dict[tuple[int, str, int], list[int]] = {}
        owners: dict[int, Owner] = {}
        for (device, _), (size, category, owner) in self._claims.items():
            owners[id(owner)] = owner
            group = sums.setdefault((device, category, id(owner)), [0, 0])
            group[0] += size
            group[1] += 1
        ordered = sorted(sums.items(), key=lambda item: -item[1][0])
        rows: list[dict[str, object]] = []
        for (device, category, identity), (size, count) in ordered[:_MOST_GROUPS]:
            owner = owners[identity]
            line, adds = owner.place()
            parts = sorted(owner.parts.items(), key=lambda item: -item[1])[:_MOST_PARTS]
            rows.append(
                {
                    "device": device,
                    "category": category,
                    "owner": owner.text,
                    "file": owner.file,
                    "line": line,
                    "function": owner.function,
                    "bytes": size,
                    "count": count,
                    "length": owner.length,
                    "adds": adds,
                    "parts": [list(part) for part in parts] if category == "parameters" else [],
                }
            )
        rest: dict[tuple[int, str], list[int]] = {}
        for (device, category, _), (size, count) in ordered[_MOST_GROUPS:]:
            group = rest.setdefault((device, category), [0, 0, 0])
            group[0] += size
            group[1] += count
            group[2] += 1
        for (device, category), (size, count, number) in rest.items():
            rows.append(
                {
                    "device": device,
                    "category": category,
                    "owner": "%d others" % number,
                    "bytes": size,
                    "count": count,
                }
            )
        return rows

    def devices(self) -> list[dict[str, object]]:
        """For each device, what its allocator has in use and how much of it has an owner."""
        rows: list[dict[str, object]] = []
        for device in sorted({key[0] for key in self._claims} | set(self._blocks or ())):
            held = {key[1]: claim[0] for key, claim in self._claims.items() if key[0] == device}
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
                    "outside_bytes": sum(size for key, size in self._outside.items() if key[0] == device),
                }
            )
        return rows
