"""How a program was started and set up, where the log shows it: launch lines, variables, lines of code, and what the
program itself says of an option that it does not take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .statement import event

_LONGEST = 8192
_MOST_LINES = 40
_PROGRAM = (
    r"(?P<command>(?:vllm serve|python[0-9.]{0,5} -m (?:vllm\.entrypoints\.[\w.]{1,80}|sglang\.launch_server)"
    r"|text-generation-launcher|llama-(?:server|cli)) .{0,8000})"
)
_TYPED = (
    r"^(?:[^$]{0,120}[^$0-9])?\$ (?P<command>(?:[A-Z_][A-Z0-9_]{0,60}=\S{1,200} ){0,8}"
    r"(?:python[0-9.]{0,5} (?:\S{1,200} ){0,12}\S{0,200}\.py|torchrun|deepspeed|accelerate launch|docker run"
    r"|python[0-9.]{0,5} -m (?!vllm|sglang)[\w.]{3,120})(?: .{0,8000})?)$"
)
"""Behind a shell's prompt: of programs whose lines stand in prose as well."""
_BEHIND = r"(?:^|[$#>%`'\"+] ?|&& |; |\bexec |\bRUN |\b[Cc]ommand: |=[0-9,]{1,40} )"
"""What stands before a launch line: the start, a prompt, a quote, an assignment. Not ordinary words."""
_HAS_OPTION = re.compile(r"\s[-\u2010-\u2015\u2212]{1,2}[A-Za-z]")
_WORD = re.compile(r"-{1,2}[A-Za-z][\w-]{0,80}(?:=\S{1,200})?")


def _command(match: re.Match[str], line: Line) -> LogEvent | None:
    text = match["command"].rstrip()
    if text.endswith("\\"):
        for more in line.following(_MOST_LINES):
            text = f"{text[:-1].rstrip()} {more.strip()}"
            if not text.endswith("\\") or len(text) > _LONGEST:
                break
    text = text.strip("`'\" ")[:_LONGEST]
    return event(EventKind.COMMAND_LINE, line, command=text) if _HAS_OPTION.search(text) else None


def _code(match: re.Match[str], line: Line) -> LogEvent:
    code = line.text.strip()
    if code.count("(") > code.count(")"):  # the call goes on
        for more in line.following(_MOST_LINES):
            code = f"{code} {more.strip()}"
            if code.count("(") <= code.count(")") or len(code) > _LONGEST:
                break
    return event(EventKind.CODE, line, code=code[:_LONGEST])


def _variable(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.ENVIRONMENT, line, name=match["name"], value=match["value"])


def _unrecognized(match: re.Match[str], line: Line) -> Iterator[LogEvent]:
    """`PROG: error: unrecognized arguments: --batch-size auto --x`: each option with the word behind it."""
    words = match["words"].split()
    for place, word in enumerate(words[:40]):
        if not _WORD.fullmatch(word):
            continue
        option, _, value = word.partition("=")
        behind = words[place + 1] if place + 1 < len(words) else ""
        if not value and behind and not behind.startswith("-"):
            value = behind
        yield event(EventKind.OPTION_REFUSED, line, option=option, value=value or None, program=match["program"])


def _invalid_choice(match: re.Match[str], line: Line) -> LogEvent:
    option = match["names"].split("/")[-1]  # the long name stands last
    return event(EventKind.OPTION_REFUSED, line, option=option, value=match["value"], program=match["program"])


def _unknown_allocator_option(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.OPTION_REFUSED, line, option=match["option"], program="PYTORCH_CUDA_ALLOC_CONF")


def _overruled(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.OPTION_OVERRULED, line, option="max_length", by="max_new_tokens")


_LAUNCH = _BEHIND + _PROGRAM
_ERROR = r"(?P<program>[\w./-]{1,80}(?: [a-z-]{1,20})?): error: "
_SEVERAL = "(?:[2-9]|[1-9][0-9]{1,3})"
"""Of the requests that a server logs only those for several answers are looked at."""
_CALLS = r"\b(?:GenerationConfig|generate)\((?=.{0,2000}=)|\b(?:GenerationConfig|\.generate)\(\s*$"

FAMILY = Family(
    "usage",
    (
        *(
            Pattern(anchor, _LAUNCH, _command)
            for anchor in (
                "vllm serve ",
                "-m vllm.entrypoints.",
                "sglang.launch_server ",
                "text-generation-launcher ",
                "llama-server ",
                "llama-cli ",
            )
        ),
        *(
            Pattern(anchor, _TYPED, _command)
            for anchor in (
                "$ python",
                "$ torchrun ",
                "$ deepspeed ",
                "$ accelerate launch ",
                "$ docker run ",
                "$ CUDA_",
            )
        ),
        Pattern("GenerationConfig(", _CALLS, _code),
        Pattern(".generate(", _CALLS, _code),
        Pattern("LLM(", r"(?<![\w.])(?:vllm\.)?LLM\((?=.{0,2000}=)|(?<![\w.])(?:vllm\.)?LLM\(\s*$", _code),
        Pattern(
            ", ",
            r"\bSamplingParams\((?P<several>n=[0-9]{1,4}(?:, best_of=[0-9]{1,4})?), ",
            lambda match, line: event(EventKind.CODE, line, code=f"SamplingParams({match['several']})"),
            led_by=rf"SamplingParams\(n=(?:{_SEVERAL}|[0-9]{{1,4}}, best_of={_SEVERAL})",
        ),
        Pattern(".generation_config.kv_cache_dtype", r"\.generation_config\.kv_cache_dtype ?=(?!=)", _code),
        Pattern(".config.max_seq_len", r"\.config\.max_seq_len ?=(?!=)", _code),
        Pattern(".config.sliding_window", r"\.config\.sliding_window ?=(?!=)", _code),
        Pattern(
            "_ALLOC_CONF",
            r"(?:^|[\s$#;'\"\[{])(?P<name>PYTORCH_(?:CUDA_|HIP_)?ALLOC_CONF)"
            r"(?:=[\"']?|[\"']\] ?= ?[\"']|[\"'], ?[\"'])(?P<value>[\w:.,\[\]>=-]{3,300})",
            lambda match, line: None if _is_advice(match, line) else _variable(match, line),
        ),
        Pattern(
            "unrecognized arguments: ",
            _ERROR + r"unrecognized arguments: (?P<words>\S.{0,2000})",
            _unrecognized,
        ),
        Pattern(
            "invalid choice: ",
            _ERROR + r"argument (?P<names>[\w/-]{2,120}): invalid choice: '?(?P<value>[^' ]{1,80})'?",
            _invalid_choice,
        ),
        Pattern(
            "Unrecognized CachingAllocator option",
            r"Unrecognized CachingAllocator option: (?P<option>[\w-]{1,80})",
            _unknown_allocator_option,
        ),
        Pattern(
            "will take precedence",
            r"Both `max_new_tokens` ?\(=.{1,20}\) and `max_length` ?\(=.{1,20}\) seem to have been set\."
            r" `max_new_tokens` will take precedence",
            _overruled,
        ),
    ),
)
"""Nothing here is judged: whether an option does what it says is for `facts.misuses` to tell."""


def _is_advice(match: re.Match[str], line: Line) -> bool:
    """Torch's own message, and people, recommend settings: `try setting PYTORCH_CUDA_ALLOC_CONF=…`."""
    return re.search(r"\b(?:try|setting|set|use|e\.g\.|see|with)\b", line.text[: match.start("name")]) is not None
