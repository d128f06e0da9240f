"""A model, and a launcher's file, as an incident bundle keeps them, so that a later report has their figures too.

The configuration (of a GGUF file: its metadata about dimensions) and what its files told of the weights, as plain data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

from ..bundle.redact import mask_text
from ..errors import InputRefused
from ..language import _
from .dtypes import element_type
from .files import read_json
from .gguf import GgufFile, Value, read_gguf
from .gguf_config import architecture_of_gguf
from .hf_config import architecture_of
from .launch_config import LaunchConfig, read_launch_config
from .model_input import Model, config_of, gguf_parts, read_model
from .placement import Places
from .ranks import Share, Shares

_MOST_CHARACTERS = 2_000_000
_MOST_BYTES = 1 << 60
_OF_NO_SIZE = ("_name_or_path", "name_or_path", "auto_map", "base_model_name_or_path", "id2label", "label2id")


def model_to_keep(path: Path) -> dict[str, object]:
    """What to keep of the model there. Raises InputRefused for one that is not understood."""
    model = read_model(path)
    kept: dict[str, object] = {
        "path": mask_text(str(path)), "dtype": model.dtype.name, "weights_bytes": model.weights_bytes,
        "weights_source": model.weights_source, "weights_known": model.weights_known, "parameters": model.parameters,
        "floats": model.floats, "quantization": model.quantization, "speculative_bytes": model.speculative_bytes,
        "shares": None if model.shares is None else asdict(model.shares),
    }  # fmt: skip
    if model.gguf:
        file, family = read_gguf(gguf_parts(path)[0]), model.architecture.family
        told = {name: each for name, each in file.metadata.items() if name.startswith((f"{family}.", "general.arch"))}
        kept["gguf"] = {"metadata": told, "lengths": file.lengths}
        kept["places"] = None if model.places is None else asdict(model.places)
    else:
        config = read_json(config_of(path))
        # Names and addresses say nothing of sizes, and may hold a secret.
        kept["config"] = {name: each for name, each in config.items() if name not in _OF_NO_SIZE}
    if len(json.dumps(kept)) > _MOST_CHARACTERS:
        raise InputRefused(_("{path}: its configuration is too large to keep").format(path=path))
    return kept


def kept_model(kept: Mapping[str, object]) -> Model:
    """The model again. Raises InputRefused for what no `model_to_keep` made."""
    where, gguf = str(kept.get("path"))[:1000], kept.get("gguf")
    architecture = architecture_of(kept.get("config"), where) if gguf is None else architecture_of_gguf(
        _gguf(gguf, where), where
    )  # fmt: skip
    floats, parameters = kept.get("floats"), kept.get("parameters")
    size, quantization = kept.get("weights_bytes"), kept.get("quantization")
    if not _is_size(size) or not (parameters is None or _is_size(parameters)):
        raise InputRefused(_("{where}: what was kept of the model is damaged").format(where=where))
    assert isinstance(size, int)
    return Model(
        path=Path(where),
        architecture=architecture,
        dtype=element_type(str(kept.get("dtype"))),
        weights_bytes=size,
        weights_source=str(kept.get("weights_source"))[:1000],
        parameters=parameters if isinstance(parameters, int) else None,
        gguf=gguf is not None,
        weights_known=str(kept.get("weights_known"))[:20],
        floats=(floats[0], floats[1])
        if isinstance(floats, list) and len(floats) == 2 and all(_is_size(each) for each in floats)
        else None,
        quantization=quantization[:100] if isinstance(quantization, str) else None,
        shares=_shares(kept.get("shares")),
        speculative_bytes=ahead if _is_size(ahead := kept.get("speculative_bytes")) and isinstance(ahead, int) else 0,
        places=_places(kept.get("places"), architecture.layers),
    )


def launch_config_to_keep(path: Path) -> dict[str, object]:
    """What to keep of a launcher's file: its settings alone, so that no secret is among them; or why there are none."""
    where = mask_text(str(path))
    try:
        return {"path": where, "settings": asdict(read_launch_config(path))}
    except InputRefused as error:
        return {"path": where, "refused": mask_text(str(error))[:1000]}


def kept_launch_config(kept: Mapping[str, object]) -> LaunchConfig:
    """The settings again. Raises InputRefused for what was not understood then, or is damaged now."""
    settings = kept.get("settings")
    if not isinstance(settings, dict):
        raise InputRefused(str(kept.get("refused"))[:1000])
    known = {each.name: each for each in fields(LaunchConfig)}
    for name, value in settings.items():
        usual = known[name].default if name in known else None
        words = name in ("precision", "optimizer")
        right = isinstance(value, bool) if isinstance(usual, bool) or name == "checkpointing" else (
            isinstance(value, str) if words else _is_size(value)
        )  # fmt: skip
        if name not in known or not (right or (value is None and usual is None)):
            raise InputRefused(_("{where}: what was kept of it is damaged").format(where=str(kept.get("path"))[:1000]))
    return LaunchConfig(**settings)


def _gguf(kept: object, where: str) -> GgufFile:
    parts = [kept.get(name) for name in ("metadata", "lengths")] if isinstance(kept, dict) else []
    if len(parts) != 2 or not all(isinstance(each, dict) for each in parts):
        raise InputRefused(_("{where}: what was kept of the model is damaged").format(where=where))
    metadata: dict[str, Value] = {
        str(name): tuple(each) if isinstance(each, list) else each
        for name, each in parts[0].items()  # type: ignore[union-attr]
        if isinstance(each, int | float | str | list)
    }
    lengths = {str(name): each for name, each in parts[1].items() if _is_size(each)}  # type: ignore[union-attr]
    return GgufFile(metadata, lengths, ())


def _places(kept: object, layers: int) -> Places | None:
    """None also of a bundle that does not have them."""
    if not isinstance(kept, dict):
        return None
    blocks, sizes = kept.get("blocks"), [kept.get(name) for name in ("input_bytes", "rest_bytes")]
    if not isinstance(blocks, list) or len(blocks) != layers or not all(_is_size(each) for each in [*blocks, *sizes]):
        return None
    inputs, rest = sizes
    assert isinstance(inputs, int)
    assert isinstance(rest, int)
    return Places(inputs, tuple(blocks), rest)


def _shares(kept: object) -> Shares | None:
    """None also of a bundle that does not have them."""
    listed = kept.get("all") if isinstance(kept, dict) else None
    if not isinstance(kept, dict) or not isinstance(listed, list) or not isinstance(kept.get("sure"), bool):
        return None
    found = []
    for each in listed:
        floats = each.get("floats") if isinstance(each, dict) else None
        if not isinstance(floats, list) or len(floats) != 2:
            return None
        sizes = (each.get("limit"), each.get("bytes"), *floats)
        if not all(_is_size(size) for size in sizes):
            return None
        found.append(Share(sizes[0], sizes[1], (floats[0], floats[1])))
    return Shares(tuple(found), kept["sure"])


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_BYTES
