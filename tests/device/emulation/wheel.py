"""A virtual environment with torch's CUDA wheel and what it imports, without NVIDIA's libraries: 1.3 GB, not 5.7."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .cache import cache_folder, is_made, made
from .errors import CannotEmulate

DEFAULT_TORCH = "2.14.1"

_ALONGSIDE = ("typing-extensions", "filelock", "sympy", "networkx", "jinja2", "fsspec", "nvidia-ml-py")
_DISK_BYTES = 4 << 30
"""While it is made: the wheel and what comes out of it."""


@dataclass(frozen=True)
class Environment:
    """The virtual environment of one torch for this Python."""

    torch: str
    folder: Path

    @property
    def programs(self) -> Path:
        """Its python, torchrun and so on."""
        return self.folder / "venv" / "bin"

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.programs / "python"

    @property
    def is_made(self) -> bool:
        """Whether it is there."""
        return is_made(self.folder)

    def libraries(self) -> Path:
        """Torch's folder of shared libraries."""
        found = sorted((self.folder / "venv" / "lib").glob("python*/site-packages/torch/lib"))
        if not found:
            raise CannotEmulate(f"{self.folder} holds no torch; remove that folder and try again")
        return found[0]


def environment(torch: str = DEFAULT_TORCH) -> Environment:
    """Where the environment of this torch is or would be."""
    python = f"{sys.implementation.name}{sys.version_info[0]}.{sys.version_info[1]}"
    return Environment(torch, cache_folder() / f"torch-{torch}-{python}")


def why_not() -> str | None:
    """Why the device cannot be emulated on this machine; None where it can, as far as can be seen without trying."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return (
            "torch's CUDA wheels that this emulation knows are for Linux on x86_64, "
            f"and this is {platform.system()} on {platform.machine()}"
        )
    missing = [tool for tool in ("gcc", "nm", "readelf") if not shutil.which(tool)]
    if missing:
        return f"the stand-in for NVIDIA's libraries is built with gcc, nm and readelf; not found: {', '.join(missing)}"
    return None


def make_environment(wanted: Environment) -> None:
    """Make it, unless it is there."""
    made(wanted.folder, lambda folder: _install(folder, wanted.torch))


def _install(folder: Path, torch: str) -> None:
    left = shutil.disk_usage(folder).free
    if left < _DISK_BYTES:
        raise CannotEmulate(f"{folder} has {left >> 20} MiB of disk left; making it takes {_DISK_BYTES >> 20}")
    print(f"Making the environment with torch {torch} in {folder} (1.3 GB, once)", file=sys.stderr, flush=True)
    base = getattr(sys, "_base_executable", sys.executable)
    _run(f"{base} cannot make a virtual environment", base, "-m", "venv", str(folder / "venv"))
    why = f"pip finds no wheel of torch {torch} for Python {sys.version_info[0]}.{sys.version_info[1]} here"
    _pip(folder, why, "--no-deps", f"torch=={torch}")
    numpy = "numpy<2" if _version(torch) < (2, 3) else "numpy"
    _pip(folder, "pip cannot install what torch imports", *_ALONGSIDE, numpy)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("+")[0].split(".") if part.isdigit())


def _pip(folder: Path, otherwise: str, *what: str) -> None:
    options = ("--disable-pip-version-check", "--no-cache-dir", "--no-compile", "--only-binary", ":all:", "--quiet")
    _run(otherwise, str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", *options, *what)


def _run(otherwise: str, *command: str) -> None:
    # neither an emulated device nor another environment's settings may reach the maker
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EMULATED_CUDA"))}
    ended = subprocess.run(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ended.returncode:
        said = [line for line in ended.stdout.splitlines() if line.strip()] or [f"exit status {ended.returncode}"]
        raise CannotEmulate(f"{otherwise}: {next((line for line in said if line.startswith('ERROR')), said[-1])}")
