"""A snapshot written again in the pickle protocol that common viewers open.

Python 3.14 pickles with protocol 5 by default; torch's own MemoryViz.js opens protocols 2 to 4 and knows only the
opcodes of plain numbers, text, lists, tuples and dicts. It opens no compressed file.
"""

from __future__ import annotations

import pickle
from pathlib import Path

from ..errors import InputRefused
from ..readers.pickles import load_plain

PROTOCOL = 4


def write_viewer_pickle(snapshot: Path, path: Path) -> None:
    """Write the content of the pickle at `snapshot` to `path`. A bare list of segments becomes a snapshot's dict.

    Raises InputRefused as `load_plain` does, and for what is no snapshot; OSError when the file cannot be written.
    """

    def write(content: object) -> None:
        if isinstance(content, list):
            content = {"segments": content, "device_traces": []}
        if not isinstance(content, dict) or not content.keys() & {"segments", "device_traces"}:
            raise InputRefused("it is a pickle, but no PyTorch memory snapshot")
        content.setdefault("segments", [])
        content.setdefault("device_traces", [])
        with path.open("wb") as file:
            pickle.dump(content, file, protocol=PROTOCOL)

    load_plain(snapshot, write)
