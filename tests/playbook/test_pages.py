"""GIVEN the rules WHEN their pages are made again THEN they are those in docs/playbook/ (`make playbook`)."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from click.testing import CliRunner

from oomdoctor.cli.main import oomdoctor

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "playbook"


def made() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("make_playbook", ROOT / "scripts" / "make_playbook.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, str] = module.pages()
    return found


def test_the_pages_are_current() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")} == made()


def test_every_link_of_the_index_leads_to_a_heading() -> None:
    pages = made()
    links = re.findall(r"\]\(([\w-]+\.md)#([\w-]+)\)", pages["README.md"])
    assert len(links) == sum(text.count("\n## ") for name, text in pages.items() if name != "README.md")
    for name, anchor in links:
        headings = re.findall(r"^## (.+)$", pages[name], re.MULTILINE)
        assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_explain_prints_the_same_page_in_80_columns() -> None:
    ended = CliRunner().invoke(oomdoctor, ["explain", "KV002"])
    assert ended.exit_code == 0
    lines = ended.output.splitlines()
    assert lines[0] == "KV002  The KV pool is smaller than one request of the maximum length"
    assert all(len(line) <= 80 or " " not in line.strip() for line in lines if "written in" not in line)
    assert "     --max-model-len ‹engine.kv_fitting_tokens // 16 * 16›" in lines
    assert "What does not help" in lines
