"""Programs that went on after memory ran out, by their own words near the failure or by the steps that follow it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...model.events import EventKind, LogEvent
from .family import Build, Family, Line, Pattern
from .prefixes import strip_log_header
from .prose import mentioned, quoted
from .statement import event

_NEAR = 4
"""Lines between a failure and what the program says it does about it."""
_AHEAD, _BEHIND = 120, 60
"""Lines after and before a failure in which steps are looked for."""
_FEWEST_STEPS = 3
"""Steps that follow a failure; fewer may be another rank's, on its way to wait for the one that failed."""

_RAN_OUT = re.compile(
    r"out[ -]of[ -]memory|\bOOM\b|OutOfMemory|MemoryError|RESOURCE_EXHAUSTED|cannot allocate memory|unable to allocate"
    r"|[显内]存不足",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"(?i)(?<![a-z])(?P<what>(?:global[_ ])?steps?|epochs?|iter(?:ation)?s?|batch(?:es)?|round|episode|update|sample"
    r"|requests?|prompt|image|file|frame|document|doc|task|trial|chunk|row|item)"
    r"(?![a-z_-]|[ _-]?size)[\"']?\s{0,3}[:=#\[(]{0,2}\s{0,3}(?P<number>[0-9]{1,9})(?![0-9.])"
)
_STEP_IN_CHINESE = re.compile(r"第 ?(?P<number>[0-9]{1,9}) ?(?P<what>步|轮|批|次迭代|个(?:批次|样本|周期|请求))")
_BAR = re.compile(r"(?P<number>[0-9]{1,9})/[0-9]{1,9} \[[0-9:]{4,9}<")
_FINISHED = re.compile(
    r"(?i)(?:^\W{0,4}|\b(?:info|result|status)\b\W{1,4})(?:done[.!]?\s*(?:$|best|saved|total|in )"
    r"|(?:all |the )?(?:training|fine-?tuning|evaluation|inference|job|run|test|script|program|process)s?"
    r"(?: \w{1,20}){0,2} (?:is |has |was )?(?:complete[d]?|finished|done|succeeded)\b)"
    r"|\bexit(?:ed)?(?: with)?(?: \w{1,8})? (?:code|status):? ?0\b"
    r"|(?:训练|微调|评估|推理|任务|运行)(?:已|全部|顺利|成功){0,2}(?:完成|结束)(?!前|后)"
)
_TRAINED = re.compile(
    r"^Training completed\. Do not forget to share|['\"]train_runtime['\"]: ?['\"]?[0-9]"
    r"|`Trainer\.fit` stopped: `max_\w{1,20}=[0-9-]{1,12}` reached"
)
"""What a trainer prints where its loop came to its end, and nowhere else: no steps are needed to believe it."""
_SERVED = re.compile(r"\"POST [^\"]{1,300} HTTP/[0-9.]{1,3}\"\W{1,3}2[0-9][0-9]\b")
_ENDED = re.compile(
    r"(?i)^Traceback \(most|\bexit(?:ed)?(?: with)?(?: \w{1,8})? (?:code|status):? ?[1-9]|ChildFailedError"
    r"|^\s{0,3}Killed\s*$|Segmentation fault|core dumped|Aborted"
)
_STARTED_AGAIN = re.compile(
    r"(?i)\b(?:re-?start(?:ing|ed)|re-?launch(?:ing|ed)|re-?spawn(?:ing|ed)|re-?schedul(?:ing|ed)|requeued)\b"
    r"|^\s{0,4}(?:\(\S{1,40}\) )?(?:\S{1,80}[@:]\S{0,80})?[$#] (?:\w{1,40}=\S{1,80} ){0,6}"
    r"(?:python|torchrun|accelerate|deepspeed|vllm|sh|bash|\./)"
)
_WORDS = re.compile(
    r"(?i)\b(?:(?P<retry>re-?try(?:ing)?|try(?:ing)? again|attempt(?:ing)?) (?:\w{1,12} ){0,2}?"
    r"(?:with|at|on|using|in) (?:\w{1,12} ){0,2}?"
    r"(?:batch|micro|smaller|lower|half|chunk|tile|slice|fp16|bf16|int8|cpu|\d)"
    r"|(?P<smaller>(?:reduc|decreas|lower|halv|shrink)(?:ing|ed)(?: the| per-device| micro| eval| train){0,2}"
    r" ?(?:batch|micro|chunk|tile|window|num_|max_|size|resolution)\w{0,20}(?: size)?.{0,40}?(?:\bto\b|->|=>|→|\bby\b))"
    r"|(?P<fallback>fall(?:ing|s)? ?back (?:to|on)|fell back (?:to|on)"
    r"|(?:moving|offloading|switching) \S{1,30} to (?:the )?cpu)"
    r"|(?P<skip>skip(?:ping|ped) (?:this |the |a )?"
    r"(?:batch|sample|step|request|prompt|image|frame|example|item|trial)))\b"
)
_CHINESE = {
    "skip": (r"跳过(?:了|该|此|这|本|当前|一个|个){0,2} ?(?:批次?|样本|步|请求|图片|帧|任务)", ("跳过",)),
    "smaller": (
        r"(?:已|正在|自动)(?:自动)?(?:将)?(?:减小|降低|减半|缩小|调小)(?:了)? ?(?:批次?|batch|分块|窗口)",
        ("减小", "降低", "减半", "缩小", "调小"),
    ),
    "retry": (r"(?:用|以)(?:更小|较小|一半)的? ?(?:批次?|batch|分块)\S{0,6}重试", ("重试",)),
    "fallback": (
        r"(?:已|正在|自动)(?:自动)?(?:回退|退回|切换|改用|转移)[到至为用]? ?(?:CPU|cpu)",
        ("回退", "退回", "切换", "改用", "转移"),
    ),
}
"""What a program says it does, by `_HOW`: the words, and the anchors of which one is in them."""
_WORDS_IN_CHINESE = re.compile("|".join(words for words, _ in _CHINESE.values()))
_ADVISED = re.compile(r"请(?!求)|建议|可以|可尝试|如果|若|应当|应该|需要|没有|未|无法|不能")
_HOW = {"retry": "retry", "smaller": "smaller-batch", "fallback": "fallback", "skip": "skipped-batch"}


