"""A model on disk: its architecture and the exact bytes of its weights, read from headers only."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import InputRefused, UsageError
from ..language import _, ngettext
from .architecture import Architecture
from .dtypes import ElementType, element_type
from .fields import type_of_field
from .files import FLOATS, StoredTensor, read_json, read_safetensors
from .gguf import MAGIC, GgufFile, read_gguf
from .gguf_config import architecture_of_gguf
from .hf_config import architecture_of
from .parameters import count_parameters, divided_parameters, quantised_parts
from .placement import Places, places_of
from .ranks import Shares, shares_of_counts, shares_of_tensors

_INDEX = "model.safetensors.index.json"
_PART = re.compile(r"-[0-9]{5}-of-([0-9]{5})\.safetensors$")
_MOST_FILES = 10_000
_LAYER = re.compile(r"(?:language_model\.)?model\.(?:language_model\.)?layers\.([0-9]{1,5})\.")


@dataclass(frozen=True)
class Model:
    """What a path tells of a model. Nothing of its weights was loaded."""

    path: Path
    architecture: Architecture
    dtype: ElementType
    """The floating-point type that it computes in."""
    weights_bytes: int
    weights_source: str
    """How the bytes are known, in words."""
    parameters: int | None
    gguf: bool = False
    weights_known: str = "computed"
    floats: tuple[int, int] | None = None
    """Of the weights those that a loader casts: their bytes and how many; None: not known."""
    quantization: str | None = None
    """The method that the stored weights are quantised by."""
    shares: Shares | None = None
    """How tensor-parallel ranks divide the weights; None: not known."""
    speculative_bytes: int = 0
    """Of layers that only guess tokens ahead, which are stored and no part of the weights."""
    places: Places | None = None
    """Of a GGUF file the tensors by where they can lie; None: not known."""


def model_files(path: Path) -> list[Path]:
    """What may be read of a model there; nothing may be written over it."""
    folder = path if path.is_dir() else path.parent
    forms = ("*.safetensors", "*.index.json", "*.gguf")
    return [path, folder / "config.json", *(each for form in forms for each in folder.glob(form))]


def read_model(path: Path, dtype: str | None = None, weights_bytes: int | None = None) -> Model:
    """A model's directory, config.json, safetensors file or index, or GGUF file.

    `dtype` is the type that it is loaded in, where that is not the stored one; `weights_bytes` replaces what the files
    would tell. Raises InputRefused for what is not understood.
    """
    kind = None if dtype is None else element_type(dtype)
    if kind is not None and not kind.is_float:
        raise UsageError(
            _("--dtype {dtype}: weights are not quantised as they are loaded; --kv-dtype is for a cache").format(
                dtype=dtype
            )
        )
    if path.is_file() and _starts_with(path, MAGIC):
        model = _gguf_model(path, weights_bytes)
    else:
        model = _hugging_face_model(path, kind, weights_bytes)
    return model if kind is None else loaded_as(model, kind)


def loaded_as(model: Model, kind: ElementType) -> Model:
    """The model with its floats cast; quantised tensors stay. Raises InputRefused where it is not known which are."""
    if model.gguf or kind == model.dtype or model.weights_known == "measured":
        return replace(model, dtype=kind)
    if model.floats is None:
        raise InputRefused(
            _(
                "{path}: only the total of its weights is known, not what {dtype} makes of them; give the directory"
                " with all safetensors files, or their size with --weights"
            ).format(path=model.path, dtype=kind.name)
        )
    stored, elements = model.floats
    cast = kind.bytes_of(elements)
    words = _("{source}, floats as {name}").format(source=model.weights_source, name=kind.name)
    return replace(
        model, dtype=kind, weights_bytes=model.weights_bytes - stored + cast, floats=(cast, elements),
        weights_source=words, shares=None if model.shares is None else model.shares.cast(kind.bytes_of(1)),
    )  # fmt: skip


def _hugging_face_model(path: Path, asked: ElementType | None, weights_bytes: int | None) -> Model:
    """As it is stored; `asked` stands in for the type where nothing tells the stored one."""
    tensors = _tensors_of(path)
    config_path = config_of(path)
    config, where = read_json(config_path), str(config_path)
    architecture = architecture_of(config, where)
    settings = _quantization(config, where)
    method = None if settings is None else _method(settings)
    kind = _stored_type(config, tensors, where) or asked
    if kind is None:
        raise InputRefused(
            _("{where}: the field dtype (or torch_dtype) is missing; name it with --dtype").format(where=where)
        )

    def made(
        size: int,
        source: str,
        parameters: int | None,
        known: str,
        floats: tuple[int, int] | None,
        shares: Shares | None = None,
        ahead: int = 0,
    ) -> Model:
        return Model(
            path,
            architecture,
            kind,
            size,
            source,
            parameters,
            weights_known=known,
            floats=floats,
            quantization=method,
            shares=shares,
            speculative_bytes=ahead,
        )

    if weights_bytes is not None:
        return made(weights_bytes, _("given with --weights"), None, "measured", None)
    if tensors:
        stored, tensors = tensors, _without_layers_ahead(tensors, config, architecture)
        ahead = sum(each.bytes for each in stored) - sum(each.bytes for each in tensors)
        # What quantised values are multiplied with stays as wide as it is.
        casts = [each for each in tensors if each.dtype in FLOATS and (settings is None or "scale" not in each.name)]
        source = _("the headers of {files} safetensors files, {tensors} tensors").format(
            files=len({each.file for each in tensors}), tensors=len(tensors)
        )
        floats = sum(each.bytes for each in casts), sum(each.elements for each in casts)
        elements = sum(each.elements for each in tensors)
        shares = shares_of_tensors(tensors, FLOATS, architecture)
        return made(sum(each.bytes for each in tensors), source, elements, "computed", floats, shares, ahead)
    index = config_path.parent / _INDEX
    total = _total_of_index(index)
    if total is not None:
        return made(total, _what_is_missing(index, total), None, "assumed", None)
    count = count_parameters(architecture, where)
    without = _(", without {what}").format(what=_(architecture.uncounted)) if architecture.uncounted else ""
    source = _("{count} parameters counted from config.json{without}").format(count=f"{count:,}", without=without)
    if settings is None:
        known = "assumed" if architecture.assumed or architecture.uncounted else "computed"
        shares = shares_of_counts(divided_parameters(architecture, where), kind.bytes_of(1), architecture)
        return made(kind.bytes_of(count), source, count, known, (kind.bytes_of(count), count), shares)
    parts = quantised_parts(architecture, count, settings)
    if parts is None:
        raise InputRefused(
            _(
                "{where}: how its weights are quantised ({method}) is not known here; give the directory "
                "with the safetensors files, or their size with --weights"
            ).format(where=where, method=method)
        )
    inside, plain = parts
    rest = kind.bytes_of(plain)
    return made(
        inside + rest,
        _("{source}, quantised as {method}").format(source=source, method=method),
        count,
        "assumed",
        (rest, plain),
    )


def _without_layers_ahead(tensors: list[_Placed], config: Any, architecture: Architecture) -> list[_Placed]:
    """Without the layers for multi-token prediction, which engines load for speculative decoding alone.

    They stand behind the model's own layers (DeepSeek-V3, GLM-4.5) or under `mtp.` (Qwen3-Next).
    """
    parts = [config, *(config.get(name) for name in ("text_config", "llm_config", "language_config"))]
    told = any(isinstance(part, dict) and part.get("num_nextn_predict_layers") for part in parts)

    def is_ahead(name: str) -> bool:
        layer = _LAYER.match(name)
        return name.startswith("mtp.") or (told and layer is not None and int(layer[1]) >= architecture.layers)

    return [each for each in tensors if not is_ahead(each.name)]


def model_of_config(config: object, path: Path) -> Model:
    """Of a configuration alone, counted; in bfloat16 until something tells another type. Raises InputRefused."""
    architecture = architecture_of(config, str(path))
    count, kind = count_parameters(architecture, str(path)), element_type("bfloat16")
    size = kind.bytes_of(count)
    source = _("{count} parameters counted from the configuration").format(count=f"{count:,}")
    known = "assumed" if architecture.assumed or architecture.uncounted else "computed"
    return Model(path, architecture, kind, size, source, count, weights_known=known, floats=(size, count))


def _quantization(config: Any, where: str) -> dict[str, object] | None:
    """How the weights are quantised, also where a nested part says so."""
    for part in (config, *(config.get(name) for name in ("text_config", "llm_config", "language_config"))):
        found = part.get("quantization_config") if isinstance(part, dict) else None
        if isinstance(found, dict):
            return found
        if found is not None:
            raise InputRefused(
                _("{where}: quantization_config is {value!r}, not an object; it is not guessed").format(
                    where=where, value=str(found)[:40]
                )
            )
    return None


def _method(settings: dict[str, object]) -> str:
    """Its name; bitsandbytes has one for two ways."""
    eight = " 8-bit" if settings.get("load_in_8bit") is True else ""
    return str(settings.get("quant_method"))[:40] + eight


def config_of(path: Path) -> Path:
    """The configuration of a model's directory or file. Raises InputRefused where there is none."""
    found = path / "config.json" if path.is_dir() else path
    if not found.name.endswith(".json") or found.name.endswith(".index.json"):
        found = path.parent / "config.json"
    if not found.is_file():
        raise InputRefused(
            _("{path}: there is no config.json beside it; the dimensions of the model are in that file").format(
                path=path
            )
        )
    return found


