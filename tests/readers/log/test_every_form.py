"""GIVEN every form of message that frameworks are known to print, bare and behind what launchers and collectors put
before lines WHEN it is read THEN its figures are, and the same ones.

`forms.txt` holds the forms; `OOMDOCTOR_UPDATE_GOLDEN=1` writes anew what is read of them: look at the difference.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from extended import extended_but

from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.readers.log.engine import read_log

_FILE = Path(__file__).with_name("forms.txt")
_LEFT_OUT = {"exception_type", "generation", "wrapped_by", "advice", "inner"}
_HEAD, *_BLOCKS = _FILE.read_text(encoding="utf-8").rstrip("\n").split("\n\n")


def _form(block: str) -> str:
    return "\n".join(line for line in block.splitlines() if not line.startswith(("=> ", "# ")))


FORMS = [_form(block) for block in _BLOCKS]


def _events(text: str) -> list[LogEvent]:
    events = read_log(io.BytesIO(f"{text}\n".encode()), "a.log").events
    return [event for event in events if event.kind is not EventKind.EXCEPTION]


def _said(event: LogEvent, *, writer: bool = True) -> str:
    fields = {name: value for name, value in event.fields.items() if name not in _LEFT_OUT and value is not None}
    if writer:
        of_writer = {"pid": event.pid, "rank": event.rank, "device": event.device}
        fields = {**{k: v for k, v in of_writer.items() if v is not None and k not in fields}, **fields}
    return " ".join([event.kind.value, *sorted(f"{name}={value}" for name, value in fields.items())])


def _now(number: int) -> str:
    said = [f"=> {_said(event)}" for event in _events(FORMS[number])] or ["=> nothing"]
    kept = [line for line in _BLOCKS[number].splitlines() if not line.startswith("=> ")]
    return "\n".join([*kept, *said])


@pytest.mark.parametrize("number", range(len(FORMS)), ids=[form[:60] for form in FORMS])
def test_every_form_is_read(number: int) -> None:
    assert os.environ.get("OOMDOCTOR_UPDATE_GOLDEN") or _BLOCKS[number] == _now(number)


def test_the_forms_are_all_there() -> None:
    assert len(FORMS) > 250
    if os.environ.get("OOMDOCTOR_UPDATE_GOLDEN"):
        blocks = [_HEAD, *map(_now, range(len(FORMS)))]
        _FILE.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


_TIME = "2026-03-07T21:49:33"
PREFIXES = {
    "rank": "[rank3]: ",
    "torchrun": "[default3]:",
    "mpirun": "[1,3]<stderr>:",
    "srun": "3: ",
    "pdsh": "node-17: ",
    "ray": "\x1b[36m(TrainWorker pid=41, ip=10.0.0.7)\x1b[0m ",
    "compose": "trainer-1  | ",
    "compose, coloured": "\x1b[33mtrainer-1  | \x1b[0m",
    "docker": f"{_TIME}.123456789Z ",
    "containerd": f"{_TIME}.123456789+02:00 stderr F ",
    "kubectl": "[pod/trainer-0/main] ",
    "syslog": "Mar  7 21:49:33 node1 python[4121]: ",
    "pytest": "E       ",
    "box": "│ ",
    "logging": f"{_TIME.replace('T', ' ')},123 - app.train - ERROR - ",
    "logging of transformers": "03/07/2026 21:49:33 - ERROR - __main__ - ",
    "loguru": f"{_TIME.replace('T', ' ')}.123 | ERROR    | app.train:run:120 - ",
    "glog": "E0307 21:49:33.123456 4121 train.cc:77] ",
    "tracing": f"{_TIME}.123456Z ERROR text_generation_launcher: ",
    "vllm": "(EngineCore_DP0 pid=41) ERROR 03-07 21:49:33 [core.py:708] ",
    "sglang": "[2026-03-07 21:49:33 TP3] ",
    "quoted": "> ",
    "colour": "\x1b[31m",
    "progress bar": "step 10:   3%|x  | 3/100 [00:01<00:30]\r",
    "all together": f"trainer-1  | {_TIME}.123456789Z \x1b[36m(TrainWorker pid=41)\x1b[0m [rank3]: ",
}
_SHELL_ALONE = ("Killed", "Bus error", "MemoryError")
"""What a shell or Python prints with nothing before it; loggers do not."""


@pytest.mark.parametrize("name", extended_but(PREFIXES, "all together", "progress bar", "tracing"))
def test_a_prefix_changes_nothing(name: str) -> None:
    place = list(PREFIXES).index(name)
    for form in FORMS[place % 5 :: 5]:
        if ("\n" in form and name in ("progress bar", "box")) or form.startswith(_SHELL_ALONE):
            continue
        prefixed = "\n".join(PREFIXES[name] + line for line in form.splitlines())
        bare = [_said(event, writer=False) for event in _events(form)]
        assert [_said(event, writer=False) for event in _events(prefixed)] == bare, form


@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "[1,3]<stderr>:", "3: ", "node17: ", "[pod/trainer-0/main] "])
@pytest.mark.parametrize("alone", ["Killed", "MemoryError", "Bus error (core dumped)"])
def test_words_that_stand_alone_are_read_behind_the_name_of_a_machine(prefix: str, alone: str) -> None:
    assert len(_events(prefix + alone)) == 1
    assert _events(f"the worker was {alone}, it seems") == []


NOON = 1772920173
OOM = "RuntimeError: CUDA out of memory. Tried to allocate 1.31 GiB (GPU 2; 31.72 GiB total capacity; 9.02 GiB free)"


@pytest.mark.parametrize(
    ("line", "rank", "pid", "time"),
    [
        (f"[1,3]<stderr>:{OOM}", 3, None, None),
        (f"[Rank 3] {OOM}", 3, None, None),
        (f"{_TIME.replace('T', ' ')},250 - app - ERROR - {OOM}", None, None, NOON + 0.25),
        (json.dumps({"ts": NOON + 0.25, "rank": 3, "pid": 17, "msg": OOM}), 3, 17, NOON + 0.25),
        (json.dumps({"__REALTIME_TIMESTAMP": f"{NOON}250000", "_PID": "17", "MESSAGE": OOM}), None, 17, NOON + 0.25),
        (f"{_TIME}.250Z \x1b[36m(W pid=17)\x1b[0m [rank3]: {OOM}", 3, 17, NOON + 0.25),
    ],
)  # fmt: skip
def test_an_event_keeps_place_device_rank_process_and_time(line, rank, pid, time) -> None:
    (event,) = _events(f"epoch 1\nepoch 2\n{line}")
    assert (event.source.path, event.source.line, event.device) == ("a.log", 3, 2)
    assert (event.rank, event.pid, event.time_seconds) == (rank, pid, time)
