"""A virtual environment with torch's CUDA wheel and what it imports, without NVIDIA's libraries: 1.3 GB, not 5.7."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .cache import cache_folder, is_made, made, unmake, why_no_cache
from .errors import CannotEmulate

DEFAULT_TORCH = "2.14.1"
FURTHER_TORCH = ("2.1.2", "2.6.0", "2.9.1")
"""With which some of the scenarios are tested too: as DEVICE_TORCH of the Makefile."""

_OLDEST = (2, 0)
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}(?:rc\d{1,3})?(?:\+[a-z0-9.]{1,40})?", re.ASCII)
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
        """Whether it is there, and the Python that it was made of as well."""
        return is_made(self.folder) and self.python.exists()

    def libraries(self) -> Path:
        """Torch's folder of shared libraries."""
        found = sorted((self.folder / "venv" / "lib").glob("python*/site-packages/torch/lib"))
        if not found:
            raise CannotEmulate(f"{self.folder} holds no torch; remove that folder and try again")
        return found[0]


def parse_version(text: str) -> str:
    """A version of torch as pip writes it; ValueError for anything else."""
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{text!r} is no version of torch: {DEFAULT_TORCH} and so on are")
    return text


def environment(torch: str = DEFAULT_TORCH) -> Environment:
    """Where the environment of this torch is or would be."""
    python = f"{sys.implementation.name}{_python()}{sys.abiflags}"
    return Environment(torch, cache_folder() / f"torch-{torch}-{python}")


def why_not(torch: str = DEFAULT_TORCH) -> str | None:
    """Why the device cannot be emulated on this machine; None where it can, as far as can be seen without trying."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return (
            "torch's CUDA wheels that this emulation knows are for Linux on x86_64, "
            f"and this is {platform.system()} on {platform.machine()}"
        )
    missing = [tool for tool in ("gcc", "nm", "readelf") if not shutil.which(tool)]
    if missing:
        return f"the stand-in for NVIDIA's libraries is built with gcc, nm and readelf; not found: {', '.join(missing)}"
    if _version(torch) < _OLDEST:
        return (
            f"torch {torch} has CUDA's runtime inside its own libraries, where nothing can take its place; "
            "choose 2.0.0 or newer with --torch"
        )
    return why_no_cache()


def make_environment(wanted: Environment) -> None:
    """Make it, unless it is there."""
    if not wanted.is_made:
        unmake(wanted.folder)
    made(wanted.folder, lambda folder: _install(folder, wanted))


def _install(folder: Path, wanted: Environment) -> None:
    left = shutil.disk_usage(folder).free
    if left < _DISK_BYTES:
        raise CannotEmulate(
            f"the disk of {folder} has {left >> 20} MiB left, and making the environment takes {_DISK_BYTES >> 20}"
        )
    torch = wanted.torch
    print(f"Making the environment with torch {torch} in {folder} (1.3 GB, once)", file=sys.stderr, flush=True)
    base = getattr(sys, "_base_executable", sys.executable)
    said = _run(folder, base, "-m", "venv", str(folder / "venv"))
    if said is not None:
        raise CannotEmulate(f"{base} cannot make a virtual environment: {_error(said)}")
    # A wheel without CUDA may come first: one that lies beside the index, say.
    without = "" if "+" in torch else f",!={torch}+cpu"
    said = _pip(folder, "--no-deps", f"torch=={torch}{without}")
    if said is not None:
        raise CannotEmulate(_why_no_torch(torch, said))
    if not (wanted.libraries() / "libc10_cuda.so").exists():
        raise CannotEmulate(f"{_no_wheel(torch)}: what pip finds is one without CUDA")
    numpy = "numpy<2" if _version(torch) < (2, 3) else "numpy"
    said = _pip(folder, *_ALONGSIDE, numpy)
    if said is not None:
        raise CannotEmulate(_why_not_installed("what torch imports", said))


def _why_no_torch(torch: str, said: str) -> str:
    # Constraints of the user's make pip call a version that does not exist a conflict.
    if re.search("No matching distribution|Could not find a version|ResolutionImpossible|conflicting", said):
        unreachable = _unreachable(said)
        if unreachable:
            return unreachable
        return f"{_no_wheel(torch)}; choose another version with --torch, or start this with another Python"
    return _why_not_installed(f"torch {torch}", said)


def _why_not_installed(what: str, said: str) -> str:
    if re.search("No space left|quota exceeded", said):
        return f"the disk of {cache_folder()} became full while {what} was installed"
    return _unreachable(said) or f"pip cannot install {what}: {_error(said)}"


def _unreachable(said: str) -> str | None:
    if re.search("connection broken|Could not fetch URL|Max retries|NewConnectionError|timed out", said):
        return "pip does not reach its package index; making the environment needs it once"
    return None


def _no_wheel(torch: str) -> str:
    return f"there is no CUDA wheel of torch {torch} for Python {_python()} here"


def _python() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.split(r"[+r]", text)[0].split("."))


def _pip(folder: Path, *what: str) -> str | None:
    options = ("--disable-pip-version-check", "--no-cache-dir", "--no-compile", "--only-binary", ":all:", "--quiet")
    return _run(folder, str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", *options, *what)


def _run(folder: Path, *command: str) -> str | None:
    """What the command said if it failed, None if it did not."""
    # Neither an emulated device nor another environment's settings may reach the maker.
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EMULATED_CUDA"))}
    # What it unpacks goes when the folder goes, and takes room where room was looked for.
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    variables["TMPDIR"] = str(temporary)
    ended = subprocess.run(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, close_fds=False
    )
    shutil.rmtree(temporary, ignore_errors=True)
    return (ended.stdout or f"exit status {ended.returncode}") if ended.returncode else None


def _error(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("ERROR")), lines[-1])
