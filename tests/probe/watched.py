"""Runs real Python processes with the probe injected, and reads what they wrote."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fork_server import ForkServer

SITE = Path(__file__).parents[2] / "oomdoctor" / "probe" / "site"
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
TOO_OLD = ("2.7", "3.6", "3.7")


def find_python(version: str) -> str | None:
    """An interpreter of that version: the running one, one of pyenv's, or one on PATH."""
    if version == ".".join(map(str, sys.version_info[:2])):
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for candidate in sorted(root.glob(f"versions/{version}.*/bin/python")):
        return str(candidate)
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
        return found
    return None


def require_python(version: str) -> str:
    """Like `find_python`, but the test is skipped where there is none."""
    found = find_python(version)
    if found is None:
        pytest.skip(f"Python {version} is not installed here")
    return found


def environment(**more: str) -> dict[str, str]:
    """The tests' own environment without what changes how a Python starts, and with `more`."""
    others = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "OOMDOCTOR", "COV_")) and name not in ("RANK", "LOCAL_RANK")
    }
    return {**others, **more}


@dataclass
class Harness:
    """One incident folder, and Python processes that write into it."""

    folder: Path
    torch_server: ForkServer
    python: str = sys.executable
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def bundle(self) -> Path:
        return self.folder / "bundle"

    def script(self, text: str, name: str = "script.py") -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def run(self, *arguments: str, probe: bool = True, more_path: str = "") -> subprocess.CompletedProcess[bytes]:
        command, variables = [self.python, *arguments], self._environment(probe, more_path)
        return subprocess.run(command, env=variables, cwd=self.folder, capture_output=True, timeout=60, check=False)

    def run_where_torch_is_imported(self, text: str) -> subprocess.CompletedProcess[bytes]:
        """Run a script without the probe's start, which may import what the probe is made of."""
        return self.torch_server.run(self.script(text), text, self.folder, self._environment(probe=False))

    def _environment(self, probe: bool, more_path: str = "") -> dict[str, str]:
        path = [str(SITE)] if probe else []
        if more_path:
            path.append(more_path)
        added = {"PYTHONPATH": os.pathsep.join(path)} if path else {}
        if probe:
            added.update(OOMDOCTOR_BUNDLE=str(self.bundle), OOMDOCTOR_PROBE_SITE=str(SITE))
        return environment(**{**added, **self.variables})

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        """All records of all processes, each line's checksum verified."""
        found = []
        for path in sorted(self.bundle.glob("probe/*.records")):
            for line in path.read_bytes().splitlines(keepends=True):
                assert line.endswith(b"\n")
                checksum, text = line[:8], line[9:-1]
                assert int(checksum, 16) == zlib.crc32(text)
                record = json.loads(text)
                if kind in (None, record["kind"]):
                    found.append(record)
        return found

    def latest(self, kind: str) -> list[dict[str, Any]]:
        """Records of one kind, the later one of those with the same id."""
        return list({record["id"]: record for record in self.records(kind)}.values())
