"""GIVEN --lang zh WHEN a command speaks, refuses or helps THEN no English sentence is left, no line too wide."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from english import ENGLISH, Texts

from oomdoctor.cli.command import CLICK_PLURALS, CLICK_TEXTS, help_texts, speak_click
from oomdoctor.cli.main import COMMANDS, oomdoctor
from oomdoctor.errors import OomdoctorError
from oomdoctor.language import CHINESE, LANGUAGE_VARIABLE, _, speaking
from oomdoctor.language.wrapping import cells
from oomdoctor.playbook.load import load_playbook
from oomdoctor.playbook.page import Page, page_of

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
BUNDLE, OTHER = SAMPLES / "run-kept-losses", SAMPLES / "run-container-limit"
SNAPSHOT, LOG = SAMPLES / "fragmentation" / "snapshot.pickle", SAMPLES / "one-long-prompt.log"
CONFIG = {
    "model_type": "gemma3_text", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 6,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "sliding_window": 64,
    "sliding_window_pattern": 3, "vocab_size": 1024, "torch_dtype": "bfloat16", "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}  # fmt: skip
QUOTED = {
    "NVML Shared Library Not Found", "t open file'", "KiB x size", "MiB x size", "half, float, bf",
    "q, k, v", "PSI full avg", "CUDA Sysmem Fallback Policy",
    "oomdoctor sweep --vary context", "python serve_once.py --ctx", "oomdoctor run -- python train.py",
}  # fmt: skip
"""What is quoted from elsewhere, and commands to copy."""


@pytest.fixture(autouse=True)
def chinese(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv(LANGUAGE_VARIABLE, CHINESE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (tmp_path / "serve.py").write_text("import sys; x = bytearray(int(sys.argv[1]) << 20)", encoding="utf-8")
    speak_click()
    with speaking(CHINESE):
        yield


def said(arguments: list[str]) -> str:
    """All that the command writes on both streams, and the sentence that it dies with."""
    result = CliRunner().invoke(oomdoctor, arguments)
    if result.exception is not None and not isinstance(result.exception, (OomdoctorError, SystemExit)):
        raise result.exception
    return f"{result.output}\n{result.exception if isinstance(result.exception, OomdoctorError) else ''}"


def english_of(text: str, quoted: frozenset[str] = frozenset()) -> set[str]:
    """English phrases that stand there; lines set off to be copied are commands."""
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("      "))
    prose = re.sub(r"`[^`]*`|'[^'\n]*'| (INTEGER|FLOAT) RANGE|^用法：.*", " ", prose, flags=re.MULTILINE)
    return {
        each for each in ENGLISH.findall(prose) if not any(known in each or each in known for known in QUOTED | quoted)
    }


def _names() -> Iterator[tuple[str, ...]]:
    yield ()
    yield from ((name,) for name in COMMANDS)
    yield from (("rules", name) for name in ("check", "test", "list"))


@pytest.mark.parametrize("words", list(_names()), ids=lambda words: "-".join(words) or "oomdoctor")
def test_help(words: tuple[str, ...]) -> None:
    page = said([*words, "--help"])
    assert not english_of(page)
    assert [line for line in page.splitlines() if cells(line) > 80 and not line.startswith("  --")] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["diff", str(BUNDLE), str(OTHER), "--format", "terminal"],
        ["diff", str(BUNDLE), str(SNAPSHOT), "--format", "terminal"],
        ["diff", str(BUNDLE), str(SNAPSHOT), "--format", "markdown"],
        ["diff", str(BUNDLE), str(BUNDLE), str(SNAPSHOT), "--format", "terminal"],
        ["estimate", "config.json", "--gpu", "8GiB", "--context", "2048", "--concurrency", "4", "--format", "terminal"],
        ["estimate", "config.json", "--gpu", "1GiB", "--engine", "vllm", "--tp", "4", "--format", "terminal"],
        ["estimate", "config.json", "--gpu", "8GiB", "--engine", "llama.cpp", "--format", "markdown"],
        ["estimate", "config.json", "--gpu", "8GiB", "--train", "--zero", "2", "--ranks", "4", "--format", "terminal"],
        ["check"],
        ["check", "--model", "config.json", "--gpu", "1GiB", "--", "vllm", "serve", ".", "--max-model-len", "64"],
        ["check", "--", "docker", "run", "--gpus", "all", "image"],
        ["check", "--", "python", "nosuch.py"],
        ["whatif", str(SNAPSHOT), "--memory", "40GiB"],
        ["whatif", str(SNAPSHOT), str(SNAPSHOT.parent / "crash.log")],
        ["whatif", str(LOG)],
        ["export", str(SNAPSHOT), "--to", "csv", "--output", "out.csv"],
        ["rules", "list"],
        ["report", str(LOG), "--format", "terminal"],
        ["report", str(LOG), "--format", "markdown"],
    ],
    ids=" ".join,
)
def test_a_page_in_a_terminal(arguments: list[str]) -> None:
    page = said(arguments)
    assert not english_of(page)
    if "markdown" not in arguments and arguments[0] != "whatif":  # whose paragraphs only a terminal breaks
        wide = [line for line in page.splitlines() if cells(line) > 80 and not line.startswith(("      ", "oomdoctor"))]
        assert wide == []


def test_every_page_of_the_playbook() -> None:
    """But for conditions, names of facts, settings and sources, which are the same in any language."""
    left = {
        (rule.id, found)
        for rule in load_playbook().rules
        for text in _told_by(page_of(rule))
        for found in english_of(re.sub(r"‹[^›]*›|https?://\S+|\S*[/_=]\S*|\S*\.\S*", " ", text))
    }
    assert sorted(left) == []


def _told_by(page: Page) -> Iterator[str]:
    yield from (page.title, page.cause.partition(": ")[2], page.scope)
    for section in page.sections:
        yield from (section.title, section.text)
        for item in section.items:
            yield item.text
            yield from (each for each in item.remarks if not each.startswith(("适用条件", "出处", "可释放")))


def test_a_sweep(tmp_path: Path) -> None:
    command = ["sweep", "--vary", "size=1,2,4", "--on", "host", "--", "python3", "serve.py", "{size}"]
    page = said([*command[:1], "--format", "terminal", *command[1:]])
    assert not english_of(page)
    assert [line for line in page.splitlines() if cells(line) > 80 and not line.startswith("oomdoctor")] == []
    made = said([*command[:1], "--output", "map.html", "--runs", "0", *command[1:]])
    assert "之前已测得 3 个设置" in made
    html = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert '<html lang="zh-Hans">' in html
    assert not english_of("\n".join(Texts(html).texts))


def test_a_sweep_that_failed_otherwise() -> None:
    page = said(["sweep", "--format", "terminal", "--vary", "n=1,2", "--on", "host", "--", "python3", "-c", "1/{n}-x"])
    assert "NameError" in page
    assert not english_of(page, frozenset({"is not defined"}))


@pytest.mark.parametrize("more", [[], ["--train"]])
def test_a_page_of_an_estimate(tmp_path: Path, more: list[str]) -> None:
    assert said(["estimate", "config.json", "--gpu", "8GiB", *more, "--output", "page.html"]).strip() == ""
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<html lang="zh-Hans">' in html
    assert not english_of("\n".join(Texts(html).texts))


@pytest.mark.parametrize(
    "arguments",
    [
        ["diff", "nosuch"],
        ["diff", str(LOG), str(LOG)],
        ["diff", str(BUNDLE), "--output", "x.html"],
        ["estimate", "nosuch", "--gpu", "8GiB"],
        ["estimate", "config.json"],
        ["estimate", "config.json", "--gpu", "eight"],
        ["estimate", "config.json", "--gpu", "8GiB", "--headroom", "100%"],
        ["estimate", "config.json", "--gpu", "8GiB", "--engine", "other"],
        ["estimate", "config.json", "--gpu", "8GiB", "--kv-dtype", "other"],
        ["estimate", "config.json", "--gpu", "8GiB", "--tp", "0"],
        ["estimate", "config.json", "--gpu", "8GiB", "--zero", "2"],
        ["check", "--model", "nosuch"],
        ["sweep"],
        ["sweep", "--vary", "n=1,2", "--", "echo"],
        ["sweep", "--vary", "n=1,2", "--", "echo", "{n}", "{m}"],
        ["sweep", "--vary", "n=1,2", "--", "echo", "{n}", "}"],
        ["sweep", "--vary", "n", "--", "echo", "{n}"],
        ["sweep", "--vary", "n=1,,2", "--", "echo", "{n}"],
        ["sweep", "--vary", "n=1", "--category", "m", "--", "echo", "{n}"],
        ["sweep", "--vary", "n=1", "--timeout", "soon", "--", "echo", "{n}"],
        ["whatif", str(SNAPSHOT), "--set", "nosuch=1"],
        ["whatif", str(SNAPSHOT), "--set", "max_split_size_mb=1"],
        ["whatif", str(SNAPSHOT), "--memory", "much"],
        ["export", str(LOG), "--to", "csv"],
        ["export", str(SNAPSHOT), "--to", "csv", "--at-least", "few"],
        ["export", str(SNAPSHOT)],
        ["explain", "FRG01"],
        ["open", str(SAMPLES)],
        ["report", "nosuch"],
        ["run"],
        ["run", "--", "no-such-program-anywhere"],
        ["run", "--history", "x", "--", "true"],
        ["analyze"],
        ["analyze", "nosuch"],
        ["nosuch"],
        ["diff", "--nosuch"],
    ],
    ids=" ".join,
)
def test_a_refusal(arguments: list[str]) -> None:
    assert not english_of(said(arguments))


def test_every_word_of_a_help_text_and_of_click_is_translated() -> None:
    context = click.Context(oomdoctor)
    commands = [command for name in COMMANDS if (command := oomdoctor.get_command(context, name)) is not None]
    wanted = [text for command in (oomdoctor, *commands) for text in help_texts(command) if text]
    wanted += [*CLICK_TEXTS, *(one for one, _many in CLICK_PLURALS)]
    assert [text for text in wanted if _(text) == text] == []


def test_what_is_listed_of_click_is_what_click_says() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(click.__file__).parent.glob("*.py"))
    listed = [text for text in CLICK_TEXTS if text != "Usage: "]
    shown = source.replace("\\n", "\n").replace("\\t", "\t")
    assert [text for text in listed if f'"{text}"' not in shown and f"'{text}'" not in shown] == []


def test_what_a_setting_is_refused_for_is_in_chinese() -> None:
    text = re.sub(r"\s", "", said(["check", "--", "vllm", "serve", "model", "—max-model-len", "3"]))
    assert "短横不是ASCII字符" in text
    assert "请用两个ASCII连字符书写" in text
    assert "The dashes" not in text


def test_the_notes_of_a_diagnosis_are_in_chinese(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    text = said(["analyze", "a.log", "b.log"])
    assert "输入中各故障的时间无法比较" in text
    assert "cannot be compared" not in text
