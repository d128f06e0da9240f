"""GIVEN a failure that a log prints WHEN what follows shows that it ended nothing THEN the program went on."""

from __future__ import annotations

import io

import pytest

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Verdict
from oomdoctor.model.events import EventKind as K
from oomdoctor.readers.log.engine import read_log

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB."
CAPTURED = f"tests/test_loop.py::test_retries PASSED\n----- Captured stderr call -----\n{OOM}\n"
TESTED = f"test_retries (tests.test_loop.Loop) ... {OOM}\nok\n\n" + "-" * 70 + "\nRan 4 tests in 2.1s\n\n"


def went_on(text: str) -> bool:
    events = read_log(io.BytesIO(text.encode()), "a.log").events
    assert any(event.kind is K.DEVICE_OOM for event in events)
    return any(event.kind is K.RECOVERED for event in events)


@pytest.mark.parametrize(
    "text",
    [
        f"{CAPTURED}===== 7 passed in 3.21s =====\n",
        f"{CAPTURED}===== 7 passed, 2 skipped, 1 warning in 63.21s (0:01:03) =====\n",
        f"{CAPTURED}1 skipped, 7 passed in 3.21s\n",
        f"{TESTED}OK\n",
        f"{TESTED}OK (skipped=1)\n",
    ],
)
def test_what_a_test_printed_that_passed(text):
    assert went_on(text)


@pytest.mark.parametrize(
    "text",
    [
        CAPTURED,
        f"{CAPTURED}===== 1 failed, 7 passed in 3.21s =====\n",
        f"{CAPTURED}FAILED tests/test_loop.py::test_other - assert 0\n7 passed in 3.21s\n",
        f"{CAPTURED}===== 7 passed, 1 error in 3.21s =====\n",
        f"{TESTED}FAILED (errors=1)\n",
        f"{OOM}\nOK\n",
        f"tests/a.py::test_a FAILED\n7 passed in 3.21s\n{OOM}\n",
    ],
)
def test_a_test_that_failed_tells_nothing_of_the_kind(text):
    assert not went_on(text)


TF = (
    "2026-02-03 04:05:06.0: W tensorflow/core/common_runtime/bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of "
    "memory trying to allocate 3.00GiB (rounded to 3221225472)requested by op foo\n"
)


@pytest.mark.parametrize(
    ("after", "so"),
    [
        ("2026-02-03 04:05:09: I epoch 2 finished\n", True),
        ("step 5 loss 0.5\n", True),
        ("", False),
        ("Epoch 2/5\n", False),
        ("epoch 2 finished\nKilled\n", False),
        ("epoch 2 finished\nValueError: no such column\n", False),
        (f"epoch 2 finished\n{TF}", False),
        ("saving failed\nepoch 2 finished\n", False),
    ],
)
def test_a_warning_after_which_a_step_ends(after, so):
    assert went_on(f"{TF}{after}") is so


def test_a_trial_that_optuna_gave_up_and_the_next():
    after = "[I 2026-11-30 10:03:00,123] Trial 5 finished with value: 0.72 and parameters: {'bs': 16}.\n"
    failed = f"[W 2026-11-30 10:01:00,123] Trial 4 failed with {{'bs': 128}} because of: OutOfMemoryError('{OOM}').\n"
    assert went_on(failed + after)
    assert not went_on(failed)


@pytest.mark.parametrize(
    "last",
    [
        "Training completed. Do not forget to share your model on huggingface.co/models =)",
        "{'train_runtime': 120.3, 'train_samples_per_second': 3.1}",
        "`Trainer.fit` stopped: `max_epochs=3` reached.",
    ],
)
def test_a_trainer_came_to_its_end(last):
    assert went_on(f"step 10\n{OOM}\nsaved\n{last}\n")
    assert not went_on(f"step 10\n{OOM}\nTraceback (most recent call last):\nsaved\n{last}\n")


def test_an_error_is_no_warning():
    assert not went_on(f"{OOM}\nepoch 2 finished\n")
    assert went_on(f"WARNING {OOM}\nepoch 2 finished\n")


def test_a_step_of_before_is_no_progress():
    assert not went_on(f"epoch 2 finished\n{TF}epoch 2 finished\n")


def test_what_ended_it_later_is_named_before_what_did_not(tmp_path):
    later = (
        "Traceback (most recent call last):\n  File \"train.py\", line 30, in <module>\n    d[k]\nKeyError: 'labels'\n"
    )
    log = f"step 10\n{OOM}\nskipping batch\nstep 11 loss 2.1\nstep 12 loss 2.0\n{later}"
    (tmp_path / "a.log").write_text(log, encoding="utf-8")
    diagnosis = diagnose([tmp_path / "a.log"])
    assert diagnosis.verdict is Verdict.NOT_OUT_OF_MEMORY
    assert diagnosis.summary.startswith(
        "The program ended with KeyError, not for want of memory. It had gone on after "
    )
    assert "ut of memory" in diagnosis.summary.split(" It had gone on after ")[1]
