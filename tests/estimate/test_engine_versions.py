"""GIVEN an older version of vLLM WHEN it is named THEN what it did otherwise counts; else the option is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from estimate.files import write_config

from oomdoctor.cli.estimate import estimate
from oomdoctor.errors import UsageError
from oomdoctor.estimate.engine_versions import of_version
from oomdoctor.estimate.engines import SGLANG, VLLM
from oomdoctor.estimate.settings import Settings


def called(*arguments: object) -> Result:
    return CliRunner().invoke(estimate, [str(each) for each in arguments], standalone_mode=False)


def as_json(*arguments: object) -> dict:
    found = called(*arguments, "--format", "json")
    assert found.exception is None, found.exception
    return json.loads(found.output)


@pytest.mark.parametrize(
    ("version", "fraction", "states", "steps"),
    [
        ("0.19.1", 0.90, False, 1), ("0.20.0", None, False, 1), ("0.25.1", None, False, 1), ("0.26", None, False, 2),
        ("0.27.0", None, None, 2), ("0.33", None, None, 2), (None, None, None, 2), ("nightly", None, None, 2),
    ],
)  # fmt: skip
def test_what_a_version_does_otherwise(
    version: str | None, fraction: float | None, states: bool | None, steps: int
) -> None:
    found = of_version(Settings(VLLM, 80 << 30, 8192, 1), version)
    assert (found.fraction, found.prefix_states, found.steps_at_once) == (fraction, states, steps)
    assert of_version(Settings(SGLANG, 80 << 30, 8192, 1), version) == Settings(SGLANG, 80 << 30, 8192, 1)


def test_an_older_vllm(tmp_path: Path) -> None:
    """Windows hold one step before 0.26; 0.90 of the card before 0.20."""
    folder = tmp_path / "windowed"
    write_config(folder, model_type="mistral", sliding_window=4096)
    asked = (folder, "--gpu", "80GiB", "--engine", "vllm", "--context", "100000")
    newest = as_json(*asked, "--step-tokens", "8192")
    older = as_json(*asked, "--step-tokens", "8192", "--engine-version", "0.25.1")
    assert as_json(*asked, "--step-tokens", "8192", "--engine-version", "v0.26.0") == newest
    assert older["kv_bytes"] == as_json(*asked, "--step-tokens", "4096")["kv_bytes"] < newest["kv_bytes"]
    first = as_json(*asked, "--engine-version", "0.19")
    assert first["limit_bytes"] == int((80 << 30) * 0.9)
    own = as_json(*asked, "--engine-version", "0.19", "--fraction", "0.5")
    assert own["limit_bytes"] == 40 << 30


@pytest.mark.parametrize(
    "option",
    [
        ("--engine", "sglang", "--engine-version", "0.5"),
        ("--engine", "vllm", "--engine-version", "old"),
        ("--engine-version", "0.25"),
    ],
)
def test_a_version_that_would_change_nothing_is_refused(tmp_path: Path, option: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"a version of vLLM"):
        raise called(write_config(tmp_path), "--gpu", "80GiB", *option).exception
