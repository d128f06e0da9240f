"""Which Python a command would run, and what is installed there. Nothing is executed: names and metadata are read."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import MetadataPathFinder
from pathlib import Path

from ..language import _

PACKAGES = ("torch", "vllm", "sglang", "transformers", "deepspeed", "accelerate", "diffusers")
_PYTHON = re.compile(r"python(?P<version>[0-9](?:\.[0-9]+)?)?[a-z]{0,2}")
_VERSION = re.compile(r"python([0-9]+\.[0-9]+)")
_HEAD_BYTES = 4096
_LONG_PATH = re.compile(r"^'''exec' (?:\"([^\"]+)\"|(\S+)) ", re.MULTILINE)
"""How pip starts a script whose interpreter's path is too long for a first line, or has blanks."""


@dataclass(frozen=True)
class Interpreter:
    """The interpreter of the command, as far as it can be told."""

    path: Path | None
    how: str
    """How it was found, or why not."""
    site: tuple[Path, ...] = ()
    """Where its packages lie."""
    versions: Mapping[str, str] = field(default_factory=dict)


def find_interpreter(words: tuple[str, ...], variables: Mapping[str, str]) -> Interpreter:
    """Of a command's words (without assignments before them); of none, the python that the shell would find."""
    search = variables.get("PATH", os.defpath)
    if not words:
        python = next((path for name in ("python", "python3") if (path := shutil.which(name, path=search))), None)
        if python is None:
            return Interpreter(None, _("no command was given, and there is no python on PATH"))
        return _at(Path(python), _("the python on PATH, as no command was given"), variables)
    program = shutil.which(words[0], path=search)
    if program is None:
        return Interpreter(None, _("{words} was not found").format(words=words[0]))
    if _PYTHON.fullmatch(Path(program).name):
        return _at(Path(program), _("the command's own"), variables)
    named = _of_shebang(Path(program), search)
    if named is None:
        return Interpreter(
            None, _("{name} is not a Python script; what it starts is not known").format(name=Path(program).name)
        )
    return _at(named, _("named in the first line of {name}").format(name=Path(program).name), variables)


def _of_shebang(program: Path, search: str) -> Path | None:
    try:
        with program.open("rb") as file:
            head = file.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    if not head.startswith("#!"):
        return None
    words = head[2:].split("\n", 1)[0].split()
    if not words:
        return None
    if Path(words[0]).name == "env":
        named = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), None)
        program_of_env = shutil.which(named, path=search) if named else None
        path = Path(program_of_env) if program_of_env else None
    elif Path(words[0]).name in ("sh", "bash") and (long := _LONG_PATH.search(head)):
        path = Path(long[1] or long[2])
    else:
        path = Path(words[0])
    return path if path is not None and _PYTHON.fullmatch(path.name) and path.exists() else None


def _at(path: Path, how: str, variables: Mapping[str, str]) -> Interpreter:
    if _is_script(path):
        chosen = _of_pyenv(path, variables)
        if chosen is None:
            return Interpreter(
                None, _("{path} is a script that chooses a Python, and its choice is not known").format(path=path)
            )
        path, how = chosen, _("{how}; pyenv's choice").format(how=how)
    site = tuple(_site(path, variables))
    return Interpreter(path, how, site, _versions(site))


def _is_script(path: Path) -> bool:
    """Whether a version manager's script stands in the interpreter's place."""
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _of_pyenv(shim: Path, variables: Mapping[str, str]) -> Path | None:
    """What pyenv's script would start: the version of the shell, of the folder, of the user."""
    root = shim.parent.parent
    told = variables.get("PYENV_VERSION")
    for file in (Path(".python-version"), root / "version"):
        if not told:
            with contextlib.suppress(OSError):
                told = file.read_text("utf-8", "replace").strip()
    name = (told or "").replace(":", "\n").splitlines()[:1]
    if not name or "/" in name[0] or name[0].startswith("."):
        return None
    found = sorted((root / "versions").glob(f"{glob.escape(name[0])}*/bin/{shim.name}"))
    exact = root / "versions" / name[0] / "bin" / shim.name
    return exact if exact.is_file() else found[-1] if found else None


def _site(path: Path, variables: Mapping[str, str]) -> list[Path]:
    """The folders of packages: PYTHONPATH, the virtual environment's, the base's where that one shows, the user's."""
    folders = [Path(part) for part in variables.get("PYTHONPATH", "").split(os.pathsep) if part]
    settings = _settings(path.parent.parent / "pyvenv.cfg")
    if settings is not None:
        folders += _below(path.parent.parent, None)
        if settings.get("include-system-site-packages", "").lower() != "true":
            return _there(folders)
        path = Path(settings.get("home", "/usr/bin")) / path.name
    try:
        real = path.resolve()
    except OSError:
        real = path
    version = _VERSION.search(real.name) or _VERSION.search(str(real.parent.parent / "lib"))
    named = version[1] if version else None
    if not variables.get("PYTHONNOUSERSITE"):
        folders += _below(Path(variables.get("HOME", "/nonexistent")) / ".local", named)
    for prefix in (real.parent.parent, Path("/usr/local") if real.parent == Path("/usr/bin") else None):
        if prefix is not None:
            folders += _below(prefix, named)
    if real.parent == Path("/usr/bin"):
        folders.append(Path("/usr/lib/python3/dist-packages"))
    return _there(folders)


def _settings(file: Path) -> dict[str, str] | None:
    """What `pyvenv.cfg` says; None: it is no virtual environment."""
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _below(prefix: Path, version: str | None) -> list[Path]:
    pattern = f"python{version}" if version else "python3*"
    try:
        return sorted(each for kind in ("site", "dist") for each in prefix.glob(f"lib*/{pattern}/{kind}-packages"))
    except OSError:
        return []


def _there(folders: list[Path]) -> list[Path]:
    return [each for each in dict.fromkeys(folders) if each.is_dir()]


def _versions(site: tuple[Path, ...]) -> dict[str, str]:
    """Of packages that bear on memory; the first folder wins, as it does when they are imported."""
    found: dict[str, str] = {}
    for folder in site:
        for name in PACKAGES:
            if name not in found and (version := _version(name, folder)) is not None:
                found[name] = version
    return found


def _version(name: str, folder: Path) -> str | None:
    """From the metadata alone; a broken installation has none."""
    from importlib.metadata import DistributionFinder

    try:
        context = DistributionFinder.Context(name=name, path=[str(folder)])
        return next((str(each.version) for each in MetadataPathFinder.find_distributions(context)), None)
    except Exception:  # metadata is text from anywhere
        return None
