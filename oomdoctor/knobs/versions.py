"""Order of version numbers as people print them: `2.1.2+cu121`, `0.6.3.post1`, `2.7.0rc1`, `v0.5.4`, `b6532`.

A part of PEP 440, enough to say which of two releases is newer: the release numbers, then development and
pre-releases below the release itself, then post-releases above it. Local parts (`+cu121`) do not count.
"""

from __future__ import annotations

import re
from functools import lru_cache

_VERSION = re.compile(
    r"\s*[vb]?(?P<release>[0-9]{1,9}(?:\.[0-9]{1,9})*)"
    r"(?:[-_.]?(?P<pre>dev|alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pre_number>[0-9]{0,9}))?"
    r"(?:[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_number>[0-9]{0,9}))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?[0-9]{0,12})?"
    r"(?:[+].*)?\s*",
    re.IGNORECASE | re.DOTALL,
)
_RANK = {"dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2, "pre": 3, "preview": 3, "c": 3, "rc": 3}
_FINAL = 4

VersionKey = tuple[tuple[int, ...], int, int, int, int]


@lru_cache(maxsize=4096)
def version_key(text: str) -> VersionKey | None:
    """What to compare versions by; None for a text that is not a version. `2.1` and `2.1.0` are the same."""
    found = _VERSION.fullmatch(text)
    if not found:
        return None
    release = [int(part) for part in found["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    pre = (found["pre"] or "").lower()
    post = int(found["post_number"] or 0) if found["post"] else -1
    finished = 0 if found["dev"] else 1
    rank = _RANK[pre] if pre else (_FINAL if finished or found["post"] else 0)
    return tuple(release), rank, int(found["pre_number"] or 0), post, finished


def within(version: str, since: str | None, until: str | None) -> bool:
    """Whether a release lies between bounds; a bound that is None is open, and `until` 2.9 includes 2.9.1.

    Only release numbers count: a vendor's `2.6.0a0` has what 2.6 has. A version that cannot be read is within
    nothing but open bounds.
    """
    release = _release(version)
    if not release:
        return since is None and until is None
    lower, upper = _release(since or ""), _release(until or "")
    if _padded(release, len(lower)) < lower:
        return False
    return not upper or _padded(release, len(upper))[: len(upper)] <= upper


def _release(text: str) -> list[int]:
    """The release numbers as written, zeros included: `2.0` bounds 2.0.1, not 2.9."""
    found = _VERSION.fullmatch(text)
    return [int(part) for part in found["release"].split(".")] if found else []


def _padded(release: list[int], length: int) -> list[int]:
    return release + [0] * (length - len(release))
