"""GIVEN a log that ends within torch's message WHEN it is read THEN a sentence names the figures that were cut off."""

from __future__ import annotations

import pytest

from .asked import ask
from .mixtures import TRAINING

MESSAGE = TRAINING.rstrip("\n")
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 1.75 GiB (GPU 0; 39.39 GiB total capacity; 37.60 GiB already "
    "allocated; 503.00 MiB free; 37.90 GiB reserved in total by PyTorch)"
)
ASKED, SIZE, FREE, PROCESS = "what was asked for", "the device's size", "what was free", "what the process held"
LIVE, RESERVED, IDLE = "what live tensors held", "what the allocator had reserved", "what was reserved and in no tensor"


@pytest.mark.parametrize(
    ("message", "end", "cut"),
    [
        (MESSAGE, "Tried to allo", [ASKED]),
        (MESSAGE, "Tried to allocate 1.7", [ASKED]),
        (MESSAGE, "total capacity of 39.3", [SIZE, FREE, PROCESS, LIVE, IDLE]),
        (MESSAGE, "39.39 GiB of which 503", [FREE, PROCESS, LIVE, IDLE]),
        (MESSAGE, "Including non-PyTorch memory, this pro", [PROCESS, LIVE, IDLE]),
        (MESSAGE, "Of the allocated memory 37", [LIVE, IDLE]),
        (MESSAGE, "by PyTorch, and 310.2", [IDLE]),
        (OLD, "39.39 GiB total capacity; 37", [LIVE, FREE, RESERVED]),
        (OLD, "already allocated; 503", [FREE, RESERVED]),
    ],
)
def test_the_figures_that_were_cut_are_named(message, end, cut):
    found = ask(message[: message.index(end) + len(end)])
    (note,) = [note for note in found.notes if "ends in the middle of the message" in note]
    assert f"Cut off, and so not known: {', '.join(cut)}." in note


@pytest.mark.parametrize(
    "whole",
    [MESSAGE, OLD, f"{OLD}\n", "RuntimeError: CUDA out of memory. Tried to allocate 1.75 GiB", f"{MESSAGE}\nstep"],
)
def test_a_message_that_is_whole_is_not_said_to_be_cut(whole):
    assert not any("ends in the middle" in note for note in ask(whole).notes)
