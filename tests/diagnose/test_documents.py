# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN texts that quote errors WHEN they are read THEN a page of help confirms nothing, and a report with its log is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Confidence, Diagnosis, Verdict

KILL = (
    "[ 1000.0] Out of memory: Killed process 4242 (mysqld) total-vm:100000kB, anon-rss:90000kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:0 pgtables:100kB oom_score_adj:0\n"
)
TOO_SMALL = (
    "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is needed, which is "
    "larger than the available KV cache memory (1.50 GiB). Based on the available memory, the estimated maximum model length "
    "is 12288.\n"
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 10, in <module>\n    loss.backward()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of "
    "which 1.19 GiB is free. Including non-PyTorch memory, this process has 22.49 GiB memory in use. Of the allocated "
    "memory 21.80 GiB is allocated by PyTorch, and 300.53 MiB is reserved by PyTorch but unallocated.\n"
)
DOCUMENTS = {
    "indented": f"# How to read OOM messages\n\nYou may see a line such as\n\n    {KILL}\nThis means the kernel killed mysqld.\n",
    "fenced": f"## vLLM FAQ\n\nIf you see\n\n```\n{TOO_SMALL}```\nlower `--max-model-len`.\n",
    "advice": f"# Memory\n\n```\n{TRACEBACK}```\n\nReduce the batch size, or shard the model.\n",
    "html": f"<html><body><h1>Common errors</h1><p>If you see this message</p><pre>\n{TRACEBACK}</pre><p>the device is full.</p></body></html>\n",
    "chat": f"User: what does '{TRACEBACK.splitlines()[-1]}' mean?\nAssistant: It means that your GPU is full.\n",
    "what to expect": f"# Memory\n\n## Expected memory by batch size, and what errors mean\nIf you see\n\n```\n{TRACEBACK}```\n\nReduce the batch size.\n",
    "chinese": f"# 常见问题\n\n如果遇到\n\n```\n{TRACEBACK}```\n\n请减小批大小。\n",
}
REPORTS = {
    "issue": f"### Describe the bug\nIf you see the log, it dies\n```\n{TRACEBACK}```\nEnvironment: torch 2.6.0\n",
    "template": f"## Summary\nFine-tuning fails on an A100.\n\n### Logs\n{TRACEBACK}\n### Expected\nIt works as before. If you see this error too, please comment.\n",
    "question": f"I train with batch 8 and get\n\n```\n{TRACEBACK}```\n\nHow to fix this error? What does it mean?\n",
    "mail": f"Our training dies with this:\n\n{TRACEBACK}\nWhat can be the cause if you see this?\n",
    "chinese": f"各位大佬，我在训练时遇到如下错误：\n{TRACEBACK}请问如何解决？\n",
    "program that advises": f"step 1\nstep 2\n{TRACEBACK}This error means you ran out of memory on your GPU.\n",
    "timed": f"2026-01-01 10:00:00 INFO If you see an error, lower the batch size.\n2026-01-01 10:00:01 INFO This means trouble.\n{TRACEBACK}",
}


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def read(**texts: str) -> Diagnosis:
        for name, text in texts.items():
            Path(name).write_text(text)
        return diagnose(list(texts))

    return read


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_confirms_nothing(read, text):
    told = read(page=text)
    assert told.inputs[0].kind == "document"
    assert told.verdict is Verdict.UNDETERMINED
    assert {finding.confidence for finding in told.findings} <= {Confidence.POSSIBLE}
    assert not told.budgets
    assert not told.failed_requests
    assert not any(finding.remedies or finding.owner for finding in told.findings)
    assert "reads as a document" in told.summary


@pytest.mark.parametrize("text", REPORTS.values(), ids=REPORTS)
def test_a_report_of_something_that_happened_is_diagnosed(read, text):
    told = read(issue=text)
    assert told.inputs[0].kind == "log"
    assert told.verdict is Verdict.OUT_OF_MEMORY
    assert told.findings[0].rule == "ACT001"


def test_beside_a_log_a_document_says_nothing(read):
    told = read(readme=DOCUMENTS["indented"], log=TRACEBACK)
    assert [incident.source for incident in told.incidents] == ["log:4"]
    assert told.findings[0].rule == "ACT001"
    assert told.verdict is Verdict.OUT_OF_MEMORY


@pytest.mark.parametrize(
    "line",
    [
        "    raise torch.cuda.OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 MiB')\n",
        "src/a.py:12:    raise OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 MiB')\n",
        'TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 2.00 GiB");\n',
        "INFO logger.py:39] Received request cmpl-1: prompt: 'Explain CUDA out of memory. Tried to allocate 2.00 GiB', n=1\n",
        '{"role": "user", "content": "what is CUDA out of memory. Tried to allocate 2.00 GiB?"}\n',
        'print("| WARNING: ran out of memory, retrying batch")\n',
    ],
)
def test_code_and_prompts_are_nobodys_failure(read, line):
    assert read(log=f"step 1\n{line}").verdict is Verdict.NO_FAILURE
