"""What the command line, the environment and the script say that will not do what it says."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ..facts.misuses import MisuseFinder
from ..knobs.allocator_settings import read_allocator_settings
from ..knobs.load import load_knobs
from ..knobs.misuses import ALLOCATOR_VARIABLES, load_misuses
from ..language import N_, _, told
from ..model.diagnosis import Misuse
from ..readers.log.launch import server_options
from .command import ENGINES
from .finding import Finding, Level
from .setup import Setup

_MOST_SCRIPT_BYTES = 1 << 20
_MOST = 12
_EVERYWHERE = {"model", "model-id", "model-path", "host", "hostname", "port"}
"""Options that say what is served where, which no version lacks."""
_LEVELS = {"refused": Level.FAIL, "ignored": Level.WARN, "unsafe": Level.WARN}
_OPTION_FILES = {
    "vllm": (
        "vllm/engine/arg_utils.py",
        "vllm/entrypoints/openai/cli_args.py",
        "vllm/entrypoints/cli/*.py",
        "vllm/config.py",
        "vllm/config/*.py",
        "vllm/entrypoints/openai/api_server.py",
    ),
    "sglang": ("sglang/srt/server_args.py", "sglang/launch_server.py"),
}
"""Where an engine that is written in Python names its options."""
_MOST_FILE_BYTES = 2 << 20


def check_words(setup: Setup) -> Iterable[Finding]:
    """The command itself, then what is set, then its options, then its script."""
    yield from _found(setup)
    misuses = list(_misuses(setup))
    seen: set[tuple[str, str]] = set()
    for misuse in misuses[:_MOST]:
        if (misuse.what, misuse.outcome) not in seen:
            yield _unread_here(setup, misuse, _finding(misuse))
        seen.add((misuse.what, misuse.outcome))
    strangers = list(_strangers(setup, {what for what, outcome in seen}))
    yield from strangers
    yield from _allocator(setup, any(misuse.where == "environment" for misuse in misuses))
    told = {what.split(" ")[0] for what, _outcome in seen} | {each.seen.split(" ")[0] for each in strangers}
    unchecked = list(_unchecked(setup, told))
    if unchecked:
        names = _(", ").join(unchecked[:_MOST]) + (" …" if len(unchecked) > _MOST else "")
        yield Finding(
            "options.unchecked",
            Level.UNSEEN,
            _("Not checked: {names}").format(names=names),
            _("{versioned} may have these options or not, and what they take is not known here").format(
                versioned=_versioned(setup)
            ),
        )
    if setup.command.words and not misuses and not strangers and setup.command.engine:
        yield Finding(
            "options",
            Level.FINE,
            (
                _("No other option of the command is known to be wrong for {versioned}")
                if unchecked
                else _("No option of the command is known to be wrong for {versioned}")
            ).format(versioned=_versioned(setup)),
        )


def _unread_here(setup: Setup, misuse: Misuse, found: Finding) -> Finding:
    """A build without CUDA reads no setting of CUDA's allocator, so that it refuses none."""
    version = setup.interpreter.versions.get("torch", "")
    if found.level is not Level.FAIL or not version.endswith("+cpu") or not misuse.what.startswith(ALLOCATOR_VARIABLES):
        return found
    why = _("torch {version}, which has no CUDA, does not read it; a CUDA build: {why}").format(
        version=version, why=found.why
    )
    return replace(found, level=Level.WARN, why=why)


def _unchecked(setup: Setup, told: set[str]) -> Iterator[str]:
    """Options that neither the tables nor the installed engine's source name, and that are not told as wrong."""
    finder = MisuseFinder(setup.interpreter.versions, load_knobs(), load_misuses())
    for program, options in server_options(setup.command.text):
        source = _source(setup, program) if program in setup.interpreter.versions else ""
        for name, _value in options if program in ENGINES else ():
            plain = name.replace("_", "-")
            if plain in _EVERYWHERE or finder.knows(program, plain) or f"--{name}" in told:
                continue
            stem = re.escape(plain.split(".")[0].removeprefix("no-")).replace(r"\-", "[-_]")
            if not re.search(rf"(?<![A-Za-z0-9]){stem}(?![A-Za-z0-9_-])", source):
                yield f"--{name}"


