"""Lines to copy with the reader's own command in them, where the input shows it: its words and quoting as they are."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from functools import partial

from ..bundle.redact import mask_text
from ..knobs.load import load_knobs
from ..language import _
from ..model.diagnosis import Finding, Missing, Remedy
from ..model.facts import FactSet
from ..model.texts import map_texts

_PLACEHOLDER = "<your command>"
_LONGEST = 1000
_SHELL = re.compile(r"[;|&<>`\n\r–—…]|\$\(")
"""What a shell does with it, or what no shell reads: such a line is not put behind another program's name."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*\s")
_ELSEWHERE = {
    "apptainer", "docker", "docker-compose", "enroot", "kubectl", "nerdctl", "podman", "qsub", "sbatch", "singularity",
    "ssh",
}  # fmt: skip
"""Clients: what watches them does not watch the program, within which it must stand."""
_BEHIND_A_PROGRAM = re.compile(r"-- " + re.escape(_PLACEHOLDER))
_FLAG = re.compile(r"(--[A-Za-z][\w.-]*)(?:[ =](\S.*))?")
_EXPORT = re.compile(r"export ([A-Za-z_]\w*)=(\S+)")
_WORD = re.compile(r"(?:[^\s'\"\\]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\")+")
_SHORT = {
    "--ctx-size": "-c", "--n-gpu-layers": "-ngl", "--gpu-layers": "-ngl", "--ubatch-size": "-ub", "--batch-size": "-b",
    "--parallel": "-np", "--tensor-split": "-ts", "--flash-attn": "-fa", "--cache-type-k": "-ctk",
    "--cache-type-v": "-ctv", "--cpu-moe": "-cmoe", "--tensor-parallel-size": "-tp",
}  # fmt: skip
"""Other spellings of one option; two of one option on a line contradict each other."""


def own_command(facts: FactSet) -> str | None:
    """The launch line as it can stand behind another program; None where it is unknown, or a script of a shell."""
    line = facts.value("command.line")
    if not isinstance(line, str) or not line.strip() or len(line) > _LONGEST or _SHELL.search(line):
        return None
    line = line.strip()
    if mask_text(line) != line:
        return None  # what is masked in a report would not run, and a shell takes `<masked>` for files
    try:
        words = shlex.split(line)
    except ValueError:
        return None  # a quote is not closed: the line was cut
    return None if "oomdoctor" in words[:2] else line


def with_own_command(findings: tuple[Finding, ...], facts: FactSet) -> tuple[Finding, ...]:
    """The findings with the command in their lines to copy, and with each setting shown in it."""
    command = own_command(facts)
    if command is None:
        return findings
    return tuple(_of_finding(finding, command, facts) for finding in findings)


def missing_with_own_command(missing: tuple[Missing, ...], facts: FactSet) -> tuple[Missing, ...]:
    """What is missing, with the command in the lines that get it."""
    command = own_command(facts)
    return missing if command is None else map_texts(missing, partial(filled, command=command))


def filled(text: str, command: str) -> str:
    """The text with the command for its placeholder. Behind `--` no shell reads assignments: `env` does.

    What a client starts elsewhere cannot be watched from here: the placeholder stays.
    """
    text = text.replace(_(_PLACEHOLDER), _PLACEHOLDER)
    if _starts_elsewhere(command):
        return text
    behind = f"-- env {command}" if _ASSIGNMENT.match(command) else f"-- {command}"
    return _BEHIND_A_PROGRAM.sub(lambda _found: behind, text).replace(_PLACEHOLDER, command)


def _starts_elsewhere(command: str) -> bool:
    words = (word for word in shlex.split(command) if not _ASSIGNMENT.match(f"{word} ") and word not in ("sudo", "env"))
    return next(words, "").rsplit("/", 1)[-1] in _ELSEWHERE


def _of_finding(finding: Finding, command: str, facts: FactSet) -> Finding:
    return replace(
        finding,
        remedies=tuple(_of_remedy(remedy, command, facts) for remedy in finding.remedies),
        to_confirm=map_texts(finding.to_confirm, partial(filled, command=command)),
    )


def _of_remedy(remedy: Remedy, command: str, facts: FactSet) -> Remedy:
    if remedy.set is None:
        return remedy
    lines = tuple(filled(line, command) for line in remedy.set.lines)
    shown = None
    if len(lines) == 1 and "<" not in lines[0]:
        framework = load_knobs()[remedy.set.knob].framework
        shown = changed(command, lines[0], starts_it=framework == facts.value("command.program"))
    return replace(remedy, set=replace(remedy.set, lines=lines), command=shown)


def changed(command: str, line: str, *, starts_it: bool) -> str | None:
    """The command with one setting changed, all else as it was typed.

    A flag that it has gets the new value; one that it lacks is put at its end where the program is the flag's own
    (`starts_it`). A variable goes before it, unless that hands it on to nobody
    (`docker`, `sudo`). None where a line is neither, or would contradict what is set.
    """
    if variable := _EXPORT.fullmatch(line):
        name = variable[1]
        kept = _starts_elsewhere(command) or "sudo" in command.split() or re.search(rf"(?:^|\s){name}=", command)
        return None if kept else f"{name}={variable[2]} {command}"
    flag = _FLAG.fullmatch(line)
    if flag is None:
        return None
    name, value = flag[1], flag[2]
    words = list(_WORD.finditer(command))
    alike = [number for number, word in enumerate(words) if _same_option(word[0], name)]
    if len(alike) > 1:
        return None
    if not alike:
        return f"{command} {line}" if starts_it else None
    here = words[alike[0]]
    if value is None:
        return None  # it is there already
    if "=" in here[0]:
        start, end = here.start() + here[0].index("=") + 1, here.end()
    else:
        if alike[0] + 1 >= len(words) or words[alike[0] + 1][0].startswith("--"):
            return None
        start, end = words[alike[0] + 1].span()
    if command[start:end].strip("'\"") == value.strip("'\""):
        return None
    return f"{command[:start]}{value}{command[end:]}"


def _same_option(word: str, name: str) -> bool:
    option = word.partition("=")[0]
    return option == _SHORT.get(name) or (
        option.startswith("--") and option.replace("_", "-") == name.replace("_", "-")
    )
