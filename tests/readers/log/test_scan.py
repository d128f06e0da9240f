"""Anchors are found wherever they stand."""

from __future__ import annotations

from oomdoctor.readers.log.registry import ALL_FAMILIES
from oomdoctor.readers.log.scan import Anchor, AnchorScanner

PATTERNS = [pattern for family in ALL_FAMILIES for pattern in family.patterns]
ANCHORS = sorted({pattern.anchor for pattern in PATTERNS})
COLOUR = b"\x1b[1;36m"


def test_every_anchor_is_found_at_its_place() -> None:
    scanner = AnchorScanner([Anchor(anchor) for anchor in ANCHORS])
    for number, anchor in enumerate(ANCHORS):
        raw = anchor.encode()
        for coloured in (False, True):
            assert scanner.find(b"~\n~" + raw + b"~", 0, 4, coloured) == 3
            assert scanner.find(b"~\n~" + raw + b"~", 0, 3, coloured) == -1
        assert number in scanner.anchors_in(b"~" + raw + b"~")


def test_colours_between_the_letters() -> None:
    scanner = AnchorScanner([Anchor("out of memory"), Anchor("137", led_by="code: ")])
    line = b"CUDA out" + COLOUR + b" of mem\x1b[0mory, code: " + COLOUR + b"137\x1b[0m"
    assert scanner.find(line, 0, len(line), coloured=True) == 5
    assert scanner.find(line, 6, len(line), coloured=True) == line.index(b"code: ")
    assert scanner.find(line, 0, len(line), coloured=False) == -1
    assert sorted(scanner.anchors_in(line.replace(COLOUR, b""))) == [0, 1]


def test_all_that_a_line_holds_one_inside_another() -> None:
    scanner = AnchorScanner(
        [Anchor("Out of memory"), Anchor("Out of memory allocating"), Anchor("memory"), Anchor("x")]
    )
    assert sorted(scanner.anchors_in(b"java: Out of memory allocating 5")) == [0, 1, 2]
    assert list(scanner.anchors_in(b"nothing")) == []


def test_what_must_lead_a_common_anchor() -> None:
    scanner = AnchorScanner([Anchor("137", led_by=r'(?i:code|status)"?[:= ]{1,12}\(?')])
    assert scanner.find(b"step 137 of 1370, took 137 ms", 0, 40, coloured=False) == -1
    assert scanner.find(b"Exit Code:    137", 0, 40, coloured=False) == 5
