"""Forty and more kinds of secret are planted wherever text comes from; none is found in what is written or shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from extended import extended_but

from oomdoctor.bundle.redact import MASK, StreamMasker, mask_text
from oomdoctor.diagnose import diagnose
from oomdoctor.report import FORMATS, render

from .secret_kinds import KINDS

FAILURE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB "
    "of which 1.04 GiB is free. Including non-PyTorch memory, this process has 22.60 GiB memory in use. Of the "
    "allocated memory 21.17 GiB is allocated by PyTorch, and 1.03 GiB is reserved by PyTorch but unallocated."
)


def test_there_are_forty_kinds_each_of_its_own() -> None:
    assert len({what for what, _, _ in KINDS}) == len({secret for _, _, secret in KINDS}) == len(KINDS) >= 40


@pytest.mark.parametrize(("what", "text", "secret"), KINDS, ids=[what for what, _, _ in KINDS])
def test_it_is_masked(what: str, text: str, secret: str) -> None:
    masked = mask_text(f"before\n{text.format(secret)}\nafter\n")
    assert secret not in masked
    assert MASK in masked
    assert masked.startswith("before\n")
    assert masked.endswith("\nafter\n")


@pytest.mark.parametrize("quoted", [repr, json.dumps, lambda text: json.dumps(json.dumps(text))])
def test_a_text_quoted_in_another_gives_none_away(quoted) -> None:
    shown = {what: mask_text(quoted(f"before\n{text.format(secret)}\nafter")) for what, text, secret in KINDS}
    assert [what for what, _, secret in KINDS if secret in shown[what]] == []
    assert [what for what in shown if "before" not in shown[what] or "after" not in shown[what]] == []


@pytest.mark.parametrize("part", extended_but(range(8), 0))
def test_a_log_gives_none_away(tmp_path, part) -> None:
    """Beside the failure, in the code of the traceback, in the launch line and in the error itself."""
    for number, (_, text, secret) in enumerate(KINDS[part::8]):
        line = text.format(secret)
        (tmp_path / f"{number}.log").write_text(
            f"$ python train.py --note '{line}'\n{line}\nTraceback (most recent call last):\n"
            f'  File "/srv/train.py", line 7, in main\n    step("""{line}""")\n{FAILURE}\n{line}\n'
            f"RuntimeError: {line}\n"
        )
        diagnosis = diagnose([tmp_path / f"{number}.log"], command=f"python train.py --note '{line}'")
        shown = "".join(render(diagnosis, form) for form in FORMATS)
        assert secret not in shown
        assert "21.17 GiB" in shown


def test_a_run_gives_none_away(tmp_path) -> None:
    lines = "".join(text.format(secret) + "\n" for _, text, secret in KINDS)
    script = f"import sys\nlines = {lines!r}\nprint(lines)\nsys.stderr.write(lines)\nraise MemoryError(lines)\n"
    words = [text.format(secret) for _, text, secret in KINDS]
    options = ["--output", str(tmp_path / "i")]
    done = subprocess.run(
        [sys.executable, "-m", "oomdoctor", "run", *options, "--", sys.executable, "-c", script, *words],
        env={**os.environ, **{f"VLLM_NOTE_{number}": word for number, word in enumerate(words)}},
        capture_output=True,
        timeout=60,
    )
    assert done.stdout.decode().startswith(lines)  # what the command prints is its own affair
    written = {file: file.read_bytes() for file in (tmp_path / "i").rglob("*") if file.is_file()}
    assert {"report.html", "report.json", "report.md", "manifest.json"} <= {file.name for file in written}
    found = [
        (what, file.name) for what, _, secret in KINDS for file, data in written.items() if secret.encode() in data
    ]
    assert not found, "\n".join(map(str, found))


COLOURS = ("\x1b[0m", "\x1b[1;38;5;208m", "\x1b[m", "\x1b(B\x1b[m", "\x1b[K", "\\x1b[32m", "\\u001b[0m", "\\033[1m")
IN_LINES = [(what, text, secret) for what, text, secret in KINDS if "\n" not in text and "\\n" not in text]


def pieces_of(secret: str, size: int = 6) -> list[str]:
    """What would give a good part of it away."""
    return [secret[at : at + size] for at in range(0, len(secret) - size + 1, size)]


@pytest.mark.parametrize("colour", COLOURS)
def test_colours_around_and_within_it_hide_none(colour: str) -> None:
    """GIVEN a colour before it, in its middle and after it, also with no space around THEN each kind is found."""
    found = []
    for what, text, secret in KINDS:
        middle = len(secret) // 2
        for coloured in (f"{colour}{secret}{colour}", f"{secret[:middle]}{colour}{secret[middle:]}"):
            masked = mask_text(f"{colour}12:00:01{colour} {text.format(coloured)}\nafter\n")
            found += [(what, piece) for piece in pieces_of(secret) if piece in masked and piece not in text]
            assert masked.endswith("after\n")
    assert not found


def test_a_token_that_only_a_colour_parts_from_a_word_is_masked() -> None:
    token = next(secret for what, _, secret in KINDS if what == "Hugging Face token, alone")
    assert mask_text(f"loaded\x1b[33m{token}\x1b[0mnow") == f"loaded\x1b[33m{MASK}\x1b[0mnow"


def test_an_escape_that_holds_text_gives_none_away() -> None:
    """A window's title, and a link with a password in its address."""
    shown = mask_text(
        "\x1b]0;train --password hunter22\x07\x1b]8;;https://me:pass-word@x.example\x1b\\link\x1b]8;;\x1b\\"
    )
    assert "hunter22" not in shown
    assert "pass-word" not in shown
    assert "link" in shown


