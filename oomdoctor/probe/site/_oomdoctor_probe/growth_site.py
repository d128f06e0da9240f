"""What the source of the user's code tells: the line that adds to a container, `seen.append(batch)`; loop variables.

Where memory ran out is often elsewhere; what one has to change is where it is kept. Plain text search without the `re`
module, for this runs when hardly any memory is left.
"""

from __future__ import annotations

_ADDS = (
    ".append(", ".extend(", ".add(", ".update(", ".insert(", ".appendleft(", ".extendleft(", ".setdefault(", ".push(",
    ".put(", " += ", "+=", "[",
)  # fmt: skip
_LONGEST_FILE = 50000


def line_that_adds(file: str | None, name: str, first: int = 1, last: int = _LONGEST_FILE) -> int | None:
    """The last line of `file` in [first, last] that adds to `name` (`seen`, or `.seen` for an attribute of anything).

    None where none is seen.
    """
    if not file:
        return None
    try:
        import linecache

        lines = linecache.getlines(file)
    except Exception:
        return None
    found = None
    for number in range(max(1, first), min(last, len(lines), _LONGEST_FILE) + 1):
        if _adds(lines[number - 1], name):
            found = number
    return found


def is_loop_variable(file: str | None, name: str, first: int, last: int) -> bool:
    """Whether a `for` in these lines of `file` sets `name`: `for step, (x, y) in enumerate(loader):`."""
    try:
        import linecache

        lines = linecache.getlines(file) if file and name.isidentifier() else []
    except Exception:
        return False
    for line in lines[max(1, first) - 1 : min(last, len(lines), _LONGEST_FILE)]:
        words = line.strip()
        if words.startswith(("for ", "async for ")):
            targets = words.partition(" in ")[0].partition("for ")[2]
            for mark in "(),*":
                targets = targets.replace(mark, " ")
            if name in targets.split():
                return True
    return False


def _adds(line: str, name: str) -> bool:
    start = line.find(name)
    while start >= 0:
        end = start + len(name)
        before = line[start - 1 : start] if start else ""
        # `unseen` is not `seen`, nor is the `seen` of something else. A comment is not code.
        if (name.startswith(".") or not (before.isalnum() or before in ("_", "."))) and "#" not in line[:start]:
            for how in _ADDS:
                if line.startswith(how, end):
                    return how != "[" or _is_stored_to(line, end) or _element_grows(line, end)
        start = line.find(name, end)
    return False


def _is_stored_to(line: str, bracket: int) -> bool:
    """Whether `name[…]` is what a single `=` assigns to, as in `cache[key] = value`."""
    close = line.find("]", bracket)
    rest = line[close + 1 :].lstrip() if close >= 0 else ""
    return rest.startswith(("=", "+=")) and not rest.startswith("==")


def _element_grows(line: str, bracket: int) -> bool:
    """Whether something is added to `name[…]`, as in `outputs[layer].append(output)`."""
    close = line.find("]", bracket)
    rest = line[close + 1 :] if close >= 0 else ""
    return any(rest.startswith(how) for how in _ADDS if how.endswith("("))
