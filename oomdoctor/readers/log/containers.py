"""Containers ended for want of memory, as docker and Kubernetes report it: at their limit, or for their node's sake."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile

from ...model.events import EventKind, FieldValue, LogEvent
from .family import Build, Family, Line, Pattern
from .killed import killed
from .statement import event, integer, size

_KILL = 9
_EXIT_BY_SIGNAL = 128
_DESCRIBED = 250
"""Lines of one pod as `kubectl describe` or `get -o yaml` prints it, or of one container as `docker inspect` does."""
_QUANTITY = r"\d{1,20}(?:\.\d{1,6})?(?:[KMGTPE]i?|[km])?"
"""Memory as Kubernetes writes it: `14256Mi`, `128M`, `0`."""
_DECIMAL = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}


def quantity(text: str | None) -> int | None:
    """Bytes of Kubernetes' quantities: `Mi` is binary, `M` decimal, `m` a thousandth."""
    found = None if text is None else re.fullmatch(r"(\d{1,20}(?:\.\d{1,6})?)([KMGTPE]i|[kKMGTPEm]?)", text)
    if found is None:
        return None
    if found[2].endswith("i"):
        return size(f"{found[1]} {found[2]}B")
    return round(float(found[1]) * _DECIMAL.get(found[2], 1) / (1000 if found[2] == "m" else 1))


def _docker_state(match: re.Match[str], line: Line) -> LogEvent | None:
    """`"OOMKilled": true` of docker inspect; false is news only for a container that was killed."""
    stated = match["value"] == "true"
    around = "\n".join([*line.preceding(10), line.text, *line.following(10)])
    code = re.search(r'"ExitCode": ?(\d{1,3})', around)
    if not stated and (code is None or code[1] != "137"):
        return None
    exit_code = int(code[1]) if code else None
    after = "\n".join(takewhile(lambda text: '"OOMKilled"' not in text, line.following(_DESCRIBED)))
    after = f"{line.text[match.end() :]}\n{after}"
    limit = re.search(r'"Memory": ?([1-9]\d{0,18})\b', after)
    restarts = re.search(r'"RestartCount": ?(\d{1,9})\b', after)
    return event(
        EventKind.PROCESS_KILLED,
        line,
        signal=_KILL if exit_code == _EXIT_BY_SIGNAL + _KILL else None,
        exit_code=exit_code,
        reported_by="docker",
        oom_stated=stated,
        limit_bytes=int(limit[1]) if limit and stated else None,
        restarts=int(restarts[1]) if restarts else None,
    )


_oom_killed = killed("kubernetes", oom_stated=True)


def _pod_state(match: re.Match[str], line: Line) -> LogEvent | None:
    """`Reason: OOMKilled`, with the limit of that container where the same print says it."""
    made = _oom_killed(match, line)
    if not isinstance(made, LogEvent):
        return None
    fields: dict[str, FieldValue] = {**made.fields}
    described = _container_described(line) if re.match(r"\s*Reason:", line.text) else []
    limit = _limit_described(described) if described else _only_limit(line.preceding(_DESCRIBED))
    restarts = next((found for text in described if (found := _RESTARTS.match(text))), None)
    if limit is not None:
        fields["limit_bytes"] = limit
    if restarts is not None:
        fields["restarts"] = int(restarts[1])
    if described:
        fields["container"] = _name_described(line)
    return replace(made, fields=fields)


def _name_described(line: Line) -> str | None:
    """The name above what `kubectl describe` says of a container; its state stands four columns within."""
    own = _indent(line.text)
    above = (text for text in reversed(line.preceding(60)) if text.strip() and _indent(text) <= own - 4)
    found = _CONTAINER_NAME.match(next(above, ""))
    return found[1] if found else None


_CONTAINER_NAME = re.compile(r"^\s{0,80}([a-z0-9][a-z0-9-]{0,62}):\s*$")


def _shared_volume(match: re.Match[str], line: Line) -> LogEvent | None:
    """An emptyDir in memory on /dev/shm, with its limit: `kubectl describe` tells of mounts first, then of volumes."""
    after = line.following(_DESCRIBED)
    for place, text in enumerate(after):
        if text.strip() == f"{match['volume']}:":
            told = "\n".join(after[place + 1 : place + 6])
            if "EmptyDir" not in told or not re.search(r"^\s{0,80}Medium:\s{1,40}Memory\s*$", told, re.MULTILINE):
                return None
            limit = re.search(rf"^\s{{0,80}}SizeLimit:\s{{1,40}}({_QUANTITY})\s*$", told, re.MULTILINE)
            return event(EventKind.HOST_STATE, line, shm_total_bytes=quantity(limit[1]) if limit else None)
    return None


_RESTARTS = re.compile(r"^\s{0,80}Restart Count:\s{1,40}(\d{1,9})\s*$")
_MEMORY = re.compile(rf"^\s{{0,80}}\"?memory\"?:\s{{1,40}}\"?(?P<limit>{_QUANTITY})\"?,?\s*$")


def _container_described(line: Line) -> list[str]:
    """What `kubectl describe` says of the container after this line, which stands below its name."""
    own = _indent(line.text)
    return list(takewhile(lambda text: not text.strip() or _indent(text) > own - 4, line.following(60)))


