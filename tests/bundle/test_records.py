import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomdoctor.bundle.records import RecordWriter, bounded_lines, decode_record, encode_record, read_lines

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), json_values, max_size=5)


@given(objects)
def test_what_is_written_is_read(data):
    line = encode_record(data)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_record(line[:-1]) == data


@given(st.lists(objects, max_size=6), st.data())
def test_a_file_cut_off_anywhere_reads_up_to_there(many, data):
    lines = [encode_record(one) for one in many]
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    records = read_lines(bounded_lines(io.BytesIO(whole[:cut]), 1 << 20))
    before = [one for index, one in enumerate(many) if len(b"".join(lines[: index + 1])) - 1 <= cut]
    assert [record.data for record in records.records] == before
    assert records.damaged <= 1


@given(st.binary(max_size=400))
def test_no_bytes_make_the_reader_raise(content):
    read_lines(bounded_lines(io.BytesIO(content), 1 << 20))


@pytest.mark.parametrize(
    "text", [b"[1]", b'{"a": NaN}', b"[" * 100_000, b'{"a": ' + b"1" * 5000 + b"}", b'{"a": "\xff"}']
)
def test_a_valid_checksum_of_something_else_is_damage(text):
    import zlib

    assert decode_record(b"%08x %s" % (zlib.crc32(text), text)) is None


def test_damage_in_the_middle_costs_one_record():
    lines = [encode_record({"kind": "sample", "n": number}) for number in range(3)]
    lines[1] = lines[1].replace(b'"n":1', b'"n":7')
    records = read_lines(lines)
    assert [record.data["n"] for record in records.of_kind("sample")] == [0, 2]
    assert [record.line for record in records.records] == [1, 3]
    assert records.damaged == 1


def test_a_record_after_a_half_written_one_is_whole(tmp_path, monkeypatch):
    import os

    writer = RecordWriter(tmp_path / "records")
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:20]))
    with pytest.raises(OSError, match="No space"):
        writer.append({"kind": "lost", "text": "x" * 100})
    monkeypatch.undo()
    writer.append({"kind": "kept"})
    writer.close()
    with open(tmp_path / "records", "rb") as stream:
        records = read_lines(stream)
    assert [record.kind for record in records.records] == ["kept"]
    assert records.damaged == 1
