"""Text that an input made up: it is never rewritten into nonsense, breaks nothing and costs next to nothing."""

from __future__ import annotations

import re
import time

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
    assert "x" in read_catalogue("zh").told("x" + " (grew)" * 280)


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
