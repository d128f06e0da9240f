"""What autograd keeps of a layer whose parameters are trained, for the backward pass."""

from __future__ import annotations

from ..errors import InputRefused
from ..language import _
from .architecture import Architecture, Attention, Latent
from .tensors import row_elements


def layer_activations(architecture: Architecture, tokens: int, precision: str) -> int:
    """What autograd keeps of one layer with flash attention, in bytes.

    Two norms as transformers writes them (the float32 copy, the scaled row, the output), queries, keys, values and the
    output of attention, the log of its sum a head, and of the MLP the gate, its activation, the other half and their
    product. Derived from Korthikanti et al. (arXiv 2205.05198) for a gated layer without dropout.
    """
    hidden, width, heads = architecture.hidden, architecture.head_width, architecture.heads
    if width is None or heads is None:
        raise InputRefused(
            _("the heads of {family} are not told; activations are not guessed").format(
                family=repr(architecture.family)
            )
        )
    element = 4 if precision == "fp32" else 2
    # The copy, the scaled row and the output. Autocast has a float32 residual stream, and casts the output anew for
    # each of the matrices behind a norm: three and two.
    norms = {"fp32": 24, "bf16-mixed": 26, "bf16-pure": 16}[precision]
    queries, rows = row_elements(heads, width), _kv_width(architecture)
    attention = element * (2 * queries + rows) + 4 * heads
    experts = architecture.experts
    middle = architecture.intermediate or 4 * hidden
    if experts is not None:
        middle = experts.active * experts.width + experts.shared_width
    mlp = element * (4 if architecture.gated else 2) * middle
    return tokens * (norms * hidden + attention + mlp)


def _kv_width(architecture: Architecture) -> int:
    """Keys and values of a token in an attention layer, all heads: the widest layer's."""
    widths = [0]
    for cache, _count in architecture.alike:
        if isinstance(cache, Latent):
            widths.append(cache.heads * (cache.nope_width + cache.rope_width + cache.value_width))
        elif isinstance(cache, Attention):
            widths.append(cache.kv_heads * (cache.key_width + cache.value_width))
    return max(widths)
