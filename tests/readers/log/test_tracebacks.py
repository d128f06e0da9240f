from __future__ import annotations

import io
import json

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log.engine import read_log
from oomdoctor.readers.log.tracebacks import FAMILY


def said(text: str) -> tuple[LogEvent, ...]:
    return read_log(io.BytesIO(text.encode()), "train.log", (FAMILY,)).events


FRAMES = """  File "/srv/train.py", line 10, in <module>
    main()
  File "/srv/model.py", line 20, in forward
    return a @ b
           ~~^~~
"""
TWO = (("/srv/train.py", 10, "<module>", "main()"), ("/srv/model.py", 20, "forward", "return a @ b"))


def test_a_whole_traceback() -> None:
    (event,) = said(f"x\nTraceback (most recent call last):\n{FRAMES}RuntimeError: no: luck\nmore\n")
    assert event.kind is K.EXCEPTION
    assert event.source.line == 2
    assert dict(event.fields) == {
        "exception_type": "RuntimeError",
        "message": "no: luck",
        "frames": TWO,
        "chained": False,
        "complete": True,
    }


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank3]: ",
        "(EngineCore_DP0 pid=1) ERROR 10-02 04:47:39 [core.py:708] ",
        "web  | ",
        "E   ",
        "ERROR [core.py:8] ",
    ],
)
def test_prefixed(prefix: str) -> None:
    text = f"Traceback (most recent call last):\n{FRAMES}ValueError: bad\n"
    (event,) = said("".join(f"{prefix}{line}\n" for line in text.splitlines()))
    assert event.fields["exception_type"] == "ValueError"
    assert event.fields["frames"] == TWO


def test_frames_without_header() -> None:
    (event,) = said(f"words\n{FRAMES}torch.OutOfMemoryError: CUDA out of memory.\n")
    assert event.fields["frames"] == TWO
    assert event.fields["exception_type"] == "torch.OutOfMemoryError"
    assert event.fields["complete"] is False


def test_frames_that_were_cut() -> None:
    (event,) = said(FRAMES)
    assert event.fields["frames"] == TWO
    assert "exception_type" not in event.fields
    assert "message" not in event.fields


def test_an_exception_line_alone() -> None:
    (event,) = said("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 1 TiB\n")
    assert event.fields["exception_type"] == "numpy.core._exceptions._ArrayMemoryError"
    assert "frames" not in event.fields


def test_an_exception_line_behind_an_engine_s_header() -> None:
    (event,) = said("ERROR core.py:291] ValueError: No memory: none\n")
    assert (event.fields["exception_type"], event.fields["message"]) == ("ValueError", "No memory: none")


def test_chained() -> None:
    text = f"Traceback (most recent call last):\n{FRAMES}KeyError: 'a'\n"
    events = said(f"{text}\nDuring handling of the above exception, another exception occurred:\n\n{text}")
    assert [event.fields["chained"] for event in events] == [False, True]


def test_a_notebook() -> None:
    (event,) = said(
        "---------------------------------------------------------------------------\n"
        "RuntimeError                              Traceback (most recent call last)\n"
        "<ipython-input-5-abc> in <module>()\n"
        "     96 x = 1\n"
        "---> 98 loss.backward()\n"
        "     99 y = 2\n"
        "\n"
        "~/lib/torch/tensor.py in backward(self, gradient)\n"
        "    100     def f():\n"
        "--> 102         run(self)\n"
        "\n"
        "RuntimeError: CUDA out of memory.\n"
    )
    assert event.fields["frames"] == (
        ("<ipython-input-5-abc>", 98, "<module>", "loss.backward()"),
        ("~/lib/torch/tensor.py", 102, "backward", "run(self)"),
    )
    assert event.fields["message"] == "CUDA out of memory."


def test_a_notebook_cut_before_its_arrow() -> None:
    (event,) = said("RuntimeError                Traceback (most recent call last)\n<ipython-input-5> in <module>()\n")
    assert event.fields["exception_type"] == "RuntimeError"
    assert event.fields["frames"] == (("<ipython-input-5>", None, "<module>", ""),)


