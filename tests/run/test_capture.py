from oomdoctor.run.capture import StreamCapture


def lines(start, stop):
    return b"".join(b"line %06d\n" % number for number in range(start, stop))


def test_little_is_kept_as_it_is(tmp_path):
    capture = StreamCapture(tmp_path / "log", 1000, 4000)
    text = lines(0, 350)
    for start in range(0, len(text), 77):
        capture.put(text[start : start + 77])
        capture.flush()
    capture.finish()
    assert (tmp_path / "log").read_bytes() == text
    assert [file.name for file in tmp_path.iterdir()] == ["log"]


def test_of_much_the_beginning_and_the_end_are_kept_and_the_gap_is_counted(tmp_path):
    for piece in (50, 700, 100_000):
        log = tmp_path / f"log-{piece}"
        capture = StreamCapture(log, 1000, 4000)
        text = lines(0, 5000)
        for start in range(0, len(text), piece):
            capture.put(text[start : start + piece])
            capture.flush()
        capture.finish()
        kept = log.read_bytes()
        head, _, tail = kept.partition(b"\n[oomdoctor: ")
        count, _, tail = tail.partition(b" bytes left out here]\n")
        assert text.startswith(head)
        assert len(head) >= 990
        assert text.endswith(tail)
        assert 3000 < len(tail) <= 4000
        assert int(count) == len(text) - len(head) - len(tail)


def test_one_that_was_cut_off_leaves_its_parts_in_order(tmp_path):
    capture = StreamCapture(tmp_path / "log", 1000, 4000)
    text = lines(0, 2000)
    for start in range(0, len(text), 500):
        capture.put(text[start : start + 500])
        capture.flush()
    parts = sorted(tmp_path.glob("log.tail-*"), key=lambda file: int(file.name.rpartition("-")[2]))
    assert len(parts) == 3
    assert text.startswith((tmp_path / "log").read_bytes())
    assert text.endswith(b"".join(part.read_bytes() for part in parts))


def test_a_line_that_does_not_end_is_written_on_request(tmp_path):
    capture = StreamCapture(tmp_path / "log", 1000, 4000)
    capture.put(b"Continue? [y/n] ")
    capture.flush()
    assert capture.holds_line
    assert (tmp_path / "log").read_bytes() == b""
    capture.flush(whole=True)
    assert (tmp_path / "log").read_bytes() == b"Continue? [y/n] "
    assert not capture.holds_line


def test_a_place_that_cannot_be_written_is_said_once(tmp_path):
    capture = StreamCapture(tmp_path / "no" / "log", 1000, 4000)
    capture.put(b"text\n")
    capture.flush()
    capture.finish()
    assert capture.failure == "log: No such file or directory"