def _versioned(setup: Setup) -> str:
    engine = setup.command.engine or ""
    version = setup.interpreter.versions.get(engine)
    return f"{engine} {version}" if version else _("{engine} (version not known)").format(engine=engine)


def _found(setup: Setup) -> Iterable[Finding]:
    words, check = setup.command.words, "command"
    if not words:
        return
    search = setup.variables.get("PATH")
    name = words[0]
    if shutil.which(name, path=search) is None:
        blank = _(" The words stand in quotes as one.") if " " in name else ""
        if re.fullmatch(r"[A-Za-z_]\w*=.*", name, re.DOTALL):
            blank = _(" A variable before a program is the shell's to read; write env before it.")
        do = ""
        lines: tuple[str, ...] = ()
        if "/" not in name:
            why = _("There is no such program on PATH.{blank}").format(blank=blank)
        elif Path(name).is_dir():
            why = _("It is a folder")
        elif not Path(name).exists():
            why = _("There is no such file.{blank}").format(blank=blank)
        else:
            why, do = (
                _("It is there, but may not be executed"),
                _("Call it with its interpreter, or let it be executed"),
            )
            lines = (f"chmod +x {shlex.quote(name)}",)
        yield Finding(check, Level.FAIL, _("The command cannot be started: {name}").format(name=name), why, do, lines)
        return
    script = setup.command.script
    if script is not None and not script.exists():
        why = _("Python ends at once with 'can't open file'")
        yield Finding(
            check,
            Level.FAIL,
            _("The script is not there: {script}").format(script=script),
            why,
            _("Look at the path and the folder"),
        )
        return
    if script is not None and script.is_dir() and not (script / "__main__.py").is_file():
        seen = _("The script is a folder: {script}").format(script=script)
        yield Finding(check, Level.FAIL, seen, _("Python finds no __main__.py in it"))
        return
    yield Finding(check, Level.FINE, _("The command is there: {path}").format(path=shutil.which(name, path=search)))


def _misuses(setup: Setup) -> Iterator[Misuse]:
    finder = MisuseFinder(setup.interpreter.versions, load_knobs(), load_misuses())
    yield from finder.of_command(setup.command.text, "command line")
    for name in ALLOCATOR_VARIABLES:
        if value := setup.variables.get(name):
            yield from finder.of_variable(name, value, "environment")
    for name, value in sorted(setup.variables.items()):
        yield from finder.of_name(name, value, "environment")
    for code, where in _statements(setup):
        yield from finder.of_code(code, where)


def _finding(misuse: Misuse) -> Finding:
    said = _OUTCOMES[misuse.outcome]
    if misuse.outcome == "ignored" and misuse.in_some_versions:
        said = N_("{what} is read by nobody in some versions")
    why = told(misuse.why)
    return Finding(
        "setting",
        _LEVELS[misuse.outcome],
        _(said).format(what=misuse.what),
        why if why.endswith((".", "。")) else _("{what}.").format(what=why),
        told(misuse.instead),
        misuse.lines,
        {"where": misuse.where, "outcome": misuse.outcome},
    )


_OUTCOMES = {
    "refused": N_("{what} is not accepted"),
    "ignored": N_("{what} is read by nobody"),
    "unsafe": N_("{what} is not what it says"),
}


