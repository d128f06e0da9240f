"""How torch reads PYTORCH_CUDA_ALLOC_CONF: into words, then option by option, as 2.13 and 2.14 were seen to do it.

What only a CUDA build parses (`pinned_…`, `release_lock_on_cudamalloc`, `backend` …) was asked of torch 2.14.1+cu130
and 2.9.1+cu128.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..language import N_

ALLOCATOR_VALUES = {
    "size of at least 20": N_("It is at least 20 (MiB), or large_segment_size_mb where that is set"),
    "size above 10": N_("It is above 10 (MiB)"),
    "share between 0 and 1": N_("It lies between 0 and 1, and is neither"),
    "power of 2": N_("It is a power of 2"),
    "power of 2 up to 128": N_("It is a power of 2, and at most 128"),
    "share from 0 to 1": N_("It lies between 0 and 1"),
    "size above 0": N_("It is above 0 (MiB)"),
    "size": N_("It is a whole number (MiB)"),
    "native or cudaMallocAsync": N_("It is native or cudaMallocAsync"),
    "True or False": N_("It is True or False, in this spelling"),
}
"""What an option of the allocator may demand of its value, in words."""

_WORDS = re.compile(r"[,:\[\]]|[^,:\[\]]+")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_SPLIT_MIB = 20
_MOST_THREADS = 128
_LARGEST = (1 << 64) - 1


@dataclass(frozen=True)
class AllocatorSetting:
    """One option with its value, as torch takes them out of the text."""

    key: str
    value: tuple[str, ...] | None
    """Its words, `[` and `]` among them; None where the text ends before a value, at which torch raises."""
    written: str
    separated: bool
    """Whether a colon stands before the value and a comma, or nothing, behind it: torch 2.13 takes anything there."""

    @property
    def text(self) -> str:
        """The value as it was written, without blanks."""
        return "".join(self.value or ())


def read_allocator_settings(text: str) -> tuple[AllocatorSetting, ...]:
    """The options in the order in which torch reads them. Blanks count nowhere; `0.8 x:1` is the option's `0.8x`."""
    words = _WORDS.findall("".join(text.split()))
    found, start = [], 0
    while start < len(words):
        first = last = start + 2
        if words[first : first + 1] == ["["]:
            last = next((place for place in range(first, len(words)) if words[place] == "]"), len(words))
        if last >= len(words):
            found.append(AllocatorSetting(words[start], None, "".join(words[start:]), True))
            break
        behind = words[last + 1 : last + 2]
        separated = words[start + 1] == ":" and behind in ([], [","])
        value = tuple(words[first : last + 1])
        found.append(AllocatorSetting(words[start], value, "".join(words[start : last + 1]), separated))
        start = last + 2
    return tuple(found)


def least_split_size(settings: tuple[AllocatorSetting, ...]) -> int:
    """What sizes of at least 20 MiB are held to: the size of a large segment, where the same text sets that."""
    sizes = [_whole(one.value[0]) for one in settings if one.key == "large_segment_size_mb" and one.value]
    return sizes[-1] or _SPLIT_MIB if sizes else _SPLIT_MIB


def takes_allocator_value(takes: str, value: tuple[str, ...], least: int = _SPLIT_MIB) -> bool:
    """Whether torch 2.13 takes these words where `takes` (of ALLOCATOR_VALUES) is asked for.

    `least` is what a size of at least 20 MiB is held to.

    Numbers are read up to the first sign that is none: `128MB` is 128, `1e3` as a whole number is 1.
    """
    if takes == "power of 2":
        return _takes_divisions(value)
    if takes == "True or False":
        return value in (("True",), ("False",))
    if takes == "native or cudaMallocAsync":
        return value in (("native",), ("cudaMallocAsync",))
    if takes in ("share between 0 and 1", "share from 0 to 1"):
        found = _NUMBER.match(value[0])
        number = _float(found[0]) if found is not None else -1.0
        return 0 <= number <= 1 if takes == "share from 0 to 1" else 0 < number < 1
    if takes == "power of 2 up to 128":
        whole = _whole(value[0])
        return whole is not None and _is_power(whole) and whole <= _MOST_THREADS
    if takes == "size":
        return _whole(value[0]) is not None
    if takes == "size above 0":
        return bool(_whole(value[0]))
    if takes == "size of at least 20":
        return (_whole(value[0]) or 0) >= least
    return takes != "size above 10" or (_whole(value[0]) or 0) > 10


def _takes_divisions(value: tuple[str, ...]) -> bool:
    """One number, or `[size:number,…]`, where a size may be `>` and a number of the list 0."""
    if value[0] != "[":
        return _is_power(_whole(value[0]))
    place = 1
    while value[place] != "]":
        if place + 2 >= len(value) - 1:
            return False
        size, divisions = value[place], _whole(value[place + 2])
        if divisions != 0 and not _is_power(divisions):
            return False
        if size != ">" and not _is_power(_whole(size)):
            return False
        place += 3 if value[place + 3] == "]" else 4
    return True


def _whole(word: str) -> int | None:
    """As C reads an unsigned number of 64 bits, where a negative one is a very large one; None: it raises."""
    found = _WHOLE.match(word)
    number = int(found[0]) if found is not None and len(found[0]) < 30 else _LARGEST + 1
    return number % (_LARGEST + 1) if abs(number) <= _LARGEST else None


def _float(word: str) -> float:
    return float.fromhex(word) if word.lstrip("+-")[:2].lower() == "0x" else float(word)


def _is_power(number: int | None) -> bool:
    return number is not None and number > 0 and number & (number - 1) == 0
