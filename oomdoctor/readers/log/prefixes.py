"""What launchers, containers and loggers print before a line: stripped, and its rank, process and time recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ..text import clean
from ..times import unix_time


@dataclass(slots=True)
class Stripped:
    """A line without its prefixes. Its fields are set while they are taken off; every line of a log passes here."""

    text: str
    rank: int | None = None
    pid: int | None = None
    time_seconds: float | None = None
    """Unix time; a time printed without a zone is read as UTC."""
    stream: str = ""
    """Who printed it, where every line of that writer says so; empty otherwise. Keeps interleaved writers apart."""


_Strip = Callable[["re.Match[str]", Stripped], None]


@dataclass(frozen=True)
class _Prefix:
    regex: re.Pattern[str]
    strip: _Strip


def _rest(match: re.Match[str], line: Stripped) -> None:
    line.text = line.text[match.end() :]


def _writer(match: re.Match[str], line: Stripped) -> None:
    line.text = line.text[match.end() :]
    line.stream += match[0].strip()


def _rank(match: re.Match[str], line: Stripped) -> None:
    _writer(match, line)
    line.rank = int(match[1])


def _actor(match: re.Match[str], line: Stripped) -> None:
    """`(VllmWorker rank=1 pid=7)`, `(Worker_TP0 pid=7)`, `(WorkerDict pid=7, ip=…)`, `(raylet)`."""
    _writer(match, line)
    if found := re.search(r"\brank=(\d{1,6})", match[0]) or _TENSOR_RANK.search(match[0]):
        line.rank = int(found[1])
    if found := re.search(r"\bpid=(\d{1,10})", match[0]):
        line.pid = int(found[1])


def _stamp(match: re.Match[str], line: Stripped) -> None:
    _rest(match, line)
    line.time_seconds = unix_time(match["time"])
    if found := _TENSOR_RANK.search(match[0]):
        line.rank = int(found[1])


def _system_log(match: re.Match[str], line: Stripped) -> None:
    _rest(match, line)
    if match["iso"]:
        line.time_seconds = unix_time(match["iso"])
    if match["pid"]:
        line.pid = int(match["pid"])


def _box(match: re.Match[str], line: Stripped) -> None:
    line.text = line.text[match.end() :].rstrip(" │┃|")


def _docker_json(match: re.Match[str], line: Stripped) -> None:
    r"""`{"log":"text\n","stream":"stderr","time":"…"}`, as Docker's json-file driver stores it."""
    line.text = clean(_unescaped(match["text"].removesuffix("\\n")))
    line.time_seconds = unix_time(match["time"])


_MESSAGE_KEYS = r"(?:@?message|msg|log|line|textPayload|error|err|exception|exc_info|stack_?trace|stack|traceback)"
_JSON_TEXT = re.compile(rf'(?i)"{_MESSAGE_KEYS}" ?: ?"(?P<text>(?:[^"\\]|\\.)*)"')
_JSON_TIME = re.compile(
    r'"(?:@?timestamp|time|ts|asctime)" ?: ?"(?P<time>\d{4}-\d\d-\d\d[T ][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)?)"'
)
_JSON_SECONDS = re.compile(r'"(?:timestamp|time|ts|created)" ?: ?(?P<seconds>\d{10}(?:\.\d{1,9})?)\b(?!\.)')
_JOURNAL_TIME = re.compile(r'"__REALTIME_TIMESTAMP" ?: ?"(?P<microseconds>\d{16})"')
_JSON_RANK = re.compile(r'"(?:rank|global_rank|RANK)" ?: ?"?(\d{1,6})"?(?=[,}\s])')
_JSON_PID = re.compile(r'"(?:pid|process|process_id|_PID)" ?: ?"?(\d{1,10})"?(?=[,}\s])')


_OF_MEMORY = re.compile(r"(?i)out of memory|Tried to allocate")
"""What is wanted of a record, which may stand under any key beside an `"error": "unknown error"`."""


def _json_record(match: re.Match[str], line: Stripped) -> None:
    r"""The longest text of a record of a structured log; one that holds several lines is left to `unfold`."""
    texts = [found["text"].removesuffix("\\n") for found in _JSON_TEXT.finditer(line.text)]
    text = max(texts, key=len, default="")
    if found := _JSON_TIME.search(line.text):
        line.time_seconds = unix_time(found["time"])
    elif found := _JSON_SECONDS.search(line.text):
        line.time_seconds = float(found["seconds"])
    elif found := _JOURNAL_TIME.search(line.text):
        line.time_seconds = int(found["microseconds"]) / 1e6
    if found := _JSON_RANK.search(line.text):
        line.rank = int(found[1])
    if found := _JSON_PID.search(line.text):
        line.pid = int(found[1])
    if text and "\\n" not in text and (_OF_MEMORY.search(text) or not _OF_MEMORY.search(line.text)):
        line.text = clean(_unescaped(text))


def _unescaped(text: str) -> str:
    for written, meant in (
        ("\\u001b", "\x1b"),
        ('\\"', '"'),
        ("\\t", "\t"),
        ("\\u003c", "<"),
        ("\\u003e", ">"),
        ("\\/", "/"),
    ):
        text = text.replace(written, meant)
    return text.replace("\\\\", "\\")


