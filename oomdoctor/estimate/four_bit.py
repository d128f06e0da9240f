"""A base that is quantised to four bits while it is loaded (QLoRA, arXiv 2305.14314), as bitsandbytes keeps it.

    values     two in a byte (NF4 and FP4 alike)
    scales     a float32 for each block of 64; quantised themselves ("double"), a byte for each and a float32 for 256 of
               them: 0.5625 and 0.5159 bytes a value

Sources: `quantize_4bit` and `QuantState` of bitsandbytes 0.50 (`functional.py`). Only matrices of layers are quantised:
transformers leaves the embeddings, the output and the norms. PEFT's `prepare_model_for_kbit_training` makes those
float32; without it (`bf16-pure`) they stay as they are stored.
"""

from __future__ import annotations

from ..errors import InputRefused
from ..language import _
from .architecture import Architecture
from .model_input import Model
from .parameters import packed_bytes
from .tensors import embedding_elements

SINGLE, DOUBLE = "nf4", "nf4-double"
BASES = (SINGLE, DOUBLE)
METHOD = "bitsandbytes"
_WIDE = 4


def unpacked_elements(architecture: Architecture, where: object) -> int:
    """Embeddings and norms. Raises InputRefused where what is quantised is not known here."""
    vocabulary, hidden = architecture.vocabulary, architecture.hidden
    if architecture.experts is not None:
        raise InputRefused(
            _("{where}: which of the matrices of its experts bitsandbytes quantises is not known here").format(
                where=where
            )
        )
    if vocabulary is None or architecture.tied is None:
        raise InputRefused(_("{where}: what of it is not quantised is not known").format(where=where))
    return embedding_elements(vocabulary, hidden) * (1 if architecture.tied else 2) + (
        (2 * architecture.layers + 1) * hidden
    )


def is_four_bit(model: Model, base: str) -> bool:
    """Whether it is asked for (`base`: one of BASES, or empty), or how the model is stored."""
    return bool(base) or model.quantization == METHOD


def base_bytes(model: Model, base: str, precision: str) -> int:
    """Bytes of the frozen base. Raises InputRefused for a model that is quantised in another way."""
    if model.quantization is not None:
        if model.quantization != METHOD or model.floats is None:
            raise InputRefused(
                _("{path}: its weights are stored as {stored}, not as floats that could be quantised").format(
                    path=model.path, stored=model.quantization
                )
            )
        # As stored; its scales are float32 already.
        size, count = model.floats
        return model.weights_bytes - size + _WIDE * count if precision != "bf16-pure" else model.weights_bytes
    if model.parameters is None:
        raise InputRefused(
            _("{path}: how many parameters it has is not known; give the directory with the weights").format(
                path=model.path
            )
        )
    plain = unpacked_elements(model.architecture, model.path)
    rest = _WIDE * plain if precision != "bf16-pure" else model.dtype.bytes_of(plain)
    return packed_bytes(model.parameters - plain, base == DOUBLE) + rest
