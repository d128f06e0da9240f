"""The stretches that a program annotated itself: torch.profiler.record_function, the hooks of optimizers."""

from __future__ import annotations

from ..model.snapshot import Annotation

_MOST = 10_000


def read_annotations(rows: object) -> tuple[Annotation, ...]:
    """`external_annotations` of a snapshot, START and END joined; what is not understood is left out.

    A stretch that never ended lasts to the end of the recording (`end_us` None).
    """
    if not isinstance(rows, list):
        return ()
    open_: dict[tuple[str, int], list[int]] = {}
    found: list[Annotation] = []
    for row in rows[: 2 * _MOST]:
        if not isinstance(row, dict):
            continue
        name, device, time_us = row.get("name"), row.get("device"), row.get("time_us")
        if not isinstance(name, str) or not isinstance(device, int) or not isinstance(time_us, int) or time_us < 0:
            continue
        key = (name[:200], device)
        if row.get("stage") == "START":
            open_.setdefault(key, []).append(time_us)
        elif row.get("stage") == "END" and open_.get(key):
            found.append(Annotation(*key, open_[key].pop(), time_us))
    found += [Annotation(*key, begin, None) for key, begins in open_.items() for begin in begins]
    return tuple(sorted(found, key=lambda each: (each.begin_us, each.name)))