def _csv_row(match: re.Match[str], line: Stripped) -> None:
    """A row of an export: a time in quotes, then the message in quotes as the last cell."""
    line.text = line.text[match.end() :].rstrip().removesuffix('"').replace('""', '"')


_TENSOR_RANK = re.compile(r"(?<![A-Za-z])TP(\d{1,4})(?![0-9])")

_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"

_BY_FIRST: dict[str, tuple[_Prefix, ...]] = {
    "[": (
        _Prefix(re.compile(r"\[(?:rank|default|trainer|worker)?(\d{1,6})\]:[ ]?"), _rank),
        _Prefix(re.compile(r"\[(?:[Rr]ank|RANK)[ :=]{0,2}(\d{1,6})\]:?[ ]?"), _rank),
        _Prefix(re.compile(r"\[\d{1,6},(\d{1,6})\]<std(?:out|err|diag)>:"), _rank),
        _Prefix(re.compile(r"\[pod/[\w./-]{1,300}\][ ]"), _writer),
        _Prefix(re.compile(rf"\[(?P<time>{_ISO})((?: [A-Z]{{2,3}}\d{{1,4}}){{0,6}})\](?:[ ]|$)"), _stamp),
        _Prefix(re.compile(r"\[ {0,8}\d{1,9}\.\d{3,6}\](?:\[ {0,8}[TC]\d{1,9}\])?[ ]"), _rest),
        _Prefix(re.compile(r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\][ ]"), _rest),
        _Prefix(
            re.compile(r'\[(?:DEBUG|INFO|WARN(?:ING)?|ERROR)\] \[[\w.-]{1,60}\] {0,9}(?=File "|Traceback \(most )'),
            _rest,
        ),
        _Prefix(re.compile(r"\[(?:DP\d{1,4} )?TP(\d{1,4})(?: [A-Z]{2}\d{1,4}){0,4}\][ ]"), _rank),
    ),
    "(": (
        _Prefix(
            re.compile(
                r"\((?:[\w:.<>-]{1,120} )?(?:rank=\d{1,6}|(?:rank=\d{1,6} )?pid=\d{1,10})(?:, ip=[\w.:]{1,60})?\)[ ]?"
            ),
            _actor,
        ),
        _Prefix(
            re.compile(r"\((?:raylet|gcs_server|autoscaler|driver)(?:, ip=[\w.:]{1,60}| \+[\w]{1,12})?\)[ ]?"), _actor
        ),
    ),
    ">": (_Prefix(re.compile(r">[ ]"), _rest),),
    "│": (_Prefix(re.compile(r"│[ ]?"), _box),),
    "┃": (_Prefix(re.compile(r"┃[ ]?"), _box),),
    "E": (_Prefix(re.compile(r"E {3,60}(?=\S)"), _rest),),
    "{": (
        _Prefix(
            re.compile(
                r'\{"log":"(?P<text>(?:[^"\\]|\\.)*)","stream":"\w{1,10}"(?:,"attrs":\{[^{}]*\})?,"time":"(?P<time>[^"]{1,40})"\}'
            ),
            _docker_json,
        ),
        _Prefix(re.compile(rf'(?i)\{{(?=.{{0,4000}}"{_MESSAGE_KEYS}" ?: ?")'), _json_record),
    ),
    '"': (
        _Prefix(re.compile(r'"[^"]{4,24}\d\d:\d\d[^"]{0,20}",(?:"[^"]{0,80}",){0,4}"'), _csv_row),
        _Prefix(re.compile(rf'(?i)"{_MESSAGE_KEYS}" ?: ?"'), _json_record),
    ),
    " ": (
        _Prefix(re.compile(r" {1,3}>(?:[ ]|$)"), _rest),
        _Prefix(re.compile(rf'(?i) {{1,40}}(?="{_MESSAGE_KEYS}" ?: ?")'), _rest),
    ),
}
_LOGGER = r"(?:[ ]-(?:[ ][^\s:]\S{0,119}[ ]-){0,2}?[ ](?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)[ ]-)"
"""What Python's logging puts between the time and the message: ` - name - LEVEL - `."""
_TRACING = r"(?:[ ]{1,3}(?:TRACE|DEBUG|INFO|WARN|ERROR)[ ]\w[\w:]{0,119}(?<!:):)"
"""What Rust's tracing puts there: `  INFO module: `."""
_KUBERNETES = _Prefix(
    re.compile(rf"(?P<time>{_ISO}):?(?: std(?:out|err) [FP]|{_LOGGER}|{_TRACING})?(?:[ \t]|$)"), _stamp
)
_TRAINER = _Prefix(re.compile(rf"\d\d/\d\d/\d{{4}} \d\d:\d\d:\d\d{_LOGGER}[ ](?:[\w.]{{1,120}}[ ]-[ ])?"), _rest)
"""The logger of transformers' examples, whose dates have the month first or the day."""
_ACTIONS = _Prefix(re.compile(rf"[^\t]{{1,120}}\t[^\t]{{1,120}}\t\ufeff?(?P<time>{_ISO})(?:[ ]|$)"), _stamp)
"""What `gh run view --log` puts before a line: job, step and time."""
_SYSTEM_LOG = _Prefix(
    re.compile(
        rf"(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d|(?P<iso>{_ISO})) [A-Za-z0-9]\S{{0,119}}(?<!:) "
        # With an ISO time alone, as containers have it, any message's `first words:` would look like host and program.
        r"(?:[\w./@-]{1,80}\[(?P<pid>\d{1,10})\]|(?(iso)kernel|[\w./@-]{1,80})):[ ]"
    ),
    _system_log,
)
_COMPOSE = _Prefix(re.compile(r"[A-Za-z0-9][\w.-]{1,80}[ ]{1,30}\|(?:[ ]|$)"), _writer)
_CLOUD_EXPORT = _Prefix(
    re.compile(
        r"(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|ALERT|EMERGENCY) {1,4}"
        r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)"
        r"(?P<labels>(?: \[(?:resource|labels|jsonPayload)[\w./-]{0,80}: [^\]]{0,200}\]){0,4})[ ]"
    ),
    _stamp,
)
"""What a cloud's log viewer puts before a line it copies out: severity, time, and the fields that are shown."""
_REPEATED = re.compile(r" \[repeated \d{1,9}x across cluster\](?: \(Ray deduplicates logs by default[^)]{0,300}\))?")
_LOG_HEADER = re.compile(
    r"(?:\[?\b(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)\b\]?:?[ ]{1,4})"
    r"(?:\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?[ ])?"
    r"(?:\[?[\w./-]{1,120}:\d{1,6}\][ ]?|(?<=[A-Z] )(?=    ))"
)
_MOST = 8
"""Prefixes on one line; more than that is not a log."""


