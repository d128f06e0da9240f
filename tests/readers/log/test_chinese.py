"""GIVEN what programs print in Chinese WHEN it is read THEN failures, recoveries and mere advice are told apart."""

from __future__ import annotations

import io

import pytest

from oomdoctor.diagnose.pipeline import diagnose
from oomdoctor.model.events import EventKind as K
from oomdoctor.readers.log.engine import read_log

OOM = "错误：训练失败，原因：torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def kinds(text: str) -> list[K]:
    return [event.kind for event in read_log(io.BytesIO(text.encode()), "a.log").events]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2026-01-01 训练失败：显存不足，请减小批大小", K.DEVICE_OOM),
        ("错误：CUDA 内存不足。尝试分配 3.00 GiB。", K.DEVICE_OOM),
        ("[ERROR] GPU显存不足", K.DEVICE_OOM),
        ("进程已被系统杀死（内存不足）", K.PROCESS_KILLED),
        ("错误：内存不足，无法加载数据集", K.HOST_ALLOCATION_FAILED),
        ("显存不足错误", K.DEVICE_OOM),
    ],
)
def test_a_failure(text, kind, tmp_path):
    assert kinds(text) == [kind]
    (tmp_path / "a.log").write_text(text + "\n", encoding="utf-8")
    assert diagnose([tmp_path / "a.log"]).verdict.value != "no-failure"


def test_what_was_asked_for():
    (event,) = read_log(io.BytesIO("错误：CUDA 内存不足。尝试分配 3.00 GiB。".encode()), "a.log").events
    assert event.size("requested_bytes") == 3 << 30


@pytest.mark.parametrize(
    "text",
    [
        "如果训练失败并提示显存不足，请减小批大小",
        "为避免显存不足错误，已启用梯度检查点",
        "显存不足时会报错退出",
        "警告：显存可能不足",
        "没有出现显存不足错误",
        "# 显存不足错误的处理",
        "解决内存不足错误的办法",
    ],
)
def test_advice_and_documents_are_no_failure(text):
    assert kinds(text) == []


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("已跳过该批次，继续训练", "skipped-batch"),
        ("已自动减小批大小到 4", "smaller-batch"),
        ("使用更小的批次大小重试", "retry"),
        ("已自动切换到 CPU", "fallback"),
    ],
)
def test_what_the_program_does_about_it(words, how):
    events = read_log(io.BytesIO(f"{OOM}\n{words}\n".encode()), "a.log").events
    assert [event.word("how") for event in events if event.kind is K.RECOVERED] == [how]


@pytest.mark.parametrize("words", ["请跳过该批次", "建议使用更小的批次大小重试", "未跳过该批次"])
def test_what_it_advises_is_no_recovery(words):
    assert K.RECOVERED not in kinds(f"{OOM}\n{words}\n")


@pytest.mark.parametrize("failure", [OOM, "训练失败：显存不足"])
def test_steps_and_a_completion_after_it(failure):
    steps = "".join(f"第 {number} 步，损失 2.0\n" for number in (12, 13))
    assert K.RECOVERED in kinds(f"{failure}\n{steps}训练完成，模型已保存\n")
    assert K.RECOVERED not in kinds(f"{failure}\n训练已停止\n")
