# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN one failure as journals, collectors, terminals and people pass it on WHEN it is read THEN it says the same."""

from __future__ import annotations

import io
import json

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log.engine import read_log

GIB = 1 << 30
MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of "
    "which 1.19 GiB is free. Including non-PyTorch memory, this process has 22.49 GiB memory in use. Of the allocated "
    "memory 21.80 GiB is allocated by PyTorch, and 300.53 MiB is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
LINES = [
    "Traceback (most recent call last):",
    '  File "/srv/train.py", line 10, in step',
    "    loss.backward()",
    '  File "/lib/torch/_tensor.py", line 521, in backward',
    "    torch.autograd.backward(",
    MESSAGE,
]
STAMP = "2026-11-28T03:00:0{}.000Z"


def rows(form) -> str:
    return "\n".join(form(place, line) for place, line in enumerate(LINES)) + "\n"


def wrapped(width: int, trimmed: bool) -> str:
    pieces = [line[start : start + width] for line in LINES for start in range(0, len(line), width)]
    return "\n".join(piece.rstrip() if trimmed else piece for piece in pieces) + "\n"


FORMS = {
    "journald": rows(lambda n, text: json.dumps({"__REALTIME_TIMESTAMP": f"179583480000000{n}", "_PID": "55", "MESSAGE": text})),
    "docker": rows(lambda n, text: json.dumps({"log": text + "\n", "stream": "stderr", "time": STAMP.format(n)}, separators=(",", ":"))),
    "structured": rows(lambda n, text: json.dumps({"ts": STAMP.format(n), "level": "error", "msg": "worker", "error": text})),
    "one record": json.dumps({"level": "error", "message": "\n".join(LINES)}) + "\n",
    "jq": json.dumps([{"level": "ERROR", "message": "\n".join(LINES)}], indent=2) + "\n",
    "logfmt": 'level=error msg="' + "\n".join(LINES).replace('"', '\\"').replace("\n", "\\n") + '"\n',
    "gh": rows(lambda n, text: f"train\tRun training\t{STAMP.format(n)} {text}"),
    "csv": rows(lambda n, text: '"Nov 28, 2026 @ 03:00:0{}.000","{}"'.format(n, text.replace('"', '""'))),
    "quoted": rows(lambda n, text: f" > {text}"),
    "tmux": wrapped(80, False),
    "tmux, blanks at the edge lost": wrapped(80, True),
    "wide": wrapped(132, False),
    "title": rows(lambda n, text: f"\x1b]0;user@host{text}" if n == 5 else text),
}  # fmt: skip


def read(text: str) -> tuple[LogEvent, ...]:
    return read_log(io.BytesIO(text.encode()), "a.log").events


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_the_message_and_the_frames_are_read(text):
    events = read(text)
    failures = [event for event in events if event.kind is K.DEVICE_OOM]
    assert [failure.size("requested_bytes") for failure in failures] == [2 * GIB]
    assert failures[0].size("free_bytes") == round(1.19 * GIB)
    assert failures[0].size("allocated_bytes") == round(21.80 * GIB)
    (error,) = [event for event in events if event.kind is K.EXCEPTION]
    assert [frame[0] for frame in error.fields["frames"]] == ["/srv/train.py", "/lib/torch/_tensor.py"]


def test_the_end_of_a_message_tells_its_figures():
    (failure,) = [event for event in read(MESSAGE[200:]) if event.kind is K.DEVICE_OOM]
    assert failure.size("requested_bytes") is None
    assert failure.size("allocated_bytes") == round(21.80 * GIB)


def test_one_reason_in_json_is_kuberneteses_word():
    state = json.dumps({"lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}, indent=2)
    assert any(event.fields.get("oom_stated") is True for event in read(state))


def test_words_of_an_email_are_joined_with_blanks():
    words = MESSAGE.replace(" is reserved", "\nis reserved").replace(" of which", "\nof which")
    (failure,) = [event for event in read(words) if event.kind is K.DEVICE_OOM]
    assert failure.size("reserved_unallocated_bytes") == round(300.53 * (1 << 20))
