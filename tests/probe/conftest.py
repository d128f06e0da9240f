"""An incident folder and Pythons to watch."""

from __future__ import annotations

from pathlib import Path

import pytest
from watched import VERSIONS, Harness, require_python


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    (tmp_path / "bundle").mkdir()
    return Harness(tmp_path)


@pytest.fixture(params=VERSIONS)
def each(request: pytest.FixtureRequest, harness: Harness) -> Harness:
    """The harness, with each Python that the probe supports."""
    harness.python = require_python(request.param)
    return harness
