"""GIVEN thousands of the kernel's reports one after the other WHEN they are read THEN each looks at few lines."""

import io

import pytest

from oomdoctor.model.events import EventKind
from oomdoctor.readers.log import engine

INVOKED = "[{:12.6f}] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
KILLED = "[{:12.6f}] Out of memory: Killed process {} (python) total-vm:9000kB, anon-rss:8000kB, file-rss:0kB\n"
REAPED = "[{:12.6f}] oom_reaper: reaped process {} (python), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB\n"


@pytest.mark.parametrize("forms", [(INVOKED,), (KILLED,), (INVOKED, KILLED), (KILLED, REAPED)])
def test_the_lines_looked_at_grow_with_the_log(monkeypatch, forms):
    looked_at = []
    stripped = engine._stripped
    monkeypatch.setattr(engine, "_stripped", lambda text: looked_at.append(text) or stripped(text))
    text = "".join(form.format(at, 100 + at) for at in range(200) for form in forms)
    engine.read_log(io.BytesIO(text.encode()), "kern.log")
    assert 0 < len(looked_at) <= 12 * 200 * len(forms)


def test_a_report_whose_end_was_cut_is_told_beside_the_next():
    text = "".join(form.format(at, 5) for at, form in enumerate((INVOKED, INVOKED, KILLED)))
    kills = [
        one for one in engine.read_log(io.BytesIO(text.encode()), "kern.log").events if one.kind is EventKind.KERNEL_OOM
    ]
    assert [one.pid for one in kills] == [None, 5]
