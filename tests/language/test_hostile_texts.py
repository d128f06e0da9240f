"""Text that an input made up: it is never rewritten into nonsense, breaks nothing and costs next to nothing."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import oomdoctor
from oomdoctor.language.catalogue import Catalogue, read_catalogue


def test_text_built_of_the_words_of_a_template_costs_one_pass() -> None:
    catalogue = read_catalogue("zh")
    hostile = []
    for _context, message in catalogue.messages:
        texts = re.split(r"\{\w+\}", message)
        if len(texts) > 3:
            hostile.append("".join((text + " ") * (1900 // len(texts) // (len(text) + 1)) for text in texts)[:2000])
    before = time.process_time()
    for text in sorted(hostile, key=len)[-40:]:
        catalogue.told(text)
    assert time.process_time() - before < 8


def test_words_nested_deeper_than_a_stack_are_no_error() -> None:
    assert "x" in read_catalogue("zh").told("a.py:3 in x" + " (grew)" * 280)


def test_a_singular_without_its_number_stays_as_it_is() -> None:
    catalogue = Catalogue({("", "{size} in 1 block: {owner}"): "{number} 个块共 {size}：{owner}"})
    assert catalogue.told("3 MiB in 1 block: a.py:3") == "3 MiB in 1 block: a.py:3"


def test_what_is_called_a_size_is_one() -> None:
    catalogue = Catalogue({("", "{size} free"): "空闲 {size}"})
    assert catalogue.told("1,023.50 MiB free") == "空闲 1,023.50 MiB"
    assert catalogue.told("x = 3 free") == "x = 3 free"


def test_placeholders_are_as_short_as_they_can_be() -> None:
    catalogue = Catalogue({("", "{one} beside {two}, {one}"): "{two} 与 {one}"})
    assert catalogue.told("a beside b, a") == "b 与 a"
    assert catalogue.told("a beside b, c") == "a beside b, c"
    assert catalogue.told("a beside , a") == "a beside , a"


def test_a_quoted_line_of_source_code_is_not_taken_apart() -> None:
    frame = "/srv/a.py:12 in f: x = foo; weights"
    assert read_catalogue("zh").told(frame) == frame


QUOTED = (
    "list 'a' global in b.py and c",
    "killed by a typo",
    "loss (grew)",
    "1 to 2",
    "from here on",
    "where x > 3",
    "x = torch.empty(3) (18 elephants)",
    "limit the batch",
    "asked for help",
)


@pytest.mark.parametrize("text", QUOTED)
def test_text_that_only_resembles_ours_is_left_alone(text: str) -> None:
    assert read_catalogue("zh").told(text) == text


def test_only_templates_that_the_code_fills_itself_are_found_again() -> None:
    catalogue = read_catalogue("zh")
    assert catalogue.told("oom event 3") == "OOM 事件 3"
    assert ("", "limit {size}") in catalogue.messages
    assert catalogue.told("limit 4.00 GiB") == "limit 4.00 GiB"  # shown, never kept


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "list 'losses' global in a.py (18 elements), grown at a.py:17, holds 2.00 GiB",
            "a.py 的全局变量 list 'losses'（18 个元素），在 a.py:17 处增长，占用 2.00 GiB",
        ),
        ("list 'self.history[*]' of Trainer (4 elements)", "Trainer 的 list 'self.history[*]'（4 个元素）"),
        ("parameters of Net 'model' local to main()", "参数（main() 的局部变量 Net 'model'）"),
        ("state of AdamW 'o' global in a.py: exp_avg", "状态（a.py 的全局变量 AdamW 'o'：exp_avg）"),
        (
            "list local 'seen' in train(), grown at /srv/a b.py:5",
            "train() 的局部变量 list 'seen'，在 /srv/a b.py:5 处增长",
        ),
    ],
)
def test_what_the_probe_calls_a_holder_is_said_in_the_language(said: str, told: str) -> None:
    assert read_catalogue("zh").told(said) == told


def test_the_probe_s_words_are_those_that_are_known() -> None:
    """The probe composes them without the catalogue: a change of one must not leave the other behind."""
    probe = Path(oomdoctor.__file__).parent / "probe" / "site" / "_oomdoctor_probe"
    source = "".join(
        (probe / f"{name}.py").read_text()
        for name in ("census_roots", "census_owners", "census_state", "large_objects")
    )
    for words in (
        "local to %s()", "global in %s", "in the closure of %s()", "default of an argument of %s()", "of %s",
        ", kept by an exception's traceback", ", kept by the %s of %s", "modules in %s", "the forward pass of %s",
        "the graph of the backward pass", "what checkpointing computes again", "global '%s' in %s",
        "local '%s' in %s()", "attribute %s.%s of %s",
    ):  # fmt: skip
        assert words in source