def _said(match: re.Match[str], line: Line) -> LogEvent | None:
    """`Reducing batch size to 16 and retrying`, on the line of the failure or a few lines after it."""
    found = _WORDS.search(line.text)
    if found is None or quoted(line.text, found.start()) or mentioned(line.text, found.start(), found.end()):
        return None
    if not _RAN_OUT.search(line.text) and not any(_RAN_OUT.search(text) for text in line.preceding(_NEAR)):
        return None
    if found.lastgroup == "fallback" and _OF_LOADING.search(line.text):
        return None  # the same weights are loaded in another way, and it is not said that they fit so
    return event(EventKind.RECOVERED, line, how=_HOW[found.lastgroup or "retry"])


_OF_LOADING = re.compile(r"(?i)\b(?:error|failed|failure|unable|could not|cannot)\b[^.]{0,40}\bload(?:ing)?\b")


def _said_in_chinese(how: str) -> Build:
    """`已跳过该批次`, as above; not what the program advises."""

    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        if _ADVISED.search(line.text[: match.start()]) or quoted(line.text, match.start()):
            return None
        if not any(_RAN_OUT.search(text) for text in (line.text, *line.preceding(_NEAR))):
            return None
        return event(EventKind.RECOVERED, line, how=how)

    return build


def _went_on(match: re.Match[str], line: Line) -> LogEvent | None:
    """A failure after which the program counts on, or another start of it does."""
    if any(_RAN_OUT.search(text) for text in line.following(2)):
        return None  # of many in a row the last tells
    after = [strip_log_header(text) for text in line.following(_AHEAD)]
    ahead = next((place for place, text in enumerate(after) if _RAN_OUT.search(text)), len(after))
    after = after[:ahead]  # of what comes later the later failure tells
    if _tests_passed(after):
        return event(EventKind.RECOVERED, line, how="went-on")
    alone = ahead == len(line.following(_AHEAD))
    if alone and _WARNING.search(line.text) and _got_further(after, _steps(line.preceding(_BEHIND))):
        return event(EventKind.RECOVERED, line, how="went-on")
    if len(after) < 2 or any(
        words.search(text) for text in (line.text, *after[:_NEAR]) for words in (_WORDS, _WORDS_IN_CHINESE)
    ):
        return None  # in the second case its own words tell
    steps = _steps([text for text in after if not _TRAINED.search(text)])
    finished = any(_FINISHED.search(text) for text in after)
    trained = any(_TRAINED.search(text) for text in after)
    finished = finished or trained
    served = sum(_SERVED.search(text) is not None for text in after) >= _FEWEST_STEPS
    told = served or trained or (finished and (steps or _restarts(after)))
    if len(steps) < _FEWEST_STEPS and not told:
        return None
    before = _steps(line.preceding(_BEHIND))
    begun_again = bool(steps) and (not before or steps[0] < before[-1])
    is_kill = _RAN_OUT.search(line.text) is None or _IS_KILL.search(line.text) is not None
    if is_kill or _restarts(after) or any(_ENDED.search(text) for text in after) or begun_again:
        return event(EventKind.RECOVERED, line, how="restart") if _restarts(after) or begun_again else None
    return event(EventKind.RECOVERED, line, how="went-on")


