"""No secret that an input holds gets into a report, whatever part of the report shows that input."""

from __future__ import annotations

from dataclasses import replace

from ..bundle.redact import StreamMasker, mask_text
from ..model.diagnosis import Diagnosis, Excerpt
from ..model.texts import map_texts


def masked(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with every known kind of secret replaced by `<masked>`."""
    excerpts = tuple(replace(excerpt, lines=_masked_lines(excerpt)) for excerpt in diagnosis.excerpts)
    return map_texts(replace(diagnosis, excerpts=excerpts), mask_text)


def _masked_lines(excerpt: Excerpt) -> tuple[str, ...]:
    """Line by line, for a private key takes many; each stays in its place."""
    masker = StreamMasker()
    return tuple(
        masker.feed(line.encode("utf-8", "surrogateescape") + b"\n").decode("utf-8", "surrogateescape").rstrip("\n")
        for line in excerpt.lines
    )