@dataclass(frozen=True)
class _Placed(StoredTensor):
    """A tensor and the file that holds it."""

    file: str


def _tensors_of(path: Path) -> list[_Placed]:
    """Those of the files that were named, or that the index beside a configuration names; none for one alone."""
    found = _tensors_there(path)
    index = path if path.name.endswith(".index.json") else (path if path.is_dir() else path.parent) / _INDEX
    single = (path / "model.safetensors").is_file() if path.is_dir() else False
    if (
        found
        and index.is_file()
        and not single
        and {each.file for each in found} == {each.name for each in _named_by(index)}
    ):
        _refuse_missing_tensors(index, found)
    return found


def _tensors_there(path: Path) -> list[_Placed]:
    if path.is_dir():
        return _tensors(_files_of(path))
    if not path.is_file():
        said = _("{path}: not a file") if path.exists() else _("{path}: there is no such file")
        raise InputRefused(said.format(path=path))
    if path.name.endswith(".safetensors"):
        return _tensors(_parts_with(path))
    if path.name.endswith(".index.json"):
        return _tensors(_shards(path))
    if path.name.endswith(".json"):
        index = path.parent / _INDEX
        return _tensors(_shards(index)) if index.is_file() else []
    raise InputRefused(
        _("{path}: neither a GGUF file, a safetensors file or index, nor a model's config.json").format(path=path)
    )


