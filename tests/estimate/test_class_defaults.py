"""GIVEN a field that a file leaves out WHEN its family's class has a value THEN that counts, or the file is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from estimate.test_transformers import CACHES, made

from oomdoctor.errors import InputRefused
from oomdoctor.estimate.architecture import Architecture
from oomdoctor.estimate.class_defaults import CLASS_DEFAULTS
from oomdoctor.estimate.families import KNOWN
from oomdoctor.estimate.fields import SIZING
from oomdoctor.estimate.hf_config import architecture_of

transformers = pytest.importorskip("transformers", minversion="5.24", reason="transformers 5.24 is not installed")

_FAMILIES = sorted({*CACHES, *(set(transformers.CONFIG_MAPPING.keys()) & KNOWN)})
_ONLY_WEIGHTS_THAT_ARE_REFUSED = {("flint", "mlp_only_layers")}


def test_the_table_is_that_of_the_classes() -> None:
    """One line for each family that both know; `scripts/make_class_defaults.py` renews it."""
    for family in sorted(set(transformers.CONFIG_MAPPING.keys()) & KNOWN):
        declared = getattr(transformers.CONFIG_MAPPING[family], "__dataclass_fields__", {})
        found = {name: declared[name].default for name in SIZING if name in declared}
        assert CLASS_DEFAULTS[family] == {name: each for name, each in found.items() if isinstance(each, int)}, family


def _configs(name: str) -> list[dict[str, Any]]:
    family = name.removesuffix("_windowed").removesuffix("_new")
    made_of = [transformers.CONFIG_MAPPING[family]()]
    if name in CACHES:
        made_of.append(made(name))
    return [json.loads(json.dumps(config.to_dict(), default=str)) for config in made_of]


def _what_counts(found: Architecture) -> dict[str, object]:
    told = {each.name: getattr(found, each.name) for each in dataclasses.fields(found)}
    # Which parts are left out has more words where they are named; either way the count is assumed.
    told["uncounted"] = found.uncounted is not None
    return {name: value for name, value in told.items() if "assum" not in name}


@pytest.mark.parametrize("name", _FAMILIES)
def test_no_field_that_is_left_out_passes_for_another_value(name: str) -> None:
    """Each field in turn: the answer is the class's, or says None, or says "assumed", or the field is named."""
    config_class = transformers.CONFIG_MAPPING[name.removesuffix("_windowed").removesuffix("_new")]
    for config in _configs(name):
        try:
            architecture_of(config, name)
        except InputRefused:
            continue
        for field in config:
            less = {key: value for key, value in config.items() if key != field}
            try:
                mine = architecture_of(less, name)
                loaded = config_class(
                    **{key: each for key, each in less.items() if key not in ("model_type", "transformers_version")}
                )
                theirs = architecture_of(loaded.to_dict(), name)
            except Exception:  # refused here, or by the class itself
                continue
            if mine.assumed or (name, field) in _ONLY_WEIGHTS_THAT_ARE_REFUSED:
                continue
            said, real = _what_counts(mine), _what_counts(theirs)
            wrong = {key: (said[key], real[key]) for key in said if said[key] != real[key] and said[key] is not None}
            # Positions are none of the weights where nothing tells how many there are.
            wrong.pop("positions", None)
            assert not wrong, (field, wrong)
