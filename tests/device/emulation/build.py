"""Builds the stand-in for NVIDIA's libraries that a given torch asks for.

The hand-written C answers what has to be answered. Everything else that torch's libraries import from NVIDIA's is read
from them and becomes a generated stub: one that does nothing, or, where a size, a count or an object is asked for, one
that fails and says so.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .cache import made
from .errors import CannotEmulate
from .wheel import Environment

_SOURCES = Path(__file__).parent.parent / "standin"
_COMPILER = ("gcc", "-std=gnu11", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
_OBJECT = "libcuda.so.1"
_ALWAYS = ("libcuda.so.1", "libnvidia-ml.so.1")
"""What programs open by name."""

_NVIDIA_LIBRARY = re.compile(r"lib(cu|nv|nccl)")
_NVIDIA_SYMBOL = re.compile(
    r"_*cuda|cu[A-Z]|cublas|cudnn|cudss|cusparse|cusolver|curand|cufft|cupti|nccl|nvrtc|nvshmem|nvml|nvJitLink|nvtx"
)
_HOST_VERSION = re.compile(r"GLIBC|GCC|CXXABI")
_LOOKED_UP = re.compile(rb"\0((?:cu[A-Z][a-z]|nvml[A-Z])\w{1,56})(?=\0)")
_ANSWERS = re.compile(r"(?!cuda)\w*(Get|[sS]ize|Count)")
"""Names of functions that must write an answer. The runtime's own (cuda…) that matter are written by hand."""


@dataclass(frozen=True)
class _Wanted:
    """What torch's libraries want of NVIDIA's."""

    libraries: frozenset[str]
    symbols: frozenset[str]

    def major(self, library: str, otherwise: int) -> int:
        """The major version in a library's name: 13 of libcudart.so.13, 11 of libcudart-e409450e.so.11.0."""
        for name in self.libraries:
            found = re.fullmatch(rf"{library}(?:-[0-9a-f]+)?\.so\.(\d+)(?:\.\d+)*", name)
            if found:
                return int(found[1])
        return otherwise


def stand_in(environment: Environment) -> Path:
    """The folder with the stand-in under all its names, built if it is not there yet."""
    sources = sorted(_SOURCES.glob("*.[ch]"))
    state = hashlib.sha256(b"\0".join(path.read_bytes() for path in [*sources, Path(__file__)]))
    folder = environment.folder / f"standin-{state.hexdigest()[:12]}"
    return made(folder, lambda place: _build(place, environment.libraries()))


def _build(folder: Path, torch_libraries: Path) -> None:
    wanted = _read_wanted(torch_libraries)
    settings = (
        f"-DCUDART_MAJOR={wanted.major('libcudart', 13)}",
        f"-DCUDNN_MAJOR={wanted.major('libcudnn', 9)}",
        f"-I{_SOURCES}",
    )
    written = [_compile(source, folder, settings) for source in sorted(_SOURCES.glob("*.c"))]
    stubs = folder / "stubs.c"
    stubs.write_text(_stubs(wanted.symbols - _defined(written)))
    objects = [*written, _compile(stubs, folder, settings)]
    # The name inside is the driver's, so that whoever opens libcuda.so.1 gets this one.
    _run("gcc", "-shared", f"-Wl,-soname,{_OBJECT}", "-o", folder / _OBJECT, *objects, "-ldl", "-lpthread")
    for name in {*wanted.libraries, *_ALWAYS} - {_OBJECT}:
        (folder / name).symlink_to(_OBJECT)


def _read_wanted(torch_libraries: Path) -> _Wanted:
    libraries: set[str] = set()
    symbols: set[str] = set()
    for path in sorted(torch_libraries.glob("*.so*")):
        for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", _run("readelf", "-d", "-W", path)):
            if _NVIDIA_LIBRARY.match(needed):
                libraries.add(needed)
        for line in _run("nm", "-D", "--undefined-only", path).splitlines():
            # Symbols are versioned (cudaMalloc@libcudart.so.13); a definition without a version satisfies them.
            name, _, version = line.split()[-1].partition("@")
            if _NVIDIA_SYMBOL.match(name) and not _HOST_VERSION.match(version.lstrip("@")):
                symbols.add(name)
        if path.name.startswith("libc10_cuda"):
            # The driver's and NVML's functions that it looks up by name: it gives up when one of them is missing.
            symbols.update(name.decode() for name in _LOOKED_UP.findall(path.read_bytes()))
    return _Wanted(frozenset(libraries), frozenset(symbols))


def _compile(source: Path, folder: Path, settings: Iterable[str]) -> Path:
    target = folder / f"{source.stem}.o"
    _run(*_COMPILER, *settings, "-c", source, "-o", target)
    return target


def _defined(objects: Iterable[Path]) -> set[str]:
    lines = _run("nm", "--defined-only", "--extern-only", *objects).splitlines()
    return {line.split()[2] for line in lines if len(line.split()) == 3}


def _stubs(names: Iterable[str]) -> str:
    lines = [f"{'CANNOT_ANSWER' if _ANSWERS.match(name) else 'DOES_NOTHING'}({name})" for name in sorted(names)]
    return "\n".join(['#include "stubs.h"', *lines, ""])


def _run(*command: str | Path) -> str:
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise CannotEmulate(f"the stand-in cannot be built: {command[0]} says: {ended.stderr.strip()[:2000]}")
    return ended.stdout
