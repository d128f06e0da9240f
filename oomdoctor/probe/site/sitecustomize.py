"""Starts oomdoctor's probe, then steps aside for the sitecustomize that Python would have found without it.

Python's `site` imports this file because `oomdoctor run` puts its folder first on PYTHONPATH. It is also read by
interpreters too old for the probe (2.7, 3.6, 3.7), so it keeps to syntax they know and only steps aside there.
"""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))

if sys.version_info >= (3, 8) and os.environ.get("OOMDOCTOR_BUNDLE"):
    try:
        __import__("_oomdoctor_probe.start", level=0, fromlist=("start",)).start(os.environ["OOMDOCTOR_BUNDLE"])
    except Exception:
        # Nobody is there to tell yet, and the watched command must not notice.
        pass


def _is_ours(entry):  # type: (str) -> bool
    try:
        return os.path.abspath(entry) == _here
    except OSError:  # a relative entry, and the folder that the process is in was removed
        return False


# Where our folder stands on the path, last first: taken off in this order, put back in the opposite one.
_ours = [(_place, _entry) for _place, _entry in enumerate(sys.path) if _is_ours(_entry)][::-1]
for _place, _entry in _ours:
    del sys.path[_place]
# Kept in a variable: Python 2 empties the names of a module that nothing refers to any more.
_this_module = sys.modules.pop("sitecustomize", None)
try:
    # Found or not, and whatever it raises: this import does what `site` would have seen without us. When there is
    # none, its ImportError passes through here to `site`, which ignores it, and `sitecustomize` stays unimported.
    __import__("sitecustomize")
finally:
    # For those who hand sys.path on to the processes they start.
    for _place, _entry in _ours[::-1]:
        sys.path.insert(_place, _entry)