def _allocator(setup: Setup, wrong: bool) -> Iterable[Finding]:
    given = [name for name in ALLOCATOR_VARIABLES if setup.variables.get(name)]
    if not given:
        return
    version = setup.interpreter.versions.get("torch")
    if version is None:
        path = setup.interpreter.path
        why = (
            _("torch is not installed for {path}").format(path=path)
            if path is not None
            else _("torch's version is not known: {how}").format(how=setup.interpreter.how)
        )
        yield Finding(
            "allocator",
            Level.UNSEEN,
            _("Whether this torch reads {given} as meant").format(given=_(" and ").join(given)),
            why,
        )
    elif not wrong:
        settings = ", ".join(f"{name}={setup.variables[name]}" for name in given)
        known = _("torch {version} knows {settings}").format(version=version, settings=settings)
        if version.endswith("+cpu"):
            known = _("{known}, as a CUDA build of it reads that; this one has no CUDA and reads none").format(
                known=known
            )
        unjudged = _unjudged(setup, given)
        if not unjudged:
            yield Finding("allocator", Level.FINE, known)
            return
        yield Finding(
            "allocator", Level.UNSEEN, _("Not judged: what {names} is set to").format(names=_(", ").join(unjudged)),
            _("torch {version} has it, and which values it takes is not known here").format(version=version),
        )  # fmt: skip


def _unjudged(setup: Setup, given: list[str]) -> list[str]:
    """Options of the allocator of whose values nothing is known."""
    untold = {each.name for each in load_misuses().allocator_options if not each.takes}
    named = (each.key for name in given for each in read_allocator_settings(setup.variables[name]))
    return [name for name in dict.fromkeys(named) if name in untold]


def _strangers(setup: Setup, told: set[str]) -> Iterable[Finding]:
    """Options that the installed engine's own source does not name anywhere."""
    for program, options in server_options(setup.command.text):
        version = setup.interpreter.versions.get(program)
        text = _source(setup, program) if version and options else ""
        if not text:
            continue
        for name, value in options:
            what = f"--{name}" if value is None else f"--{name} {value}"
            stem = re.escape(name.replace("_", "-").split(".")[0].removeprefix("no-")).replace(r"\-", "[-_]")
            dashed = any(what.startswith(each.split(" ")[0]) for each in told)
            if dashed or re.search(rf"(?<![A-Za-z0-9]){stem}", text):
                continue
            why = _("The source of {program} {version}, which is installed there, names no such option.").format(
                program=program, version=version
            )
            yield Finding(
                "setting",
                Level.FAIL,
                _("{what} is not accepted").format(what=what),
                why,
                figures={"where": "command line", "outcome": "refused"},
            )


def _source(setup: Setup, program: str) -> str:
    """The files that name an engine's options; empty where they are not all there."""
    texts: list[str] = []
    for folder in setup.interpreter.site:
        for pattern in _OPTION_FILES.get(program, ()):
            for file in sorted(folder.glob(pattern)):
                texts.extend(_text(file, _MOST_FILE_BYTES))
        if texts:
            break
    return "\n".join(texts)


def _text(file: Path, most: int) -> tuple[str, ...]:
    """The file's text in a tuple, which is empty where it cannot be read."""
    try:
        if not file.is_file() or file.stat().st_size > most:
            return ()
        return (file.read_text("utf-8", "replace"),)
    except OSError:
        return ()


def script_tree(setup: Setup) -> ast.Module | None:
    """The command's script, parsed and never run; None where there is none or it is not understood."""
    script = setup.command.script
    text = _text(script, _MOST_SCRIPT_BYTES) if script is not None else ()
    try:
        return ast.parse(text[0]) if text else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _statements(setup: Setup) -> Iterator[tuple[str, str]]:
    """The calls and assignments of the script that the table of misuses speaks of."""
    tree = script_tree(setup)
    calls = {known.call for known in load_misuses().known if known.call}
    nodes = [each for each in ast.walk(tree) if isinstance(each, ast.Call | ast.Assign)] if tree is not None else []
    for node in sorted(nodes, key=lambda each: each.lineno):
        if isinstance(node, ast.Call):
            named = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if named not in calls:
                continue
        elif not any(isinstance(each, ast.Attribute) for each in node.targets):
            continue
        try:
            yield ast.unparse(node), f"{setup.command.script}:{node.lineno}"
        except (RecursionError, ValueError):
            continue