_WARNING = re.compile(
    r"(?:^|[ :\[\]])W(?:[0-9]{4})? .{0,200}out of memory|(?i:\b(?:warn|warning)\b.{0,200}\bout of memory)"
)
"""The program itself rates the failure as no error: less is needed to believe that it went on."""
_A_STEPS_END = re.compile(
    r"(?i)finished|complete[d]?\b|\bdone\b|\bloss\b|\bsaved\b|\baccuracy\b|\bs/(?:step|it)\b|\bit/s\b"
)


def _got_further(texts: Sequence[str], before: Sequence[int]) -> bool:
    """A step came to its end after a warning, and nothing says that the program ended badly or began again."""
    if _restarts(texts) or any(_ENDED.search(text) or _ERROR.search(text) for text in texts):
        return False
    steps = _steps([text for text in texts if _A_STEPS_END.search(text)])
    return bool(steps) and (not before or steps[-1] > before[-1])


_ERROR = re.compile(r"\b(?:[A-Z]\w{0,60})?(?:Error|Exception)\b|(?i:\b(?:error|fatal|failed|killed)\b)")


def _tests_passed(texts: Sequence[str]) -> bool:
    """A test runner's last word, and no test failed: what a test printed meanwhile ended nothing."""
    place = next((place for place, text in enumerate(texts) if _ALL_PASSED.search(text)), None)
    if place is None:
        ran = next((place for place, text in enumerate(texts) if _RAN_TESTS.match(text)), len(texts))
        place = next((place for place in range(ran, len(texts)) if _OK.match(texts[place])), None)
    return place is not None and not any(_ENDED_A_TEST.search(text) for text in texts[: place + 1])


_ALL_PASSED = re.compile(r"^\W{0,60}(?:\d{1,6} \w{1,12}, ){0,6}\d{1,6} passed\b.{0,80}\bin \d")
_RAN_TESTS, _OK = re.compile(r"Ran \d{1,6} tests? in \d"), re.compile(r"OK(?: \(.{1,60}\))?\s*$")
_ENDED_A_TEST = re.compile(
    r"(?i)\b\d{1,6} (?:failed|errors?|failures?)\b|^(?:FAILED|ERROR)\b|::\S{1,200} (?:FAILED|ERROR)\b"
)
_IS_KILL = re.compile(r"oom[_-]kill|OOM ?Killed|Killed process", re.IGNORECASE)


def _restarts(texts: Sequence[str]) -> bool:
    return any(_STARTED_AGAIN.search(text) for text in texts)


def _steps(texts: Sequence[str]) -> list[int]:
    """The rising numbers of the counter that most lines print."""
    counters: dict[str, list[int]] = {}
    for text in texts:
        for found in (*_STEP.finditer(text), *_STEP_IN_CHINESE.finditer(text), *_BAR.finditer(text)):
            what = found.groupdict().get("what") or "bar"
            numbers = counters.setdefault(what.lower(), [])
            if not numbers or int(found["number"]) > numbers[-1]:
                numbers.append(int(found["number"]))
    return max(counters.values(), key=len, default=[])


_LED_BY = {
    r"(?:reduc|decreas|lower|halv|shrink|Reduc|Decreas|Lower|Halv|Shrink)(?:ing|ed) (?:[a-z-]{1,12} ){0,2}": (
        "batch", "micro", "chunk", "tile", "window", "num_", "max_", "size", "resolution",
    ),
    r"(?:[Rr]e-?try(?:ing)?|[Tt]ry(?:ing)? again|[Aa]ttempt(?:ing)?) ": ("with ", "at ", "on ", "using ", "in "),
    r"(?:[Mm]oving|[Oo]ffloading|[Ss]witching) [^ ]{1,30} ": ("to CPU", "to cpu", "to the CPU"),
    r"[Ff](?:all(?:ing|s)?|ell) ?back ": ("to ", "on "),
    r"[Ss]kipp(?:ing|ed) (?:this |the |a )?": (
        "batch", "sample", "step", "request", "prompt", "image", "frame", "example", "item", "trial",
    ),
}  # fmt: skip
"""What stands before the anchors, which alone are common words."""

FAMILY = Family(
    "recovery",
    (
        *(
            Pattern(anchor, re.escape(anchor), _said, led_by=led_by)
            for led_by, anchors in _LED_BY.items()
            for anchor in anchors
        ),
        *(
            Pattern(anchor, words, _said_in_chinese(_HOW[how]))
            for how, (words, anchors) in _CHINESE.items()
            for anchor in anchors
        ),
        Pattern("存不足", r"[显内]存不足", _went_on),
        Pattern("out of memory", r"(?i)out of memory", _went_on),
        Pattern("MemoryError", r"MemoryError\b", _went_on),
        Pattern("OOM Killed", r"OOM Killed", _went_on),
        Pattern("oom_kill event", r"oom_kill event", _went_on),
        Pattern("Killed process", r"Killed process \d", _went_on),
    ),
)
