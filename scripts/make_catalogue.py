"""Renews oomdoctor/language/zh_CN.po: new texts stand there without a translation, texts that are gone are dropped.

`make catalogue` runs it; the tests hold the catalogue to it. Needs Babel and polib (the test extra).
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import polib
from babel.messages.extract import extract_from_dir

from oomdoctor.cli.command import CLICK_PLURALS, help_texts
from oomdoctor.cli.main import COMMANDS, oomdoctor
from oomdoctor.facts.registry import REGISTRY
from oomdoctor.language.catalogue import COMPOSED, catalogue_path
from oomdoctor.model.named_values import CONTEXT, words_of

PACKAGE = Path(__file__).resolve().parent.parent / "oomdoctor"
_METHODS = [("probe/**.py", "ignore"), ("**.py", "python"), ("**.html.j2", "jinja2.ext:babel_extract")]
_OPTIONS = {"**.html.j2": {"extensions": "jinja2.ext.i18n", "newstyle_gettext": "true", "trimmed": "true"}}
_KEYWORDS: dict[str, tuple[int | tuple[int, str], ...] | None] = {
    "_": None,
    "N_": None,
    "ngettext": (1, 2),
    "pgettext": ((1, "c"), 2),
}

Key = tuple[str, str, str]
"""Context, English text, its plural; '' for none."""


def wanted() -> dict[Key, tuple[str, ...]]:
    """Every text that the program can show in another language, with the files that hold it."""
    found: dict[Key, list[str]] = {}
    for file, _line, message, _comments, context in extract_from_dir(str(PACKAGE), _METHODS, _OPTIONS, _KEYWORDS):
        one, many = message[:2] if isinstance(message, tuple) else (message, "")
        found.setdefault((context or "", one, many), []).append(str(file))
    for text, file in (*_of_tables(), *_of_commands()):
        found.setdefault(("", text, ""), []).append(file)
    for word in words_of(REGISTRY.values()):
        found.setdefault((CONTEXT, word, ""), []).append("facts/registry.py")
    for one, many in CLICK_PLURALS:
        found.setdefault(("", one, many), []).append("cli/command.py")
    return {key: tuple(dict.fromkeys(files)) for key, files in found.items()}


def composed() -> frozenset[str]:
    """Those that the code marks and fills in English: what is shown later is found again by them, and by no others."""
    found = extract_from_dir(str(PACKAGE), _METHODS, _OPTIONS, {"N_": None})
    return frozenset(message for _file, _line, message, _comments, _context in found if isinstance(message, str))


def _of_tables() -> list[tuple[str, str]]:
    """Texts of tables that are data: they need no mark of their own."""
    from oomdoctor.knobs.load import load_knobs
    from oomdoctor.knobs.misuses import load_misuses
    from oomdoctor.playbook.causes import FAMILIES, MEANING_OF

    misuses = load_misuses()
    found = [(knob.note, "knobs/knobs.yaml") for knob in load_knobs().values() if knob.note]
    found += [(each.why, "knobs/misuses.yaml") for each in (*misuses.known, *misuses.allocator_conflicts) if each.why]
    found += [(spec.meaning, "facts/registry.py") for spec in REGISTRY.values()]
    return found + [(text, "playbook/causes.py") for text in (*FAMILIES.values(), *MEANING_OF.values())]


def _of_commands() -> list[tuple[str, str]]:
    """What `--help` shows."""
    context = click.Context(oomdoctor)
    found = [(text, "cli/main.py") for text in help_texts(oomdoctor)]
    for name, (place, _) in COMMANDS.items():
        command = oomdoctor.get_command(context, name)
        assert command is not None
        file = f"cli/{place.partition(':')[0]}.py"
        found += [(text, file) for text in help_texts(command)]
    return [(text, file) for text, file in found if text]


def key_of(entry: polib.POEntry) -> Key:
    """The key of an entry of the catalogue, as `wanted` has it."""
    return (entry.msgctxt or "", entry.msgid, entry.msgid_plural or "")


def renewed(path: Path) -> polib.POFile:
    """The catalogue with just the texts that are wanted, in the order of their files."""
    catalogue = polib.pofile(str(path), encoding="utf-8", wrapwidth=120)
    known = {key_of(entry): entry for entry in catalogue}
    entries, filled = [], composed()
    for key, files in sorted(wanted().items(), key=lambda item: (item[1][0], item[0][1], item[0][0])):
        context, one, many = key
        entry = known.get(key) or polib.POEntry(msgid=one, msgctxt=context or None)
        if many and not entry.msgid_plural:
            entry.msgid_plural, entry.msgstr_plural = many, {0: ""}
        entry.flags = [flag for flag in entry.flags if flag != COMPOSED]
        if one in filled and "{" in one and not context:
            entry.flags.append(COMPOSED)
        entry.occurrences = [(file, "") for file in files]
        entries.append(entry)
    catalogue[:] = entries
    return catalogue


def main() -> None:
    """Write the catalogue and say how many texts wait for a translation."""
    path = catalogue_path("zh")
    catalogue = renewed(path)
    catalogue.save(str(path))
    waiting = [entry.msgid for entry in catalogue if not (entry.msgstr or entry.msgstr_plural.get(0))]
    print(f"{len(catalogue)} texts, {len(waiting)} without a translation")
    for text in waiting if "--list" in sys.argv else waiting[:20]:
        print(f"  {text}")


if __name__ == "__main__":
    main()
