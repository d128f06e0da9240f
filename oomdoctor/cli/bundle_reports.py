"""The three reports that lie in an incident folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from ..language import _, chosen
from .options import redacted

NAMES = {"html": "report.html", "json": "report.json", "markdown": "report.md"}


def write_reports(
    bundle: Path,
    forms: Sequence[str] = tuple(NAMES),
    rules: Sequence[Path] = (),
    model: Path | None = None,
    redact: bool = False,
    pseudonyms: Path | None = None,
) -> str:
    """Write the reports into the bundle and give the summary's words. Raises OSError where they cannot be written.

    `redact` and `pseudonyms` are as `options.redacted` takes them.
    """
    from ..diagnose import diagnose
    from ..report import render

    configuration = None if model is None else configuration_of(model)
    paths = [bundle] if configuration is None else [bundle, configuration]
    diagnosis = redacted(diagnose(paths, rules=rules, model=model), redact, pseudonyms)
    for form in forms:
        (bundle / NAMES[form]).write_text(render(diagnosis, form), encoding="utf-8")
    return diagnosis.summary


def is_in_language(page: Path) -> bool:
    """Whether a page that was made before is in the language in use."""
    from ..report.html import LANGUAGE_TAGS

    with page.open("rb") as file:
        return f'lang="{LANGUAGE_TAGS[chosen()]}"'.encode() in file.read(200)


def configuration_of(model: Path) -> Path | None:
    """The file that prints the model's dimensions: of a directory its config.json; None for a file of weights."""
    found = model / "config.json" if model.is_dir() else model
    if not found.is_file():
        raise UsageError(
            _("{model} holds no config.json; name the model's directory or its configuration with --model").format(
                model=model
            )
        )
    return found if found.suffix == ".json" else None
