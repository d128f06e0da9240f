"""GIVEN a stream that a command shares with others WHEN it runs under watch THEN its bytes come as without."""

from __future__ import annotations

import shlex
import subprocess

from harness import PYTHON, wrapped

FLOOD = "import os\nfor i in range(20000): os.write(1, b'%s' * 99 + b'\\n')"


def test_lines_of_two_commands_in_one_pipe_stay_whole(tmp_path):
    lines = [shlex.join(wrapped([PYTHON, "-c", FLOOD % letter], tmp_path / letter)) for letter in "ab"]
    script = f"{{ {lines[0]} & {lines[1]} & wait; }} 2>/dev/null | cat"
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60)
    seen = done.stdout.splitlines()
    assert len(seen) == 40_000
    assert set(seen) == {b"a" * 99, b"b" * 99}
