"""Whether the command that ran may be given to the reader to run again under `oomdoctor run`, and how."""

from __future__ import annotations

import re
import shlex

YOUR_COMMAND = "<your command>"
"""What stands in a line to copy for a command that is not known."""
_LONGEST = 400
"""Characters; a longer command hides what the line is about."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_OF_A_SHELL = re.compile(r"[|&;<>()`$\n\r]")
"""Outside quotes these are of the shell that ran the line: another command would take the place of the program's."""
_STARTS_ELSEWHERE = {
    "apptainer", "bash", "docker", "docker-compose", "enroot", "kubectl", "nerdctl", "podman", "qsub", "ray", "sbatch",
    "sh", "singularity", "ssh", "sudo", "tsp",
}  # fmt: skip
"""What watches their client, or a shell's line, does not watch the program: there it must stand within."""


def to_be_watched(command: str) -> str | None:
    """The command as it may stand behind `oomdoctor run --`; None where that is not sure to start the same program.

    Assignments before it become arguments of `env`; that it was watched already is left out.
    """
    if not command or len(command) > _LONGEST or not command.isprintable():
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if _shell_at_work(command):
        return None
    if words[:2] == ["oomdoctor", "run"]:
        if "--" not in words:
            return None
        words = words[words.index("--") + 1 :]
    program = next((word for word in words if not _ASSIGNMENT.match(word)), None)
    if program is None or program.rsplit("/", 1)[-1] in _STARTS_ELSEWHERE:
        return None
    return shlex.join(["env", *words] if words[0] != program else words)


def _shell_at_work(command: str) -> bool:
    """Whether a shell does more with it than split it into words: what stands in single quotes it leaves alone."""
    bare = re.sub(r"'[^']*'", "", command)
    return _OF_A_SHELL.search(bare) is not None
