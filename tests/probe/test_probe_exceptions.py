"""GIVEN an exception that nothing caught WHEN it ends a thread or process THEN it is recorded, and prints as before."""

from __future__ import annotations

import pytest
from watched import Harness

RAISING = """
def inner(n):
    raise KeyError("step %d" % n)

def outer():
    try:
        inner(3)
    except KeyError as error:
        raise RuntimeError("training failed") from error

if __name__ == "__main__":
    outer()
"""

ENDINGS = {
    "traceback": RAISING,
    "exit status": "import sys; sys.exit(5)",
    "exit message": "raise SystemExit('stop')",
    "interrupt": "raise KeyboardInterrupt",
    "syntax": "exec('1 +')",
    "recursion": "def f(): f()\nf()",
    "failing import": "import broken",
    "failing hook": "import sys\ndef hook(*a): 1/0\nsys.excepthook = hook\nraise ValueError(1)",
    "no hook": "import sys\ndel sys.excepthook\nraise ValueError(1)",
    "signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "unprintable": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
    "thread": "import threading\nt = threading.Thread(target=lambda: 1/0, name='w'); t.start(); t.join()",
    "hook identity": "import sys, threading; print(sys.excepthook is sys.__excepthook__, threading.active_count())",
}


@pytest.mark.parametrize("text", ENDINGS.values(), ids=ENDINGS.keys())
def test_the_end_is_the_same_as_without(each: Harness, text: str) -> None:
    each.script("import no_such_thing", "broken.py")
    each.script("import no_such_thing", "torch.py")
    script = each.script(text)
    watched, alone = each.run(script), each.run(script, probe=False)
    assert watched.stderr == alone.stderr
    assert watched.returncode == alone.returncode
    assert watched.stdout == alone.stdout
    assert each.records("probe-error") == []


def test_a_failing_import_of_torch_prints_as_before(each: Harness) -> None:
    each.script("import no_such_thing", "torch/__init__.py")
    script = each.script("import torch")
    assert each.run(script).stderr == each.run(script, probe=False).stderr
    assert each.records("torch") == []


def test_the_traceback_and_what_caused_it_are_recorded(each: Harness) -> None:
    script = each.script(RAISING)
    each.run(script)
    (record,) = each.records("exception")
    assert record["exception_type"] == "RuntimeError"
    assert record["message"] == "training failed"
    assert record["fatal"] is True
    assert record["is_memory_error"] is False
    assert record["thread"] is None
    assert record["large_objects"] == []
    assert record["frames"] == [
        [script, 12, "<module>", "outer()"],
        [script, 9, "outer", 'raise RuntimeError("training failed") from error'],
    ]
    (cause,) = record["chain"]
    assert (cause["exception_type"], cause["frames"][-1][1:3]) == ("KeyError", [3, "inner"])
    (end,) = each.records("end")
    assert (end["clean"], end["after_exception"]) == (True, True)


def test_an_exception_in_a_thread_is_recorded(each: Harness) -> None:
    each.run(each.script("import threading\nt = threading.Thread(target=lambda: 1/0, name='loader'); t.start()"))
    (record,) = each.records("exception")
    assert (record["thread"], record["exception_type"]) == ("loader", "ZeroDivisionError")
    assert each.records("end")[0]["after_exception"] is False


HOOKS = {
    "replaced": "import sys\nsys.excepthook = lambda *a: None\n",
    "chained": "import sys\nold = sys.excepthook\nsys.excepthook = lambda *a: old(*a)\n",
    "restored": "import sys\nsys.excepthook = sys.__excepthook__\n",
}


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS.keys())
def test_a_hook_of_the_users_does_not_hide_it(each: Harness, hook: str) -> None:
    each.run(each.script(hook + "raise ValueError('mine')"))
    (record,) = each.records("exception")
    assert record["message"] == "mine"


def test_secrets_in_messages_and_source_lines_are_masked(harness: Harness) -> None:
    text = """
def login(**named):
    raise ValueError("refused: https://me:hunter22@host"
        " Authorization: Bearer abcdefgh-abcdefgh token=ijklmnop tokens: many")
tokenizer = str
tokenizer = tokenizer(login(author="Somebody", api_key="qrstuvwx", name="hf_yzabcdefghijklmnopqrst"))
"""
    harness.run(harness.script(text))
    (record,) = harness.records("exception")
    for secret in ("hunter22", "abcdefgh", "ijklmnop", "qrstuvwx"):
        assert secret not in str(record)
    assert record["message"] == (
        "refused: https://<masked>@host Authorization: Bearer <masked> token=<masked> tokens: many"
    )
    assert record["frames"][0][3] == (
        'tokenizer = tokenizer(login(author="Somebody", api_key="<masked>", name="<masked>"))'
    )


def test_both_ends_of_a_deep_recursion_are_kept(harness: Harness) -> None:
    harness.run(harness.script("def f(n):\n    return f(n + 1)\nf(0)"))
    (record,) = harness.records("exception")
    assert len(record["frames"]) == 200
    assert record["frames"][0][2] == "<module>"


@pytest.mark.parametrize(
    ("text", "memory", "device"),
    [
        ("raise MemoryError", True, False),
        ("class _ArrayMemoryError(MemoryError): pass\nraise _ArrayMemoryError('Unable to allocate')", True, False),
        ("raise OSError(12, 'Cannot allocate memory')", True, False),
        ("raise RuntimeError('[enforce fail] DefaultCPUAllocator: can\\'t allocate memory')", True, False),
        ("raise RuntimeError('CUDA out of memory. Tried to allocate')", False, True),
        ("class OutOfMemoryError(RuntimeError): pass\nraise OutOfMemoryError('HIP')", False, True),
        ("raise RuntimeError('size mismatch')", False, False),
    ],
)
def test_kinds_of_memory_error_are_told_apart(harness: Harness, text: str, memory: bool, device: bool) -> None:
    harness.run("-c", text)
    (record,) = harness.latest("exception")
    assert (record["is_memory_error"], record["is_device_oom"]) == (memory, device)
