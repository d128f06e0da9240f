"""Write what ships read beforehand: rules, knobs, misuses and the pages' templates (`make prepared`).

Each file is used only as long as it is of the texts and the code that are there; a test says which to make again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import jinja2

from oomdoctor.knobs import load, misuses
from oomdoctor.knobs.prepared import key_of, prepare, restored
from oomdoctor.playbook.load import default_rules_directory, load_rule, rule_files
from oomdoctor.playbook.prepared import VARIANTS, file_of, prepare_rules, prepared_rules
from oomdoctor.report import html
from oomdoctor.report.templates import environment
from oomdoctor.report.templates import key_of as key_of_template

COMPILED = Path(html.__file__).with_name("compiled.py")
COMPILED_PAGES = Path(html.__file__).with_name("compiled_pages.py")
HEAD = '''"""{whose} templates as code, made of `assets/*.html.j2` by `make prepared`; not to be edited."""

# ruff: noqa
# mypy: ignore-errors
# fmt: off

MADE_WITH = "{version}"
"""The jinja2 that compiled them; another may write other code for the same text."""
'''
FRAME = "page.html.j2"
"""That of all other pages, which stands among the report's."""
PAGES = ("compare", "forecast", "preflight", "sweep")
"""Packages with pages of their own."""


def tables() -> Iterator[tuple[Path, bytes | None]]:
    """File → what belongs there; None where that is there already."""
    directory = default_rules_directory()
    files = rule_files(directory)
    for language, without in VARIANTS.items():
        rules = tuple(load_rule(path, without) for path in files)
        kept = prepared_rules(directory, files, without)
        yield file_of(language), None if kept == rules else prepare_rules(rules, directory, files)
    knobs = load.read_knobs(load.TABLE)
    yield load.PREPARED, _made(knobs, load.PREPARED, key_of([*load.CODE, ("knobs.yaml", load.TABLE)]), load.RECORDS)
    known = misuses.read_misuses(misuses.TABLE, knobs)
    yield misuses.PREPARED, _made(known, misuses.PREPARED, key_of(misuses.SOURCES), misuses.RECORDS)


def _made(value: object, file: Path, key: bytes | None, records: frozenset[str]) -> bytes | None:
    if key is None:
        raise OSError(f"{file} cannot be made: what it is made from cannot be read")
    return None if restored(file, key, {}, records) == value else prepare(value, key, {})


def compiled_templates() -> dict[Path, str]:
    """File → a module with a function a template: the names that jinja2's code of it defines in an environment."""
    own = {path.name: path for path in sorted(COMPILED.parent.glob("assets/*.html.j2"))}
    frame = own.pop(FRAME)
    package = COMPILED.parent.parent
    others = [path for name in PAGES for path in sorted(package.glob(f"{name}/assets/*.html.j2"))]
    return {
        COMPILED: _compiled("The report's", list(own.values())),
        COMPILED_PAGES: _compiled("The other pages'", [*others, frame]),
    }


def _compiled(whose: str, paths: Sequence[Path]) -> str:
    texts = {path.name: path.read_text(encoding="utf-8").strip() for path in paths}
    compiler = environment(texts.__getitem__, {})
    for name in html.environment().filters.keys() - compiler.filters.keys():
        compiler.filters[name] = _not_now
    compiler.install_gettext_callables(_not_now, _not_now, newstyle=True)
    parts, table = [HEAD.format(whose=whose, version=jinja2.__version__)], ["", "", "TEMPLATES = {"]
    for name, text in texts.items():
        function = name.partition(".")[0]
        code = compiler.compile(text, name, name, raw=True)
        lines = [
            "",
            "",
            f"def {function}(environment):",
            *(f"    {line}" if line else "" for line in code.splitlines()),
        ]
        parts.append("\n".join([*lines, "    return locals()", ""]))
        table.append(f"    {name!r}: ({key_of_template(text)!r}, {function}),")
    return "".join([*parts, "\n".join([*table, "}", ""])])


def _not_now(*_values: object) -> str:
    """In place of all that depends on the language: nothing of it may be worked out while a template is compiled."""
    raise RuntimeError("a template is compiled, not filled")


def main() -> None:
    """Write what is missing or old."""
    for file, content in tables():
        if content is not None:
            file.write_bytes(content)
            print(f"{file.name}: made")
    for path, code in compiled_templates().items():
        if not path.exists() or path.read_text(encoding="utf-8") != code:
            path.write_text(code, encoding="utf-8")
            print(f"{path.name}: made")


if __name__ == "__main__":
    main()
