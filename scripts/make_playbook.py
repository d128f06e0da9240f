"""Write docs/playbook/: the rules as pages, one for each family, and an index (`make playbook`).

They are made from rules/ alone; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from oomdoctor.playbook.causes import FAMILY_OF, MEANING_OF
from oomdoctor.playbook.load import load_playbook, rule_directories
from oomdoctor.playbook.page import Page, Section, page_of
from oomdoctor.playbook.rule import Rule

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "playbook"
HEAD = """# The playbook

What oomdoctor can recognise: {rules} rules for {causes} causes. Made from [rules/](../../rules) by `make playbook`;
`oomdoctor explain CODE` prints one of these pages. In the texts ‹name› stands for a fact of the incident.
"""


def pages() -> dict[str, str]:
    """File name → content."""
    rules = sorted(load_playbook(rule_directories(())).rules, key=lambda rule: (FAMILY_OF[rule.cause], rule.id))
    families = {family: list(those) for family, those in groupby(rules, key=lambda rule: FAMILY_OF[rule.cause])}
    files = {f"{family}.md": "\n".join(_family(family, those)) + "\n" for family, those in families.items()}
    return {"README.md": "\n".join(_index(families)) + "\n", **files}


def _index(families: dict[str, list[Rule]]) -> Iterator[str]:
    rules = [rule for those in families.values() for rule in those]
    yield HEAD.format(rules=len(rules), causes=len({rule.cause for rule in rules}))
    for family, those in families.items():
        yield f"## [{family}]({family}.md)\n"
        yield "| rule | cause | |\n|---|---|---|"
        for rule in those:
            yield f"| [{rule.id}]({family}.md#{_anchor(rule)}) | {rule.cause} | {rule.title} |"
        yield ""


def _anchor(rule: Rule) -> str:
    """As GitHub makes it of the heading."""
    return re.sub(r"[^\w -]", "", f"{rule.id} {rule.title}".lower()).replace(" ", "-")


def _family(family: str, rules: list[Rule]) -> Iterator[str]:
    yield f"# {family}\n"
    yield "| cause | what is true |\n|---|---|"
    yield from (f"| {cause} | {MEANING_OF[cause]} |" for cause in dict.fromkeys(rule.cause for rule in rules))
    for rule in rules:
        yield from _page(page_of(rule))


def _page(page: Page) -> Iterator[str]:
    yield f"\n## {page.code} {page.title}\n"
    yield f"Cause: {_text(page.cause)}. Tried for {page.scope}."
    for section in page.sections:
        yield f"\n**{section.title}**\n"
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    if section.text:
        yield _text(section.text)
    for number, item in enumerate(section.items, 1):
        mark = f"{number}." if section.numbered else "-"
        code = f"`{item.code}`" if item.code else ""
        yield f"{mark} {': '.join(part for part in (_text(item.text), code) if part)}"
        if item.settings:
            yield "\n" + "\n".join(f"       {line}" for line in item.settings) + "\n"
        yield from (f"   - {_text(remark)}" for remark in item.remarks)


def _text(text: str) -> str:
    """Characters that Markdown would take for its own are shown."""
    return re.sub(r"([<>*|])", r"\\\1", text)


def main() -> None:
    """Write the pages; those of families that are no more go."""
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for old in FOLDER.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
