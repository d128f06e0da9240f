"""A model on disk: its architecture and the exact bytes of its weights, read from headers only."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputRefused, UsageError
from .architecture import Architecture
from .dtypes import ElementType, element_type
from .files import FLOATS, StoredTensor, read_json, read_safetensors
from .gguf import MAGIC, GgufFile, read_gguf
from .gguf_config import architecture_of_gguf
from .hf_config import architecture_of
from .parameters import count_parameters, quantised_bytes

_INDEX = "model.safetensors.index.json"
_PART = re.compile(r"-[0-9]{5}-of-([0-9]{5})\.safetensors$")
_MOST_FILES = 10_000


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
    if dtype is not None and element_type(dtype).block_values > 1:
        raise UsageError(f"--dtype {dtype}: weights are not quantised as they are loaded; --kv-dtype is for a cache")
    if path.is_file() and _starts_with(path, MAGIC):
        return _gguf_model(path, dtype, weights_bytes)
    config_path, tensors = _find(path)
    if config_path is None or not config_path.is_file():
        raise InputRefused(f"{path}: there is no config.json beside it; the dimensions of the model are in that file")
    config = read_json(config_path)
    architecture = architecture_of(config, str(config_path))
    stored = _stored_dtype(config, tensors)
    chosen = dtype or stored
    if chosen is None:
        raise InputRefused(f"{config_path}: the field dtype (or torch_dtype) is missing; name it with --dtype")
    kind = element_type(chosen)
    if weights_bytes is not None:
        return Model(path, architecture, kind, weights_bytes, "given with --weights", None, weights_known="measured")
    if tensors:
        size, count = _bytes_as(tensors, element_type(dtype) if dtype else None)
        source = f"the headers of {len({each.file for each in tensors})} safetensors files, {len(tensors)} tensors"
        return Model(path, architecture, kind, size, source, count)
    total = _total_of_index(config_path.parent / _INDEX)
    if total is not None and dtype is None:
        return Model(path, architecture, kind, total, "total_size of the safetensors index", None)
    count = count_parameters(architecture, str(config_path))
    without = f", without {architecture.uncounted}" if architecture.uncounted else ""
    source = f"{count:,} parameters counted from config.json{without}"
    quantization = _quantization(config)
    if quantization is None or dtype is not None:
        return Model(path, architecture, kind, kind.bytes_of(count), source, count)
    quantised = quantised_bytes(architecture, count, kind, quantization)
    method = str(quantization.get("quant_method"))[:40]
    if quantised is None:
        raise InputRefused(
            f"{config_path}: how its weights are quantised ({method}) is not known here; give the directory with the"
            " safetensors files, or their size with --weights"
        )
    words = f"{source}, quantised as {method}"
    return Model(path, architecture, kind, quantised, words, count, weights_known="assumed")


def _quantization(config: Any) -> dict[str, object] | None:
    """How the weights are quantised, also where a nested part says so."""
    for part in (config, *(config.get(name) for name in ("text_config", "llm_config", "language_config"))):
        found = part.get("quantization_config") if isinstance(part, dict) else None
        if isinstance(found, dict):
            return found
    return None


@dataclass(frozen=True)
class _Placed(StoredTensor):
    """A tensor and the file that holds it."""

    file: str


def _find(path: Path) -> tuple[Path | None, list[_Placed]]:
    """The configuration beside what was named, and the tensors of the files there."""
    if path.is_dir():
        return path / "config.json", _tensors(_files_of(path))
    if not path.is_file():
        raise InputRefused(f"{path}: {'not a file' if path.exists() else 'there is no such file'}")
    beside = path.parent / "config.json"
    if path.name.endswith(".safetensors"):
        return beside, _tensors([path])
    if path.name.endswith(".index.json"):
        return beside, _tensors(_shards(path))
    if path.name.endswith(".json"):
        return path, []
    raise InputRefused(f"{path}: neither a GGUF file, a safetensors file or index, nor a model's config.json")


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
            raise InputRefused(f"{folder}: {there} of its {int(name)} parts are there, and no {_INDEX} tells the total")
    return found


def _shards(index: Path) -> list[Path]:
    """The files that an index names, all of them; none where they are not there (then its total counts)."""
    content = read_json(index)
    files = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
        raise InputRefused(f"{index}: not a safetensors index (it has no weight_map)")
    names = sorted(set(files.values()))
    if any(Path(name).name != name for name in names):
        raise InputRefused(f"{index}: it names files outside its folder")
    found = [index.parent / name for name in names]
    return found if all(each.is_file() for each in found) else []


def _tensors(files: list[Path]) -> list[_Placed]:
    if len(files) > _MOST_FILES:
        raise InputRefused(f"{files[0].parent}: more than {_MOST_FILES} safetensors files")
    # A consolidated copy beside the shards holds the same weights once more.
    shards = [each for each in files if not each.name.startswith("consolidated")] or files
    return [_Placed(each.name, each.dtype, each.elements, each.bytes, file.name)
            for file in shards for each in read_safetensors(file)]  # fmt: skip


def _stored_dtype(config: Any, tensors: list[_Placed]) -> str | None:
    for part in (config, *(config.get(name) for name in ("text_config", "llm_config", "language_config"))):
        if isinstance(part, dict):
            named = part.get("dtype", part.get("torch_dtype"))
            if isinstance(named, str):
                return named
    floats = Counter[str]()
    for each in tensors:
        if each.dtype in FLOATS:
            floats[each.dtype] += each.elements
    return floats.most_common(1)[0][0] if floats else None


def _bytes_as(tensors: list[_Placed], cast: ElementType | None) -> tuple[int, int]:
    """Bytes when floats are loaded as `cast` (quantised tensors stay as stored), and elements."""
    size = sum(cast.bytes_of(each.elements) if cast and each.dtype in FLOATS else each.bytes for each in tensors)
    return size, sum(each.elements for each in tensors)


def _total_of_index(index: Path) -> int | None:
    if not index.is_file():
        return None
    content = read_json(index)
    metadata = content.get("metadata") if isinstance(content, dict) else None
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    return total if isinstance(total, int) and not isinstance(total, bool) and 0 < total < 1 << 60 else None


def _gguf_model(path: Path, dtype: str | None, weights_bytes: int | None) -> Model:
    files = _parts(path)
    first = read_gguf(files[0])
    architecture = architecture_of_gguf(first, str(files[0]))
    contents: list[GgufFile] = [first, *(read_gguf(each) for each in files[1:])]
    tensors = [tensor for content in contents for tensor in content.tensors]
    size = weights_bytes if weights_bytes is not None else sum(tensor.bytes for tensor in tensors)
    source = f"the tensor list of {len(files)} GGUF file{'s' if len(files) > 1 else ''}, {len(tensors)} tensors"
    count = sum(tensor.elements for tensor in tensors)
    known = "measured" if weights_bytes is not None else "computed"
    words = "given with --weights" if weights_bytes is not None else source
    return Model(
        path, architecture, element_type(dtype or "float16"), size, words, count, gguf=True, weights_known=known
    )


def _parts(path: Path) -> list[Path]:
    """The files of a model that was split (`name-00001-of-00003.gguf`), the first one first."""
    stem, _, rest = path.name.rpartition("-of-")
    count = rest.removesuffix(".gguf")
    if not stem or not count.isdecimal() or len(count) != 5 or not stem[-5:].isdecimal():
        return [path]
    found = [path.with_name(f"{stem[:-5]}{number:05d}-of-{rest}") for number in range(1, int(count) + 1)]
    if len(found) > _MOST_FILES or not all(each.is_file() for each in found):
        raise InputRefused(f"{path}: not all of its {int(count)} parts are there")
    return found


def _starts_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError as error:
        raise InputRefused(f"{path}: {error.strerror}") from error
