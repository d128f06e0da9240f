"""Finds the highest figure among lines that a log has too many of to read each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence


class Peaks:
    """Remembers the highest figure of each form, and says where a piece of text goes beyond it."""

    def __init__(self, forms: Sequence[str]) -> None:
        self._forms = [re.compile(form.encode()) for form in forms]
        """Regular expressions that begin with a literal and have one group, a number."""
        self._highest = [float("-inf")] * len(forms)

    def beyond(self, text: bytes) -> Iterator[int]:
        """For each form, the place in `text` where its figure is higher than it was ever before, if it is."""
        for number, form in enumerate(self._forms):
            highest = max(set(form.findall(text)), key=float, default=None)
            if highest is None or float(highest) <= self._highest[number]:
                continue
            self._highest[number] = float(highest)
            found = next(one for one in form.finditer(text) if one[1] == highest)
            yield found.start()