def _files_of(folder: Path) -> list[Path]:
    """The folder's safetensors files: of a model in parts all of them, or none where only its index tells the total.

    Raises InputRefused where parts are missing and no index is there: the rest would pass for the whole.
    """
    found = sorted(folder.glob("*.safetensors"))
    if not found or (folder / "model.safetensors").is_file():
        return found
    if (folder / _INDEX).is_file():
        return _shards(folder / _INDEX)
    parts = [part for each in found if (part := _PART.search(each.name))]
    for name in {part[1] for part in parts}:
        there = sum(part[1] == name for part in parts)
        if there < int(name):
            raise _parts_are_missing(folder, there, int(name))
    return found


def _parts_with(path: Path) -> list[Path]:
    """The file, or of a model in parts all of them; none where only the index beside it tells the total."""
    part = _PART.search(path.name)
    if part is None:
        return [path]
    stem, number = path.name[: part.start()], int(part[1])
    found = [path.with_name(f"{stem}-{each:05d}-of-{part[1]}.safetensors") for each in range(1, number + 1)]
    there = sum(each.is_file() for each in found)
    if there < number and not (path.parent / _INDEX).is_file():
        raise _parts_are_missing(path.parent, there, number)
    return found if there == number else []


def _parts_are_missing(folder: Path, there: int, number: int) -> InputRefused:
    return InputRefused(
        _("{folder}: {there} of its {number} parts are there, and no {index} tells the total").format(
            folder=folder, there=there, number=number, index=_INDEX
        )
    )


def _shards(index: Path) -> list[Path]:
    """The files that an index names, all of them; none where they are not there (then its total counts)."""
    found = _named_by(index)
    return found if all(each.is_file() for each in found) else []


def _named_by(index: Path) -> list[Path]:
    content = read_json(index)
    files = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
        raise InputRefused(_("{index}: not a safetensors index (it has no weight_map)").format(index=index))
    names = sorted(set(files.values()))
    if any(Path(name).name != name for name in names):
        raise InputRefused(_("{index}: it names files outside its folder").format(index=index))
    return [index.parent / name for name in names]


def _tensors(files: list[Path]) -> list[_Placed]:
    if len(files) > _MOST_FILES:
        raise InputRefused(
            _("{parent}: more than {most} safetensors files").format(parent=files[0].parent, most=_MOST_FILES)
        )
    # A consolidated copy beside the shards holds the same weights once more; an adapter is none of the model's.
    shards = [each for each in files if not each.name.startswith(("consolidated", "adapter_"))] or files
    found = [_Placed(each.name, each.dtype, each.elements, each.bytes, file.name)
             for file in shards for each in read_safetensors(file)]  # fmt: skip
    if shards and not found:
        raise InputRefused(_("{path}: there is no tensor in it").format(path=shards[0]))
    return found


