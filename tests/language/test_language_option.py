"""--lang and OOMDOCTOR_LANG: which language a command speaks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from oomdoctor.cli import report as reports
from oomdoctor.cli.analyze import analyze
from oomdoctor.cli.explain import explain
from oomdoctor.language import LANGUAGE_VARIABLE, chosen

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
LOG = str(SAMPLES / "one-long-prompt.log")


def test_the_option_chooses_and_the_next_command_is_english_again() -> None:
    chinese = CliRunner().invoke(analyze, [LOG, "--format", "markdown", "--lang", "zh"])
    assert "显存不足" in chinese.stdout
    assert chosen() == "en"
    assert "Out of memory" in CliRunner().invoke(analyze, [LOG, "--format", "markdown"]).stdout


def test_the_variable_chooses_and_the_option_goes_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LANGUAGE_VARIABLE, "zh_CN.UTF-8")
    assert "显存不足" in CliRunner().invoke(analyze, [LOG, "--format", "markdown"]).stdout
    english = CliRunner().invoke(analyze, [LOG, "--format", "markdown", "--lang", "en"])
    assert "Out of memory" in english.stdout


def test_keys_and_enumerations_of_the_json_stay_english() -> None:
    def shape(language: str) -> dict[str, object]:
        report = json.loads(CliRunner().invoke(analyze, [LOG, "--format", "json", "--lang", language]).stdout)
        return {
            "keys": sorted(report),
            "verdict": report["verdict"],
            "fingerprint": report["fingerprint"],
            "diagnoses": [(each["rule"], each["cause"], each["confidence"]) for each in report["diagnoses"]],
            "facts": {key: fact["value"] for key, fact in report["facts"].items()},
        }

    assert shape("zh") == shape("en")


def test_a_rule_is_explained() -> None:
    page = CliRunner().invoke(explain, ["FRG001", "--lang", "zh"]).stdout
    assert "对策" in page
    assert "任一成立即可确认" in page


def test_open_makes_a_page_of_another_language_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "run"
    shutil.copytree(SAMPLES / "run-container-limit", bundle)
    monkeypatch.setattr(reports.webbrowser, "open", lambda url: True)
    for language, tag in (("en", 'lang="en"'), ("zh", 'lang="zh-Hans"'), ("en", 'lang="en"')):
        assert CliRunner().invoke(reports.open_report, [str(bundle), "--lang", language]).exit_code == 0
        assert tag in (bundle / "report.html").read_text(encoding="utf-8")[:200]
