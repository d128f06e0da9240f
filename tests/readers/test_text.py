from __future__ import annotations

import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.readers.text import Utf8Chunks, clean, decode, is_riddled_with_zeros, looks_like_text

TEXT = "step 1 ✓\r\nloss 0.5 and some more words\nlast"


def content(raw: bytes) -> bytes:
    return b"".join(Utf8Chunks(io.BytesIO(raw)))


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)
def test_every_encoding_reads_as_utf8(encoding: str) -> None:
    assert content(TEXT.encode(encoding)).decode() == TEXT
    assert content(b"\xfe\xff" + TEXT.encode("utf-16-be")).decode() == TEXT


def test_gzip_by_content_and_damaged() -> None:
    packed = gzip.compress(TEXT.encode() * 1000)
    assert content(packed).decode() == TEXT * 1000
    chunks = Utf8Chunks(io.BytesIO(packed[:-20]))
    assert TEXT.encode() in b"".join(chunks)
    assert "ends early" in chunks.notes[0]
    assert content(gzip.compress(TEXT.encode("utf-16"))).decode() == TEXT


@pytest.mark.parametrize(
    ("raw", "riddled"),
    [
        (TEXT.replace("o", "o\0").encode() * 9, True),
        (b"step\0\0\n" * 9, True),
        (TEXT.encode(), False),
        (bytes(range(256)) * 9, False),
        (b"\0" * 500 + b"a\n", False),
    ],
)
def test_text_riddled_with_zeros_is_told_from_other_data(raw: bytes, riddled: bool) -> None:
    assert (is_riddled_with_zeros(raw) and not looks_like_text(raw)) is riddled


def test_bytes_read_counts_what_is_stored() -> None:
    packed = gzip.compress(b"a" * 100_000)
    chunks = Utf8Chunks(io.BytesIO(packed))
    assert len(b"".join(chunks)) == 100_000
    assert chunks.bytes_read == len(packed)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mError\x1b[0m: x", "Error: x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\ end", "link end"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]0;user@host: CUDA out of memory", "user@host: CUDA out of memory"),
        ("\x1b]8;;file CUDA out of memory \x1b[0m", ";file CUDA out of memory "),
        ("[1;36m(Worker pid=1)[0;0m text", "(Worker pid=1) text"),
        ("\\x1b[32mINFO\\x1b[0m ready", "INFO ready"),
        ("#033[31mred#033[0m", "red"),
        ("^[[31mred^[[0m", "red"),
        ("a\x00b\x07c\x08", "abc"),
        ("a\tb", "a\tb"),
        ("a\xa0b", "a b"),
        ("shape[64,3] list[0] [10:00<05:00]", "shape[64,3] list[0] [10:00<05:00]"),
    ],
)
def test_clean(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_decode_falls_back_to_latin_1_line_by_line() -> None:
    assert decode("é".encode()) == "é"
    assert decode("café".encode("latin-1")) == "café"


@pytest.mark.parametrize(
    "head", [b"plain\n", "é\n".encode("latin-1"), TEXT.encode("utf-16-le"), gzip.compress(b"text\n" * 50, mtime=0), b""]
)
def test_looks_like_text(head: bytes) -> None:
    assert looks_like_text(head)


@pytest.mark.parametrize(
    "head", [b"\x80\x04\x95\x00\x00", bytes(range(256)), gzip.compress(bytes(range(32)) * 9, mtime=0), b"\x1f\x8bxx"]
)
def test_does_not_look_like_text(head: bytes) -> None:
    assert not looks_like_text(head)


@given(st.binary(max_size=400))
@settings(max_examples=100)
def test_no_bytes_raise(raw: bytes) -> None:
    content(raw)
    content(b"\x1f\x8b\x08" + raw)
    looks_like_text(raw)
    assert "\x1b" not in clean(decode(raw))


def test_what_was_never_written_of_a_sparse_file_takes_no_time(tmp_path):
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.write(b"before\n")
        file.seek(1 << 40)
        file.write(b"\nafter\n")
        try:
            file.truncate(1 << 41)
        except OSError:
            pytest.skip("the file system takes no such file")
    with path.open("rb") as file:
        read = b"".join(Utf8Chunks(file))
    assert read.replace(b"\0", b"") == b"before\n\nafter\n"
    assert len(read) < 100 << 20


def test_of_a_file_that_grows_while_it_is_read_what_it_held_at_first_is_read(tmp_path):
    """Otherwise a reader slower than the writer would never come to an end."""
    path = tmp_path / "a.log"
    path.write_bytes(b"first\n" * 1000)
    with path.open("rb") as file, path.open("ab", buffering=0) as writer:
        pieces = []
        for piece in Utf8Chunks(file):
            pieces.append(piece)
            writer.write(b"later\n" * 1000)
            assert len(pieces) < 10
    assert b"".join(pieces) == b"first\n" * 1000


def test_a_short_archive_cut_off_is_noted_once() -> None:
    """GIVEN less text than the head that is looked at WHEN its archive ends early THEN that is said once."""
    chunks = Utf8Chunks(io.BytesIO(gzip.compress(b"step 1 loss 2.5\n")[:-9]))
    list(chunks)
    assert chunks.notes == ["the compressed data ends early or is damaged; what came before was read"]
