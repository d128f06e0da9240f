"""The files of a model: how large they are, and whether they are mapped or read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_MAPPED = (".safetensors", ".gguf")
_READ = (".bin", ".pt", ".pth", ".ckpt")
_NOT_WEIGHTS = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scheduler.bin")


@dataclass(frozen=True)
class Checkpoint:
    """Files that loading opens."""

    bytes: int
    largest_bytes: int
    files: int
    mapped: bool
    """Safetensors and GGUF are mapped; what pickle wrote is read whole."""


def find_model(name: str | os.PathLike[str], variables: dict[str, str] | None = None) -> Path | None:
    """The path, or the newest snapshot of that name in the cache of the hub; None where neither is there."""
    path = Path(name)
    if path.exists():
        return path
    parts = str(name).split("/")
    if len(parts) != 2 or not all(parts) or any(part.startswith(".") for part in parts):
        return None
    told = variables if variables is not None else os.environ
    home = told.get("HF_HOME") or os.path.join(
        told.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    cache = Path(told.get("HF_HUB_CACHE") or os.path.join(home, "hub")) / f"models--{parts[0]}--{parts[1]}"
    try:
        revision = (cache / "refs/main").read_text("ascii", "replace").strip()
    except OSError:
        return None
    found = cache / "snapshots" / revision
    return found if revision.isalnum() and found.is_dir() else None


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The files of weights; None where there are none. Of a folder with both kinds the mapped ones count."""
    for suffixes in (_MAPPED, _READ):
        sizes = [size for each in _candidates(path, suffixes) if (size := _size(each)) is not None]
        if sizes:
            return Checkpoint(sum(sizes), max(sizes), len(sizes), suffixes is _MAPPED)
    return None


def _candidates(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    if path.is_file() and path.suffix == ".gguf":
        stem, _, rest = path.name.rpartition("-of-")
        return sorted(path.parent.glob(f"{stem[:-5]}*-of-{rest}")) if stem and suffixes is _MAPPED else [path]
    folder = path if path.is_dir() else path.parent
    try:
        found = sorted(each for each in folder.iterdir() if each.suffix in suffixes and each.name not in _NOT_WEIGHTS)
    except OSError:
        return []
    shards = [each for each in found if not each.name.startswith("consolidated")]
    return shards or found


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None
