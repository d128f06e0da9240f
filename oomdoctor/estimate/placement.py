"""Which part of a model lies on the card.

llama.cpp (`load_tensors` in its llama-model.cpp) leaves the input embedding on the host, and puts the last layers on
the card, as many as --n-gpu-layers says; the output counts as one more layer behind them. Llama-3.1-8B in Q4_K_M has
281.81 MiB on the host and 4403.49 on the card, all layers being there (start-up lines in ollama/ollama's issues).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..errors import InputRefused
from ..language import _
from .architecture import Architecture
from .files import StoredTensor

_BLOCK = re.compile(r"blk\.([0-9]{1,5})\.")
_INPUT, _OUTPUT = "token_embd.", "output."


@dataclass(frozen=True)
class Places:
    """Bytes of a GGUF file's tensors by where they can lie."""

    input_bytes: int
    """The input embedding, where the output has a matrix of its own; else a copy of it is the output, on the card."""
    blocks: tuple[int, ...]
    """Of each layer, in their order."""
    rest_bytes: int
    """The output and its norm."""


def places_of(tensors: Iterable[StoredTensor], layers: int) -> Places:
    """The tensors of a model by where they can lie."""
    blocks, inputs, rest, own_output = [0] * layers, 0, 0, False
    for tensor in tensors:
        block = _BLOCK.match(tensor.name)
        if block is not None and int(block[1]) < layers:
            blocks[int(block[1])] += tensor.bytes
        elif tensor.name.startswith(_INPUT):
            inputs += tensor.bytes
        else:
            rest += tensor.bytes
            own_output = own_output or tensor.name.startswith(_OUTPUT)
    return Places(inputs, tuple(blocks), rest) if own_output else Places(0, tuple(blocks), rest + inputs)


def card_bytes(places: Places, gpu_layers: int | None) -> int:
    """Bytes on the card with so many layers there; None: all of them, and the output."""
    layers = len(places.blocks)
    if gpu_layers is None or gpu_layers > layers:
        return sum(places.blocks) + places.rest_bytes
    return sum(places.blocks[layers - gpu_layers :])


def fullest_card_bytes(places: Places, cards: int) -> int:
    """Of cards that share the layers evenly (--split-mode layer), the fullest: the output is one more, on the last.

    `load_tensors` gives layer i of n to the first card whose share of n + 1 ends behind i.
    """
    whole = len(places.blocks) + 1
    sizes = [0] * cards
    for layer, size in enumerate((*places.blocks, places.rest_bytes)):
        sizes[layer * cards // whole] += size
    return max(sizes)


def layers_on_card(architecture: Architecture, gpu_layers: int, where: object) -> Architecture:
    """The last layers. Raises InputRefused where it is not known what each of the layers keeps."""
    if gpu_layers >= architecture.layers:
        return architecture
    if len(architecture.caches) != architecture.layers:
        raise InputRefused(
            _(
                "{where}: not every layer keeps keys and values of its own, so what {layers} of them keep on the card"
                " is not known"
            ).format(where=where, layers=gpu_layers)
        )
    return replace(architecture, caches=architecture.caches[architecture.layers - gpu_layers :])
