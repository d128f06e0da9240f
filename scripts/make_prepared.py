"""Write what ships read beforehand: rules, knobs, misuses and the pages' templates (`make prepared`).

Each file is used only as long as it is of the texts and the code that are there; a test says which to make again.
"""

from __future__ import annotations

from collections.abc import Iterator
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
HEAD = '''"""The report's templates as code, made of `assets/*.html.j2` by `make prepared`; not to be edited."""

# ruff: noqa
# mypy: ignore-errors
# fmt: off

MADE_WITH = "{version}"
"""The jinja2 that compiled them; another may write other code for the same text."""
'''
NOT_PAGES = ("page.html.j2",)
"""Of other pages than the report."""


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


def compiled_templates() -> str:
    """A module with a function a template: the names that jinja2's code of it defines in an environment."""
    names = sorted(path.name for path in COMPILED.parent.glob("assets/*.html.j2") if path.name not in NOT_PAGES)
    compiler = environment(html.asset, {})
    for name in html.environment().filters.keys() - compiler.filters.keys():
        compiler.filters[name] = _not_now
    compiler.install_gettext_callables(_not_now, _not_now, newstyle=True)
    parts, table = [HEAD.format(version=jinja2.__version__)], ["", "", "TEMPLATES = {"]
    for name in names:
        function = name.partition(".")[0]
        code = compiler.compile(html.asset(name), name, name, raw=True)
        lines = [
            "",
            "",
            f"def {function}(environment):",
            *(f"    {line}" if line else "" for line in code.splitlines()),
        ]
        parts.append("\n".join([*lines, "    return locals()", ""]))
        table.append(f"    {name!r}: ({key_of_template(html.asset(name))!r}, {function}),")
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
    code = compiled_templates()
    if not COMPILED.exists() or COMPILED.read_text(encoding="utf-8") != code:
        COMPILED.write_text(code, encoding="utf-8")
        print(f"{COMPILED.name}: made")


if __name__ == "__main__":
    main()
