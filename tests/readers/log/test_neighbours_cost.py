"""GIVEN hundreds of writers that fail at once WHEN a line's neighbours are asked for THEN each is read once."""

from __future__ import annotations

from oomdoctor.diagnose import diagnose
from oomdoctor.readers.log import engine

FAILURE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB."
)


def test_each_neighbour_of_a_line_is_read_once(tmp_path, monkeypatch):
    ranks, stripped, read = 200, engine._stripped, []
    (tmp_path / "a.log").write_text("".join(f"[rank{rank}]: {FAILURE}\n" for rank in range(ranks)))
    monkeypatch.setattr(engine, "_stripped", lambda text: read.append(text) or stripped(text))
    diagnosis = diagnose([tmp_path / "a.log"])
    assert diagnosis.incidents
    assert len(read) <= 2 * ranks * ranks