def strip(text: str) -> Stripped:
    """`text` (cleaned) without its prefixes. Indentation after the last prefix stays: tracebacks need it."""
    line = Stripped(text)
    for _ in range(_MOST):
        for prefix in _candidates(line.text):
            if match := prefix.regex.match(line.text):
                prefix.strip(match, line)
                break
        else:
            break
    if "[repeated " in line.text:
        line.text = _REPEATED.sub("", line.text)
    return line


def unfold(text: str) -> list[str]:
    r"""The lines of the text in a JSON record (`{"message": "first\n  second"}`), and of a traceback on one line.

    Any other line is by itself.
    """
    if text.count('File "') > 1 and "\\n" not in text:
        return _of_one_line(text)
    if "\\n" not in text or not (text.lstrip().startswith(("{", '"')) or _FOLDED.search(text)):
        return [text]
    *lines, last = re.split(r"(?<!\\)\\n", text)
    lines.append(re.split(r'(?<!\\)"', last, maxsplit=1)[0])
    return [line.replace('\\"', '"').replace("\\t", "\t").replace("\\\\", "\\") for line in lines]


def _of_one_line(text: str) -> list[str]:
    frames = list(_FLAT_FRAME.finditer(text))
    if len(frames) < 2:
        return [text]
    lines = [before] if (before := text[: frames[0].start()].strip()) else []
    ends = [*(frame.start() for frame in frames[1:]), len(text)]
    for frame, end in zip(frames, ends, strict=True):
        code = _CARETS.sub(" ", text[frame.end() : end]).strip()
        error = _FLAT_ERROR.search(code) if end == len(text) else None
        lines.append(frame[0].rstrip())
        if code_alone := (code[: error.start()] if error else code).strip():
            lines.append(f"    {code_alone}")
        if error:
            lines.append(code[error.start() :].strip())
    return lines


_FLAT_FRAME = re.compile(r'File "[^"\n]{1,300}", line \d{1,7}, in [\w<>.]{1,120}(?: |$)')
_FLAT_ERROR = re.compile(r"(?<![\w.])(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception)(?=: |$)")
_CARETS = re.compile(r"(?<=\s)[\^~]{3,200}(?=\s|$)")
_FOLDED = re.compile(r'\b(?:msg|message|error|err|stack|stacktrace)="|Traceback \(most recent call last\):\\n')


def strip_log_header(text: str) -> str:
    """`text` without the level, time and file:line that loggers of serving engines put before every line."""
    match = _LOG_HEADER.match(text)
    return text[match.end() :] if match else text


def _candidates(text: str) -> tuple[_Prefix, ...]:
    first = text[:1]
    if first in _BY_FIRST:
        known = _BY_FIRST[first]
        return known if first != "E" else (*known, _CLOUD_EXPORT, _COMPOSE)
    if first.isdigit() and first.isascii():
        return (_SYSTEM_LOG, _KUBERNETES, _TRAINER, _COMPOSE)
    if first.isalpha() and first.isascii():
        known = (_CLOUD_EXPORT, _SYSTEM_LOG, _COMPOSE) if first in "DINWECA" else (_SYSTEM_LOG, _COMPOSE)
        return (*known, _ACTIONS) if "\t" in text else known
    return ()
