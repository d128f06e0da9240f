"""GIVEN a test that waits for ever, or a worker that dies WHEN the suite runs THEN it ends and names the test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent / "conftest.py"
FILES = {
    "test_a.py": "import os\ndef test_before(): pass\ndef test_dies(): os.kill(os.getpid(), 9)\ndef test_after(): 0\n",
    "test_b.py": "def test_one(): pass\ndef test_two(): pass\ndef test_three(): pass\n",
    "test_c.py": "import threading\ndef test_waits(): threading.Event().wait()\ndef test_after(): pass\n",
}


@pytest.mark.extended
@pytest.mark.slow
def test_the_suite_has_an_end(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    words = ["--timeout", "5", "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "-o", "cache_dir=c"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *words, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
    )
    assert ended.returncode == 1
    assert "crashed while running 'test_a.py::test_dies'" in ended.stdout
    assert "Timeout (>5.0s)" in ended.stdout
    assert "died: -9" in ended.stderr
    assert json.loads((tmp_path / "c/v/cache/lastfailed").read_text()) == {}
