"""Renews oomdoctor/estimate/class_defaults.py from the configuration classes of the transformers that is installed.

Only fields that bear on sizes, of the families that are known here; a field whose class says null is not in it.
"""

from __future__ import annotations

from pathlib import Path

import transformers

from oomdoctor.estimate.families import KNOWN
from oomdoctor.estimate.fields import SIZING

_FILE = Path(__file__).resolve().parent.parent / "oomdoctor/estimate/class_defaults.py"
_HEAD = '''"""What the configuration classes of transformers {version} have for fields that their file leaves out.

Made by scripts/make_class_defaults.py; tests/estimate/test_transformers.py holds it to the classes where they are
installed. Only fields that bear on sizes; one that is null by its class is not here.
"""

from __future__ import annotations

from collections.abc import Mapping

CLASS_DEFAULTS: Mapping[str, Mapping[str, int]] = {{
'''


def defaults_of(family: str) -> dict[str, int]:
    """The numbers and flags of its class, as the file of a model may leave them out."""
    declared = getattr(transformers.CONFIG_MAPPING[family], "__dataclass_fields__", {})
    found = {name: declared[name].default for name in SIZING if name in declared}
    return {name: value for name, value in found.items() if isinstance(value, int)}


def families() -> list[str]:
    """Those that are known here and to transformers."""
    return sorted(set(transformers.CONFIG_MAPPING.keys()) & KNOWN)


def main() -> None:
    """Writes the file."""
    lines = [_HEAD.format(version=transformers.__version__)]
    for family in families():
        line = f'    "{family}": {{'
        for name, value in defaults_of(family).items():
            item = f'"{name}": {value}, '
            if len(line) + len(item) > 119:
                lines.append(line.rstrip() + "\n")
                line = " " * 8
            line += item
        lines.append(line.removesuffix(", ") + "},\n")
    lines.append("}  # fmt: skip\n")
    _FILE.write_text("".join(lines))


if __name__ == "__main__":
    main()
