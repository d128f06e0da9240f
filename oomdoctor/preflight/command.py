"""A command as words: what is set before it, which program it is, what it starts how often."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..readers.log.launch import launch_options, launch_program, server_options

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SHELLS = {"sh", "bash", "dash", "zsh"}
_CONTAINERS = {"docker", "podman", "nerdctl"}
_BEFORE = {"nohup", "nice", "ionice", "stdbuf", "time", "setsid", "exec"}
"""Programs that start the rest of the line as it is, and take options only with dashes."""
_RANKS = ("nproc-per-node", "num-gpus", "num-processes")
_PYTHON_TAKES_ONE = ("-W", "-X", "--check-hash-based-pycs")
ENGINES = ("vllm", "sglang", "llama.cpp", "tgi")
_PARALLEL = ("tensor-parallel-size", "tp-size", "num-shard")


@dataclass(frozen=True)
class Command:
    """What would be run. Nothing of it is executed or expanded."""

    given: tuple[str, ...]
    """As it was given."""
    words: tuple[str, ...]
    """The program and its arguments, behind what is set and what only starts it."""
    assigned: Mapping[str, str] = field(default_factory=dict)
    """Variables that the line sets."""
    text: str = ""

    @property
    def engine(self) -> str | None:
        """The engine whose server it starts."""
        return next((name for name, _ in server_options(self.text) if name in ENGINES), None)

    @property
    def program(self) -> str:
        """What kind of program it is."""
        return launch_program(self.text) if self.words else "none"

    @property
    def options(self) -> dict[str, str | None]:
        """Its options by their long names, dashes inside; of one given twice the last."""
        return {name.replace("_", "-"): value for name, value in launch_options(self.text)}

    @property
    def container(self) -> bool:
        """It starts a container, whose limits are its own."""
        return len(self.words) > 1 and Path(self.words[0]).name in _CONTAINERS and "run" in self.words[1:3]

    @property
    def ranks(self) -> int | None:
        """Processes that a launcher starts on this machine; None: it does not say, or by the number of cards."""
        named = next((value for name in _RANKS if (value := self.options.get(name)) is not None), None)
        return int(named) if named is not None and named.isdecimal() and len(named) < 6 else None

    @property
    def cards(self) -> int | None:
        """Cards that it needs: ranks, or those that share one model."""
        named = next((value for name in _PARALLEL if (value := self.options.get(name)) is not None), None)
        return int(named) if named is not None and named.isdecimal() and len(named) < 6 else self.ranks

    @property
    def script(self) -> Path | None:
        """The Python file, or for Python itself also the folder or archive, that it runs."""
        program = self.program
        words = iter(self.words[1:] if program in ("python", "torchrun", "deepspeed", "accelerate") else ())
        for word in words:
            if word == "-c" or (program == "python" and word in ("-m", "-")):
                return None
            if program == "python" and word in _PYTHON_TAKES_ONE:
                next(words, None)
            elif not word.startswith("-") and (program == "python" or word.endswith(".py")):
                return Path(word)
        return None


def read_command(given: tuple[str, ...]) -> Command:
    """The command of these words."""
    words, assigned = list(given), {}
    while words:
        found = _ASSIGNMENT.fullmatch(words[0])
        if found is not None and len(words) < len(given):  # behind env; alone it would be taken for a program
            assigned[found[1]] = found[2]
            words.pop(0)
        elif Path(words[0]).name == "env" and len(words) > 1:
            words.pop(0)
            while words and words[0].startswith("-"):
                taken = words.pop(0)
                if taken in ("-u", "--unset", "-C", "--chdir") and words:
                    words.pop(0)
        elif Path(words[0]).name in _BEFORE and len(words) > 1:
            words.pop(0)
            while words and words[0].startswith("-"):
                if words.pop(0) in ("-n", "-c", "-o", "-e", "-i") and words:
                    words.pop(0)
        else:
            break
    text = shlex.join(words)
    if len(words) > 2 and Path(words[0]).name in _SHELLS and re.fullmatch(r"-[a-z]*c", words[1]):
        text = words[2]
    return Command(given, tuple(words), assigned, text)