def _limit_described(texts: Iterable[str]) -> int | None:
    """`memory:` below `Limits:`."""
    within: int | None = None
    for text in texts:
        if re.match(r"\s*Limits:\s*$", text):
            within = _indent(text)
        elif within is not None and text.strip():
            if _indent(text) <= within:
                return None
            if found := _MEMORY.match(text):
                return quantity(found["limit"])
    return None


def _only_limit(texts: list[str]) -> int | None:
    """The limit that a pod's specification states above its state; None where containers have different ones."""
    found: set[int] = set()
    for place, text in enumerate(texts):
        if re.match(r"\s*\"?limits\"?:\s*\{?\s*$", text):
            found |= {size for size in map(_memory_of, _below(_indent(text), texts[place + 1 :])) if size is not None}
    return found.pop() if len(found) == 1 else None


def _below(indent: int, texts: Iterable[str]) -> Iterable[str]:
    return takewhile(lambda text: _indent(text) > indent, texts)


def _memory_of(text: str) -> int | None:
    found = _MEMORY.match(text)
    return quantity(found["limit"]) if found else None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _evicted(match: re.Match[str], line: Line) -> LogEvent:
    """The kubelet ends a pod because its node has little memory left; the pod need not have reached any limit.

    Of several containers the one that used most is told.
    """
    threshold = re.search(rf"Threshold quantity: ({_QUANTITY}), available: ({_QUANTITY})\.", line.text)
    containers = [
        (quantity(one["used"]) or 0, one["name"], quantity(one["request"])) for one in _USED.finditer(line.text)
    ]
    used, name, request = max(containers, default=(None, None, None), key=lambda one: one[0])
    return event(
        EventKind.MEMORY_LIMIT_HIT,
        line,
        system="kubernetes",
        of_node=True,
        program=name,
        container_used_bytes=used,
        container_request_bytes=request,
        available_bytes=quantity(threshold[2]) if threshold else None,
        threshold_bytes=quantity(threshold[1]) if threshold else None,
    )


_USED = re.compile(
    rf"Container (?P<name>\S{{1,253}}) was using (?P<used>{_QUANTITY})\b"
    rf"(?:, (?:which exceeds its request of|request is) (?P<request>{_QUANTITY})(?![\w]))?"
)


def _refused_by_pressed_node(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.MEMORY_LIMIT_HIT, line, system="kubernetes", of_node=True)


def _seen_by_kubelet(constraint: str) -> Build:
    """The kernel's killer, as the kubelet retells it: it gives no figures."""

    def build(match: re.Match[str], line: Line) -> LogEvent:
        pid = integer(match["pid"])
        made = event(
            EventKind.KERNEL_OOM,
            line,
            constraint=constraint,
            program=match["program"],
            pid=pid,
            reported_by="kubelet",
        )
        return made if pid is None else replace(made, pid=pid)

    return build


_VICTIM = r"(?:, victim process: (?P<program>[^,\s]{1,64})(?:, pid: (?P<pid>\d{1,10}))?)?"

FAMILY = Family(
    "containers",
    (
        Pattern("OOMKilled", r'"OOMKilled": ?(?P<value>true|false)', _docker_state),
        Pattern(
            "OOMKilled",
            r'(?<!")\bOOMKilled\b(?!"| (?!(?:with|at|on|after|by|in)\b)[a-z])',
            _pod_state,
        ),
        Pattern(
            "OOMKilled",
            r'(?i)"reason\\?": ?\\?"OOMKilled\b',
            _pod_state,
        ),
        Pattern(
            "137",
            r"(?i)(?:exit(?:ed)?(?: with)?(?: code| status)|exit_?code)\"?[:= ]{1,12}\(?(?P<exit>137)\b",
            killed("container"),
            led_by=r'(?i:code|status)"?[:= ]{1,12}\(?',
        ),
        Pattern(
            "failed liveness probe, will be restarted",
            r"\bContainer (?P<program>\S{1,200}) failed liveness probe, will be restarted",
            killed("kubelet", cause="probe"),
        ),
        Pattern(
            "failed startup probe, will be restarted",
            r"\bContainer (?P<program>\S{1,200}) failed startup probe, will be restarted",
            killed("kubelet", cause="probe"),
        ),
        Pattern(
            "container init was OOM-killed",
            r"\bcontainer init was OOM-killed \(memory limit too low\?\)",
            killed("container", oom_stated=True),
        ),
        Pattern("was low on resource: memory", r"node was low on resource: memory", _evicted),
        Pattern(
            "node had condition: [",
            r"node had condition: \[(?:\w{1,40}, ?){0,4}MemoryPressure\b",
            _refused_by_pressed_node,
        ),
        Pattern("/dev/shm from ", r"^\s{0,80}/dev/shm from (?P<volume>[a-z0-9][a-z0-9-]{0,62}) \(", _shared_volume),
        Pattern("System OOM encountered", rf"\bSystem OOM encountered{_VICTIM}", _seen_by_kubelet("global")),
        Pattern("Cgroup OOM encountered", rf"\bCgroup OOM encountered{_VICTIM}", _seen_by_kubelet("memcg")),
    ),
)
