"""GIVEN commits and differences that quote a failure WHEN a log with them is read THEN nothing failed for that."""

from __future__ import annotations

import io

import pytest

from oomdoctor.readers.log.engine import read_log

OOM = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; 20.01 GiB already"
    " allocated; 1.10 GiB free; 21.40 GiB reserved in total by PyTorch)"
)
HEAD = (
    "commit 4f3c2a1b9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a (HEAD -> main)\n"
    "Author: A. Person <a@example.org>\nDate:   Mon Nov 30 10:00:00 2026 +0000\n\n"
)
QUOTED = [
    f"{HEAD}    Halve the batch, for it ended with\n\n        {OOM}\n\n    on small cards\n",
    f"step 1 loss 0.5\n{HEAD}    Killed\n    {OOM}\n\nstep 2 loss 0.4\n",
    f"4f3c2a1 first\n9d8e7f6 (tag: v1) fix {OOM}\n",
    "* 4f3c2a1 no more MemoryError\n| * 9d8e7f6 the pod is no longer OOMKilled\n",
    "diff --git a/t.py b/t.py\n--- a/t.py\n+++ b/t.py\n@@ -10,2 +10,2 @@ def main():\n     a = 1\n"
    f"-# {OOM}\n+# Killed\n",
]
OWN = [
    f"{HEAD}    Halve the batch\n\n{OOM}\n",
    f"{HEAD}    Halve the batch\n\n$ python train.py\n    {OOM}\n",
    f"    {OOM}\n",
    f"- {OOM}\n",
    f"4f3c2a1 first\n\n{OOM}\n",
]


@pytest.mark.parametrize("text", QUOTED)
def test_quoted(text):
    assert not read_log(io.BytesIO(text.encode()), "x.log").events


@pytest.mark.parametrize("text", OWN)
def test_own(text):
    assert read_log(io.BytesIO(text.encode()), "x.log").events


def test_notes_on_a_release_are_a_document():
    text = f"## 1.4.2\n- Fixed: `{OOM}`\n- Fixed: MemoryError when the last file is short\n\n## 1.4.1\n- First\n"
    assert read_log(io.BytesIO(text.encode()), "x.log").is_document