def test_a_newer_notebook() -> None:
    (event,) = said(
        "OutOfMemoryError             Traceback (most recent call last)\n"
        "Cell In[3], line 7\n      5 a = 1\n----> 7 f(a)\n\n"
        "File ~/lib/x.py:12, in f(a)\n     11 pass\n---> 12 g(a)\n\n"
        "OutOfMemoryError: CUDA out of memory.\n"
    )
    assert event.fields["frames"] == (("Cell In[3]", 7, "", "f(a)"), ("~/lib/x.py", 12, "f", "g(a)"))


def test_a_box_drawn_by_rich() -> None:
    (event,) = said(
        "╭────────── Traceback (most recent call last) ──────────╮\n"
        "│ /srv/train.py:12 in forward                           │\n"
        "│                                                       │\n"
        "│    10 def forward(a):                                 │\n"
        "│ ❱  12     return a @ a                                │\n"
        "╰───────────────────────────────────────────────────────╯\n"
        "OutOfMemoryError: CUDA out of memory.\n"
    )
    assert event.fields["frames"] == (("/srv/train.py", 12, "forward", "return a @ a"),)
    assert event.fields["exception_type"] == "OutOfMemoryError"


def test_a_json_record_that_holds_a_traceback() -> None:
    record = f"Traceback (most recent call last):\n{FRAMES}ValueError: bad"
    (event,) = said(json.dumps({"level": "ERROR", "message": record, "n": 1}) + "\n")
    assert event.source.line == 1
    assert event.fields["frames"] == TWO
    assert (event.fields["exception_type"], event.fields["message"]) == ("ValueError", "bad")


def test_endless_recursion_is_bounded() -> None:
    (event, *_) = said("Traceback (most recent call last):\n" + FRAMES * 3000 + "RecursionError: maximum\n")
    assert len(event.fields["frames"]) <= 200  # type: ignore[arg-type]


def test_two_tracebacks_in_a_row() -> None:
    text = f"Traceback (most recent call last):\n{FRAMES}"
    events = said(f"{text}KeyError: 'a'\n{text}ValueError: b\n")
    assert [event.fields["exception_type"] for event in events] == ["KeyError", "ValueError"]


@pytest.mark.parametrize(
    "code",
    [
        '    x = x.to("cuda", non_blocking=True)',
        "    return self.proj(torch.cat(parts, dim=1))",
        "        loss.backward()",
        "    total += logits.float().sum()",
    ],
)
def test_code_before_a_quoted_exception_is_a_frame_without_a_place(code: str) -> None:
    text = f"{code}\ntorch.OutOfMemoryError: CUDA out of memory.\n"
    (event,) = [event for event in read_log(io.BytesIO(text.encode()), "a.log").events if event.kind is K.EXCEPTION]
    assert event.fields["frames"] == (("?", None, "", code.strip()),)
    assert event.fields["complete"] is False


def test_the_markers_below_the_code_are_passed_over() -> None:
    text = "    y = model(x)\n        ^^^^^^^^\ntorch.OutOfMemoryError: CUDA out of memory.\n"
    (event,) = [event for event in read_log(io.BytesIO(text.encode()), "a.log").events if event.kind is K.EXCEPTION]
    assert event.fields["frames"] == (("?", None, "", "y = model(x)"),)


@pytest.mark.parametrize("before", ["epoch 3 loss = 2.1", "  loading the weights (7 of 9)", "    see the notes", ""])
def test_no_other_line_is_taken_for_code(before: str) -> None:
    text = f"{before}\ntorch.OutOfMemoryError: CUDA out of memory.\n"
    (event,) = [event for event in read_log(io.BytesIO(text.encode()), "a.log").events if event.kind is K.EXCEPTION]
    assert "frames" not in event.fields


def test_a_hosted_notebook_links_its_files() -> None:
    (event,) = said(
        "[/usr/lib/python3/dist-packages/pkg/tools.py](https://localhost:8080/#) in joined(a, b)\n"
        "     40 \n---> 41     out = a.new_full(shape, 0)\n     42     return out\n\n"
        "OutOfMemoryError: CUDA out of memory.\n"
    )
    file = "/usr/lib/python3/dist-packages/pkg/tools.py"
    assert event.fields["frames"] == ((file, 41, "joined", "out = a.new_full(shape, 0)"),)
