"""GIVEN the command that ran is known WHEN a line to copy asks to run it again THEN it stands in that line."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor.diagnose import diagnose
from oomdoctor.language import _, speaking
from oomdoctor.model.run_again import to_be_watched
from oomdoctor.model.texts import texts_of


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("python train.py --lr 1e-4", "python train.py --lr 1e-4"),
        ("vllm serve a/b --max-model-len 8192", "vllm serve a/b --max-model-len 8192"),
        ("A=0,1 torchrun t.py", "env A=0,1 torchrun t.py"),
        ("python -c 'import torch; print(1)'", "python -c 'import torch; print(1)'"),
        ("oomdoctor run --name x -- python a.py", "python a.py"),
        ("python a.py 2>&1 | tee log", None),
        ("cd src && python a.py", None),
        ("python a.py --out $HOME/x", None),
        ("docker run --gpus all vllm/vllm-openai --model a", None),
        ("sudo python a.py", None),
        ("python a.py --note 'unclosed", None),
        ("python a.py --key <masked>", None),
        ("python a.py\npython b.py", None),
        ("A=1 B=2", None),
        ("", None),
        ("python a.py " + "x" * 400, None),
    ],
)
def test_a_command_that_may_stand_behind_run(command: str, line: str | None) -> None:
    assert to_be_watched(command) == line


FAILED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB "
    "of which 1.10 GiB is free. Including non-PyTorch memory, this process has 22.50 GiB memory in use. Of the "
    "allocated memory 21.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n"
)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_stands_wherever_it_is_asked_for(tmp_path: Path, language: str) -> None:
    log = tmp_path / "a.log"
    log.write_text(FAILED)
    with speaking(language):
        asked, told = diagnose([log]), diagnose([log], command="python train.py --lr 1e-4")
        assert any(_("<your command>") in text for text in texts_of((asked.findings, asked.missing)))
        texts = texts_of((told.findings, told.missing))
        assert any("oomdoctor run -- python train.py --lr 1e-4" in text for text in texts)
        assert not any(word in text for text in texts for word in ("<your command>", _("<your command>")))


def test_a_launch_line_in_the_log_is_it(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"$ python train.py --lr 1e-4\n{FAILED}")
    texts = texts_of(diagnose([log]).findings)
    assert any("oomdoctor run -- python train.py --lr 1e-4" in text for text in texts)
