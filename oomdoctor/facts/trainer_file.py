"""A trainer's own file of settings, as options: of TRL, LLaMA-Factory and axolotl, and PEFT's adapter_config.json.

Only names that `trainer_options` understands are taken, so that nothing else of the file, such as a secret, is kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import InputRefused, RuleError
from ..estimate.adapters import ADAPTER_CONFIG
from ..estimate.files import read_json
from ..knobs.document import Scalar, Section, read_document
from ..knobs.document import Sequence as Listed
from ..language import _
from .trainer_options import NAMES

SUFFIXES = (".yaml", ".yml", ".json")
_VALUE = re.compile(r"[\w.,:/\- ]{1,400}")
_OF_MODELS = ("config.json", "generation_config.json", "tokenizer_config.json")
_MOST_FILES = 8
_OF_ADAPTERS = {
    "r": "lora-r", "target_modules": "lora-target-modules", "modules_to_save": "lora-modules-to-save",
    "use_dora": "use-dora",
}  # fmt: skip
"""Fields of PEFT's file, by the options that say the same."""
_NOT_ESTIMATED = ("rank_pattern", "layers_to_transform", "target_parameters")


def trainer_files(words: Sequence[str], others: Collection[str] = ()) -> tuple[Path, ...]:
    """The files of settings that a command's words name and that are there, but those in `others`."""
    found: dict[Path, None] = {}
    for word in words[1:]:
        named = word.partition("=")[2] if word.startswith("-") else word
        path = Path(named)
        if not named or named in others or len(named) > 4000 or len(found) == _MOST_FILES:
            continue
        try:
            if path.suffix.lower() in SUFFIXES and path.name not in _OF_MODELS and path.is_file():
                found[path] = None
            elif (path / ADAPTER_CONFIG).is_file():
                found[path / ADAPTER_CONFIG] = None
        except (OSError, ValueError):
            continue
    return tuple(found)


def trainer_file_options(paths: Iterable[Path]) -> dict[str, str | None]:
    """What these files say, of a name given twice the last; a file that is not understood says nothing."""
    found: dict[str, str | None] = {}
    for path in paths:
        try:
            found.update(_options_of(path))
        except (InputRefused, RuleError, OSError, ValueError):
            continue
    return found


def kept_options(kept: Mapping[str, object] | None) -> dict[str, str | None]:
    """The options that a bundle kept; of one that is damaged what is left."""
    told = kept.get("options") if kept is not None else None
    if not isinstance(told, dict):
        return {}
    return {
        name: value
        for name, value in told.items()
        if name in NAMES and isinstance(value, str) and _VALUE.fullmatch(value)
    }


def _options_of(path: Path) -> Iterator[tuple[str, str | None]]:
    if path.suffix.lower() == ".json":
        read = read_json(path)
        entries = list(read.items()) if isinstance(read, dict) else []
        if path.name == ADAPTER_CONFIG:
            yield from _of_adapter(dict(entries), path)
            return
        texts = ((name, _json_text(value)) for name, value in entries)
    else:
        section: Section = read_document(path)
        texts = ((name, _yaml_text(value)) for name, value in section.entries.items())
    for name, text in texts:
        option = str(name).replace("_", "-")
        if option in NAMES and text is not None and _VALUE.fullmatch(text):
            yield option, text


def _of_adapter(config: Mapping[str, object], path: Path) -> Iterator[tuple[str, str | None]]:
    """Raises InputRefused for adapters that are not estimated."""
    if config.get("peft_type") != "LORA" or any(config.get(name) for name in _NOT_ESTIMATED):
        raise InputRefused(_("{path}: these adapters are not in the estimate").format(path=path))
    yield "use-peft", "true"
    for field, option in _OF_ADAPTERS.items():
        text = _json_text(config.get(field))
        if text is not None and _VALUE.fullmatch(text):
            yield option, text


def _json_text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(value) if all(isinstance(each, str) for each in value) else None
    return str(value) if isinstance(value, int | float | str) else None


def _yaml_text(value: object) -> str | None:
    if isinstance(value, Scalar):
        text = value.text.strip()
        return None if text.lower() in ("", "null", "~", "none") else text
    if isinstance(value, Listed):
        texts = [each.text for each in value.items if isinstance(each, Scalar)]
        return ",".join(texts) if len(texts) == len(value.items) else None
    return None
