"""Values as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..language import N_, _, told
from ..model.facts import FactType, FactValue
from ..model.named_values import name_in_words
from ..model.printable import one_line
from ..model.units import format_bytes, format_seconds

NOT_MEASURED = N_("not measured")

SHORT_NAMES = (
    N_("measured"),
    N_("computed"),
    N_("printed"),
    N_("host"),
    N_("available"),
    N_("unnamed"),
    N_("allocated"),
    N_("cgroup"),
    N_("exit"),
    N_("exit record"),
    N_("log"),
    N_("bundle"),
    N_("pytorch-snapshot"),
    N_("archive"),
    N_("binary"),
    N_("empty"),
    N_("counters"),
    N_("census"),
    N_("exception"),
    N_("versions"),
    N_("variables"),
    N_("device-oom"),
    N_("library-oom"),
    N_("oom event"),
    N_("own"),
    N_("platform"),
    N_("kernel"),
    N_("machine"),
    N_("cpus"),
    N_("node"),
)
"""Words that evidence and facts use, translated where they are shown."""

PLACEHOLDERS = (
    N_("<your command>"),
    N_("<your command without the LoRA options>"),
    N_("<your code>"),
    N_("<the complete log>"),
    N_("<unit>"),
    N_("<pod>"),
    N_("<job>"),
    N_("<container>"),
    N_("<model>"),
    N_("<size>"),
    N_("<node>"),
    N_("<version>"),
    N_("<shape>"),
    N_("<script>"),
    N_("<name>"),
    N_("<module>"),
    N_("<engine>"),
    N_("<device>"),
    N_("<masked>"),
)
"""What stands in `<…>` in a line to copy for the reader to fill in."""
_PLACEHOLDER = re.compile("|".join(PLACEHOLDERS))

UNIT = re.compile(r"(\d) ([KMGTPE]iB|B|bytes|tokens|%|s|ms|µs|min|h)(?!\w)")
"""A number with its unit, which stand on one line."""

_RECORD = re.compile(r"(.+) \((.+)\)")


def format_value(value: FactValue, unit: str) -> str:
    """A fact's value as people read it."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, str) and unit == FactType.NAME.value:
        return name_in_words(value)
    if isinstance(value, str):
        return one_line(told(value), 400)
    if value != value or value in (float("inf"), float("-inf")):
        return _(NOT_MEASURED)
    if unit == "bytes":
        return format_bytes(value)
    if unit == "seconds":
        return format_seconds(value)
    if unit == "ratio":
        return f"{100 * value:.1f} %"
    number = f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
    return _("{number} tokens").format(number=number) if unit == "tokens" else number


def to_copy(line: str) -> str:
    """A line to copy, with what the reader is to fill in told in the language of the report."""
    return _PLACEHOLDER.sub(lambda found: _(found[0]), line)


def listed(items: Iterable[str]) -> str:
    """Things of a kind, one after the other."""
    return _(", ").join(items)


def source_of(text: str) -> str:
    """Where a statement comes from: the place as it is, the record in it in the language of the report."""
    whole = told(text)
    found = _RECORD.fullmatch(text)
    return whole if whole != text or found is None else f"{found[1]} ({told(found[2])})"


def format_share(part: int, whole: int) -> str:
    """A percentage that never rounds something to nothing, nor a part to the whole."""
    if whole <= 0:
        return ""
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "< 0.1 %"
    if 99.9 < share < 100:
        return "99.9 %"
    return f"{share:.1f} %"
