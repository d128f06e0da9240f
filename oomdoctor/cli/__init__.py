"""The command line: one file per command; the only place that exits."""

import os
import sys


def _prefer_own_modules() -> None:
    """Search what PYTHONPATH names last: it is meant for the command, and a `yaml.py` or `click/` there is not ours.

    A package that only PYTHONPATH leads to is still found.
    """
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    named = {_absolute(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry} - {here}
    # sys.path may hold anything by now; what is no text is left where it is
    late = [entry for entry in sys.path if isinstance(entry, str) and entry and _absolute(entry) in named]
    sys.path[:] = [*(entry for entry in sys.path if entry not in late), *late]


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:  # the folder that we are in was removed: nothing relative to it is found
        return path


_prefer_own_modules()
