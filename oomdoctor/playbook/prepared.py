"""The shipped rules as records, read beforehand by `scripts/make_prepared.py` (see `knobs/prepared.py`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from ..knobs.prepared import code, key_of, prepare, restored
from ..language import LANGUAGES
from .rule import Rule

VARIANTS = {language: ("cases", *(other for other in LANGUAGES if other != language)) for language in LANGUAGES}
"""What is left out of the rules that a diagnosis in a language asks for, as `load_playbook` takes it."""
CODE = code(
    *(
        "errors",
        "facts/registry",
        "facts/registry_engine",
        "facts/registry_host",
        "knobs/document",
        "knobs/versions",
        "model/diagnosis",
        "model/facts",
        "model/units",
    ),
    *("playbook/causes", "playbook/expression", "playbook/load", "playbook/prepared", "playbook/quantity"),
    *("playbook/rule", "playbook/template", "playbook/terms"),
)
"""All that decides what the rules' texts come to, and what their records are."""
RECORDS = frozenset(
    {
        *(f"oomdoctor.playbook.{name}" for name in ("expression", "quantity", "rule", "template", "terms")),
        *("oomdoctor.knobs.document", "oomdoctor.model.diagnosis", "oomdoctor.model.facts", "_operator"),
    }
)


def file_of(language: str) -> Path:
    """Where the rules for a language are kept."""
    return Path(__file__).with_name(f"rules-{language}.prepared")


def prepared_rules(directory: Path, files: Sequence[Path], without: Collection[str]) -> tuple[Rule, ...] | None:
    """The rules in the files of a directory, less the parts in `without`; None where they have to be read anew."""
    language = next((each for each, parts in VARIANTS.items() if set(parts) == set(without)), None)
    if language is None:
        return None
    paths = _names(directory, files)
    found = restored(file_of(language), _key(directory, files), paths, RECORDS)
    return None if found is None else tuple(found)


def prepare_rules(rules: Sequence[Rule], directory: Path, files: Sequence[Path]) -> bytes:
    """What to keep of rules that were read from the files of a directory. Raises OSError where one cannot be read."""
    key = _key(directory, files)
    if key is None:
        raise OSError(f"a rule in {directory} cannot be read")
    return prepare(tuple(rules), key, _names(directory, files))


def _key(directory: Path, files: Sequence[Path]) -> bytes | None:
    return key_of([*CODE, *((path.relative_to(directory).as_posix(), path) for path in files)])


def _names(directory: Path, files: Sequence[Path]) -> dict[str, str]:
    return {path.relative_to(directory).as_posix(): str(path) for path in files}
