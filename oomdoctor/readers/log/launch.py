"""Launch lines as people paste them: options, the program started, dashes that a word processor put there.

Nothing is run or expanded; a line with broken quotes is split at its blanks.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

_LONGEST = 32_768
_DASHES = "‐‑‒–—―−"
_PASTED = re.compile(rf"-?[{_DASHES}][-{_DASHES}]?(?=[A-Za-z])")
_DRIVE = re.compile(r"(?<![A-Za-z])[A-Za-z]:\\")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,200}=")
_NAME = re.compile(r"-{1,2}([A-Za-z][\w.-]{0,120})")
_NUMBERS = re.compile(r"[+-]?[0-9]")
_TRUTH = {"true", "false", "1", "0", "yes", "no", "on", "off", "auto"}
_SEPARATORS = {"&&", "||", "|", ";", "&"}
_SWITCH = re.compile(r"(?:enable|disable|no|use|skip|trust|enforce)[-_]\w")
"""Names that begin so mostly take no value, or a truth value."""
_NAMES = re.compile(r"lora[-_](?:targets?|modules)|(?:lora[-_])?(?:target[-_]modules|modules[-_]to[-_]save)")
"""Options of trainers that take several names."""

_SHORT = {
    "vllm": {
        "tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size", "q": "quantization",
    },
    "llama.cpp": {
        "m": "model", "c": "ctx-size", "b": "batch-size", "ub": "ubatch-size", "ngl": "n-gpu-layers",
        "fa": "flash-attn", "ts": "tensor-split", "sm": "split-mode", "mg": "main-gpu", "np": "parallel",
        "n": "n-predict", "t": "threads", "ctk": "cache-type-k", "ctv": "cache-type-v", "nkvo": "no-kv-offload",
        "ot": "override-tensor", "cmoe": "cpu-moe", "ncmoe": "n-cpu-moe", "hf": "hf-repo", "md": "model-draft",
        "ngld": "n-gpu-layers-draft", "dev": "device", "fit": "fit", "fitt": "fit-target", "fitc": "fit-ctx",
    },
}  # fmt: skip
"""The short names of engines that have them; a letter means something else to each program."""

_PROGRAMS = {
    "vllm": "vllm", "sglang": "sglang", "ollama": "ollama", "torchrun": "torchrun", "deepspeed": "deepspeed",
    "accelerate": "accelerate", "text-generation-launcher": "tgi", "text-generation-server": "tgi",
    "text-generation-router": "tgi", "koboldcpp": "llama.cpp",
}  # fmt: skip
_MODULES = (
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("llama_cpp", "llama.cpp"),
    ("text_generation_server", "tgi"),
    ("torch.distributed", "torchrun"),
    ("deepspeed", "deepspeed"),
    ("accelerate", "accelerate"),
)
_IMAGES = (
    ("vllm/", "vllm"),
    ("/vllm", "vllm"),
    ("/sglang", "sglang"),
    ("text-generation-inference", "tgi"),
    ("ollama/ollama", "ollama"),
    ("llama.cpp:", "llama.cpp"),
)
_NAMES_FOLLOW = {"-n", "-p", "-u", "--name", "--user", "--prefix", "--hostname", "activate"}
"""Words behind which comes a name somebody chose: `conda run -n vllm python train.py` starts no vllm."""
_CONTAINERS = {"docker", "podman", "nerdctl", "apptainer", "singularity"}
_LLAMA = re.compile(r"llama-[a-z-]{2,40}|llama_cpp\S{0,40}")
_PYTHON = re.compile(r"python[0-9.]{0,8}|pypy[0-9.]{0,8}")


def launch_options(command: str) -> tuple[tuple[str, str | None], ...]:
    """Long names without dashes and their values, in order; None for an option without a value.

    `--x=1` and `--x 1` are alike; `-c` and its kin become the long names of the engine started. Values of an option
    that takes several numbers, or names of matrices, are joined by blanks. Dashes pasted as `–` or `—` count as `--`:
    see `pasted_dashes`.
    """
    return tuple(_options(_words(command), _SHORT.get(launch_program(command), {})))


_SERVERS = {"vllm": ("serve", ("vllm.entrypoints.",)), "sglang": ("serve", ("sglang.launch_server", "sglang.serve"))}
"""Of engines that come with other programs: the word behind their name, and the modules, that start the server."""


def server_options(command: str) -> tuple[tuple[str, tuple[tuple[str, str | None], ...]], ...]:
    """Each engine's server that the line starts, with the options that are its own.

    What follows `&&` or `;` is another command's; a front end that names an engine, or the engine's own benchmark,
    has options of its own.
    """
    found = []
    for words in _commands(_words(command)):
        program = _program(words)
        if program in _SERVERS and not _starts_server(words, program):
            continue
        found.append((program, tuple(_options(words, _SHORT.get(program, {})))))
    return tuple(found)


def _commands(words: list[str]) -> Iterator[list[str]]:
    one: list[str] = []
    for word in words:
        if word in _SEPARATORS:
            yield one
            one = []
        else:
            one.append(word)
    yield one


def _starts_server(words: list[str], program: str) -> bool:
    verb, modules = _SERVERS[program]
    pairs = list(pairwise(words))
    named = any(_base_name(first) == program and second == verb for first, second in pairs)
    module = any(first == "-m" and second.startswith(modules) for first, second in pairs)
    image = any(engine == program and part in word for part, engine in _IMAGES for word in words if "/" in word)
    contained = image and any(_base_name(word) in _CONTAINERS for word in words)
    return named or module or contained


def pasted_dashes(command: str) -> tuple[str, ...]:
    """The options whose dashes are not ASCII, as written: a shell hands them on as plain words."""
    return tuple(word for word in _split(command) if _PASTED.match(word))


def launch_program(command: str) -> str:
    """What the line starts: python, torchrun, vllm, sglang, llama.cpp, tgi, ollama, deepspeed, accelerate or other."""
    return _program(_words(command))


def _program(words: list[str]) -> str:
    contained = False
    for place, word in enumerate(words):
        if place and words[place - 1] in _NAMES_FOLLOW:
            continue
        name = _base_name(word)
        if _PYTHON.fullmatch(name):
            return _program_of_python(words[place + 1 :])
        if name in _PROGRAMS:
            return _PROGRAMS[name]
        if _LLAMA.fullmatch(name):
            return "llama.cpp"
        if contained and (image := next((engine for part, engine in _IMAGES if part in word), None)):
            return image
        contained = contained or name in _CONTAINERS
    return "other"


def _program_of_python(words: list[str]) -> str:
    for place, word in enumerate(words):
        if word == "-m":
            module = words[place + 1] if place + 1 < len(words) else ""
            return next((name for top, name in _MODULES if module == top or module.startswith(f"{top}.")), "python")
        if not word.startswith("-"):
            return _PROGRAMS.get(_base_name(word), "python")
    return "python"


def _base_name(word: str) -> str:
    return word.rsplit("/", 1)[-1].removesuffix(".exe")


def _split(command: str) -> list[str]:
    command = command[:_LONGEST].replace("\\\r\n", " ").replace("\\\n", " ")
    if _DRIVE.search(command):
        command = command.replace("\\", "/")  # a Windows path: nothing is escaped in it
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _words(command: str) -> list[str]:
    """The words of the line with pasted dashes made ASCII and leading assignments of the environment left out."""
    words = [_PASTED.sub("--", word, count=1) if _PASTED.match(word) else word for word in _split(command)]
    start = 0
    while start < len(words) and (_ASSIGNMENT.match(words[start]) or words[start] in ("env", "$", "export")):
        start += 1
    return words[start:]


def _options(words: list[str], short: dict[str, str]) -> Iterator[tuple[str, str | None]]:
    place, seen_python = 0, False
    while place < len(words):
        word = words[place]
        place += 1
        seen_python = seen_python or _PYTHON.fullmatch(_base_name(word)) is not None
        if word == "-m" and seen_python:
            place += 1
            continue
        match = _NAME.match(word)
        if match is None:
            continue
        name = match[1] if word.startswith("--") else short.get(match[1])
        if name is None:
            continue
        rest = word[match.end() :]
        if rest:
            if rest.startswith("="):
                yield name, rest[1:]
            continue
        taken = _values(words, place, name)
        place += len(taken)
        yield name, " ".join(taken) if taken else None


def _values(words: list[str], place: int, name: str) -> list[str]:
    """The words from `place` on that are the option's value: one, or several when all are numbers."""
    if place >= len(words) or not _is_value(words[place]):
        return []
    first = words[place]
    if _SWITCH.match(name) and first.lower() not in _TRUTH:
        return []
    taken = [first]
    if _NAMES.fullmatch(name):
        for word in words[place + 1 :]:
            if not re.fullmatch(r"[A-Za-z_][\w.]{0,60}", word):
                break
            taken.append(word)
    if _NUMBERS.match(first):
        for word in words[place + 1 :]:
            if not re.fullmatch(r"[0-9]{1,12}(?:\.[0-9]{1,12})?", word):
                break
            taken.append(word)
    return taken


def _is_value(word: str) -> bool:
    if word in _SEPARATORS or re.match(r"[0-9]?>|<", word):
        return False
    return not word.startswith("-") or re.match(r"-[0-9.]", word) is not None or word == "-"