def _refuse_missing_tensors(index: Path, tensors: list[_Placed]) -> None:
    """Raises InputRefused for an index that names tensors which the shards that it names do not hold."""
    there = {each.name for each in tensors}
    missing = [name for name in read_json(index)["weight_map"] if name not in there]
    if missing:
        raise InputRefused(
            _("{index}: it names {number} tensors that its shards do not hold, such as {name}").format(
                index=index, number=len(missing), name=repr(missing[0][:80])
            )
        )


def _stored_type(config: Any, tensors: list[_Placed], where: str) -> ElementType | None:
    """What the configuration says, else what most of the stored floats are."""
    for part in (config, *(config.get(name) for name in ("text_config", "llm_config", "language_config"))):
        if isinstance(part, dict):
            named = part.get("dtype", part.get("torch_dtype"))
            if named is not None:
                return type_of_field("dtype", named, where)
    floats = Counter[str]()
    for each in tensors:
        if each.dtype in FLOATS:
            floats[each.dtype] += each.elements
    return element_type(floats.most_common(1)[0][0]) if floats else None


def _total_of_index(index: Path) -> int | None:
    if not index.is_file():
        return None
    content = read_json(index)
    metadata = content.get("metadata") if isinstance(content, dict) else None
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    return total if isinstance(total, int) and not isinstance(total, bool) and 0 < total < 1 << 60 else None


def _what_is_missing(index: Path, total: int) -> str:
    """Of a total that no header confirms. Raises InputRefused where the shards that are there hold more."""
    named = _named_by(index)
    there = [each for each in named if each.is_file()]
    held = sum(each.bytes for each in _tensors(there)) if there else 0
    if held > total:
        raise InputRefused(
            _("{index}: its total_size is {total} bytes, the shards that are there hold {held}").format(
                index=index, total=f"{total:,}", held=f"{held:,}"
            )
        )
    return _("total_size of the safetensors index; {missing} of its {named} shards are not there").format(
        missing=len(named) - len(there), named=len(named)
    )


def _gguf_model(path: Path, weights_bytes: int | None) -> Model:
    files = gguf_parts(path)
    first = read_gguf(files[0])
    architecture = architecture_of_gguf(first, str(files[0]))
    contents: list[GgufFile] = [first, *(read_gguf(each) for each in files[1:])]
    tensors = [tensor for content in contents for tensor in content.tensors]
    _refuse_other_parts(first, files, len(tensors))
    size = weights_bytes if weights_bytes is not None else sum(tensor.bytes for tensor in tensors)
    source = ngettext(
        "the tensor list of {number} GGUF file, {tensors} tensors",
        "the tensor list of {number} GGUF files, {tensors} tensors",
        len(files),
    ).format(number=len(files), tensors=len(tensors))
    count = sum(tensor.elements for tensor in tensors)
    known = "measured" if weights_bytes is not None else "computed"
    words = _("given with --weights") if weights_bytes is not None else source
    places = None if weights_bytes is not None else places_of(tensors, architecture.layers)
    return Model(
        path, architecture, element_type("float16"), size, words, count, gguf=True, weights_known=known, places=places
    )


def _refuse_other_parts(first: GgufFile, files: list[Path], tensors: int) -> None:
    """A part of a model under a name that does not tell it, or parts of which one has not what it had."""
    count, total = first.metadata.get("split.count"), first.metadata.get("split.tensors.count")
    if isinstance(count, int) and count > 1 and count != len(files):
        raise InputRefused(
            _("{path}: it is one of {count} parts, and its name does not tell where the others are").format(
                path=files[0], count=count
            )
        )
    if isinstance(total, int) and total not in (0, tensors):
        raise InputRefused(
            _("{path}: its parts hold {there} of {count} tensors").format(path=files[0], there=tensors, count=total)
        )


def gguf_parts(path: Path) -> list[Path]:
    """The files of a model that was split (`name-00001-of-00003.gguf`), the first one first."""
    stem, _of, rest = path.name.rpartition("-of-")
    count = rest.removesuffix(".gguf")
    if not stem or not count.isdecimal() or len(count) != 5 or not stem[-5:].isdecimal():
        return [path]
    found = [path.with_name(f"{stem[:-5]}{number:05d}-of-{rest}") for number in range(1, int(count) + 1)]
    if len(found) > _MOST_FILES or not all(each.is_file() for each in found):
        raise InputRefused(_("{path}: not all of its {count} parts are there").format(path=path, count=int(count)))
    return found


def _starts_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError as error:
        raise InputRefused(f"{path}: {error.strerror}") from error
