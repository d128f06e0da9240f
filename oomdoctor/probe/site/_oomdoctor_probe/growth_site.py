"""What the source of the user's code tells: the line that adds to a container, `seen.append(batch)`; loop variables;
collections that each step makes anew.

Where memory ran out is often elsewhere; what one has to change is where it is kept. Plain text search without the `re`
module, for this runs when hardly any memory is left.
"""

from __future__ import annotations

_ADDS = (
    ".append(", ".extend(", ".add(", ".update(", ".insert(", ".appendleft(", ".extendleft(", ".setdefault(", ".push(",
    ".put(", " += ", "+=", "[",
)  # fmt: skip
_NEW = ("[", "{", "list(", "dict(", "deque(", "collections.deque(", "defaultdict(", "collections.defaultdict(")
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


def is_made_each_step(file: str | None, name: str, first: int, last: int) -> bool:
    """Whether these lines make `name` anew, fill it in a loop or a comprehension, and go backward once it is full.

    What is kept so is of one step: no graph in it can be done with before all of them are. Where the loop itself goes
    backward, or a loop around it does not begin before `name` is made, each round leaves its own.
    """
    try:
        import linecache

        lines = linecache.getlines(file) if file and name else []
    except Exception:
        return False
    lines = lines[: min(last, _LONGEST_FILE)]
    begin = max(1, first) - 1
    made = None
    for number in range(begin, len(lines)):
        if _is_made(lines[number], name):
            made = number
        elif made is not None and _adds(lines[number], name):
            loop = _loop_around(lines, number, begin)
            if loop is None or loop < made or (_loop_around(lines, loop, begin) or -1) > made:
                return False
            if any(line.lstrip().startswith(("def ", "async def ", "class ")) for line in lines[made:number]):
                return False  # filled by a function, made outside of it
            end = _end_of_block(lines, loop)
            return not _goes_backward(lines[loop:end]) and _goes_backward(lines[end : _end_of_suite(lines, made)])
    if made is None or " for " not in lines[made]:
        return False
    return _goes_backward(lines[made + 1 : _end_of_suite(lines, made)])


def _is_made(line: str, name: str) -> bool:
    """Whether a line sets `name` to a new collection, empty or comprehended."""
    start = line.find(name)
    before = line[start - 1 : start] if start > 0 else ""
    if start < 0 or "#" in line[:start] or (not name.startswith(".") and (before.isalnum() or before in ("_", "."))):
        return False
    value = line[start + len(name) :].partition("=")
    return not value[0].partition(":")[0].strip() and value[2].lstrip().startswith(_NEW)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _loop_around(lines: list[str], number: int, begin: int) -> int | None:
    """The innermost loop that a line is in, no further up than the line `begin`."""
    inside = _indent(lines[number])
    for above in range(number - 1, begin - 1, -1):
        words = lines[above].strip()
        if words and _indent(lines[above]) < inside:
            inside = _indent(lines[above])
            if words.startswith(("for ", "while ", "async for ")):
                return above
    return None


def _end_of_block(lines: list[str], head: int) -> int:
    """The first line after the block that a line heads."""
    return _first_outside(lines, head, _indent(lines[head]))


def _end_of_suite(lines: list[str], number: int) -> int:
    """The first line after those that a line stands among."""
    return _first_outside(lines, number, _indent(lines[number]) - 1)


def _first_outside(lines: list[str], after: int, indent: int) -> int:
    for number in range(after + 1, len(lines)):
        if lines[number].strip() and _indent(lines[number]) <= indent:
            return number
    return len(lines)


def _goes_backward(lines: list[str]) -> bool:
    return any("backward(" in line.partition("#")[0] for line in lines)


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
    """Whether `name[…]` is what a single `=` assigns to, as in `cache[key] = value`; `kept[-1] = value` replaces."""
    close = line.find("]", bracket)
    index = line[bracket + 1 : close].strip()
    if index.startswith("-") and index[1:].isdigit():
        return False
    rest = line[close + 1 :].lstrip() if close >= 0 else ""
    return rest.startswith(("=", "+=")) and not rest.startswith("==")


def _element_grows(line: str, bracket: int) -> bool:
    """Whether something is added to `name[…]`, as in `outputs[layer].append(output)`."""
    close = line.find("]", bracket)
    rest = line[close + 1 :] if close >= 0 else ""
    return any(rest.startswith(how) for how in _ADDS if how.endswith("("))