@pytest.mark.parametrize("rests", [False, True], ids=["read in two", "and written between"])
def test_a_border_between_two_pieces_gives_none_away(rests: bool) -> None:
    """`rests`: the program waited where the border is, for so long that what it had printed was written.

    What then stood there of the secret itself may have been written, for nothing had told yet what it was.
    """
    for what, text, secret in IN_LINES:
        line = text.format(secret).encode()
        begin = line.index(secret.encode())
        for cut in range(1, begin + 1 if rests else len(line)):
            masker = StreamMasker()
            out = masker.feed(b"before\n" + line[:cut])
            if rests:
                out += masker.flush()
            out += masker.feed(line[cut:] + b"\nafter\n") + masker.flush()
            assert secret.encode() not in out, (what, cut)
            assert out.endswith(b"\nafter\n")


def test_a_line_without_end_is_masked_across_the_pieces_it_is_read_in() -> None:
    """One line of a megabyte, as JSON is printed, with a secret every few hundred bytes."""
    rows = [
        f'{{"step": {n}, "note": "{"x" * 90} {text.format(secret)} ", ' for n, (_, text, secret) in enumerate(IN_LINES)
    ]
    line = ("".join(rows) * 60).encode()
    for size in (4096, 65_536, 70_001):
        masker = StreamMasker()
        out = b"".join(masker.feed(line[at : at + size]) for at in range(0, len(line), size)) + masker.flush()
        assert [what for what, _, secret in IN_LINES if secret.encode() in out] == []
        assert out.count(b'"step"') == line.count(b'"step"')


@pytest.mark.parametrize("broken", [b"\x1b[", b"\x1b[3", b"\x1b[38;5;", b"\x1b[ "])
def test_an_escape_that_is_not_whole_hides_no_name(broken: bytes) -> None:
    """The end of a colour comes after it: what is left of both is no escape."""
    for between in (b"", b", ", b"0; "):
        line = broken + b"\x1b[0m" + between + b"hf_token='namespace-value'\n"
        assert b"namespace-value" not in StreamMasker().feed(line)


@pytest.mark.parametrize(("what", "text", "secret"), KINDS, ids=[what for what, _, _ in KINDS])
def test_a_program_that_rests_within_a_secret_gives_none_of_it_away(what: str, text: str, secret: str) -> None:
    """At any place of it, and once more at the next."""
    data = text.format(secret).encode()
    begin, whole = data.index(secret.encode()), StreamMasker()
    expected = whole.feed(data) + whole.flush()
    for cut in range(begin + 1, begin + len(secret)):
        masker = StreamMasker()
        shown = masker.feed(data[:cut]) + masker.rest()
        assert not masker.holds_line
        shown += masker.feed(data[cut : cut + 1]) + masker.rest()
        shown += masker.feed(data[cut + 1 :]) + masker.flush()
        pieces = {secret[at : at + 4].encode() for at in range(len(secret) - 3)}
        assert not [piece for piece in pieces if piece in shown and piece not in expected + text.encode()], cut
