"""How all our objects for programs are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .. import __version__


def json_text(schema: str, content: Mapping[str, Any]) -> str:
    """An object of this schema. Raises ValueError for NaN and infinity.

    Only ASCII is written: the text is often read in a terminal, where a raw C1 control or direction mark would act.
    """
    head = {"schema": schema, "oomdoctor": __version__}
    return json.dumps({**head, **content}, indent=2, allow_nan=False, ensure_ascii=True) + "\n"
