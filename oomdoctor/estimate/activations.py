"""What one step of inference needs besides weights and caches, and is free again after it.

vLLM          step tokens x (3 x intermediate + 3 x hidden) x bytes: the profile run of Llama-3.1-8B had 2.99 GiB with
              29000 tokens and 2.07 GiB with 20000 (vllm-project/vllm#10517); both within 1 %
transformers  tokens of all prompts x the widest moment of a layer: the MLP's three intermediate rows, or attention's
              queries, keys and values (keys and values repeated for every head), each beside the layer's input, the
              residual stream and its norm
logits        sequences x vocabulary x (bytes + 8): one position a sequence, its float32 copy and the probabilities
llama.cpp     step tokens x (vocabulary + hidden) x 4: the compute buffer with flash attention
"""

from __future__ import annotations

from dataclasses import dataclass

from ..language import _
from .architecture import Architecture
from .dtypes import ElementType
from .engines import LLAMA_CPP, TRANSFORMERS, Engine
from .tensors import logits_bytes, row_elements

_SAMPLED_COPIES = 2
"""Float32 copies of the logits that a sampler holds at once: the logits and their probabilities."""


@dataclass(frozen=True)
class StepSize:
    """What one step computes."""

    tokens: int
    sequences: int
    """Whose last position goes through the output embedding."""


@dataclass(frozen=True)
class Activations:
    """Bytes of one step on one rank, with the formula and its inputs in words."""

    bytes: int
    formula: str
    inputs: tuple[tuple[str, int], ...]


def step_size(concurrency: int, context: int, most: int | None) -> StepSize:
    """The largest step: a whole prompt of every sequence, or what an engine that cuts prompts puts into one at most."""
    whole = concurrency * context
    return StepSize(whole if most is None else min(most, whole) or 1, concurrency)


def inference_activations(
    architecture: Architecture, engine: Engine, dtype: ElementType, step: StepSize, ranks: int
) -> Activations:
    """The widest moment of one step. Tensor parallel divides the rows of MLP and heads, not the residual stream."""
    hidden, vocabulary = architecture.hidden, architecture.vocabulary or 0
    middle = _active_intermediate(architecture) // ranks
    inputs = [("tokens", step.tokens), ("hidden", hidden), ("intermediate", middle * ranks), ("vocabulary", vocabulary)]
    if engine is LLAMA_CPP:
        size = logits_bytes(step.tokens, vocabulary + hidden, 4)
        return Activations(size, _("tokens x (vocabulary + hidden) x 4"), tuple(inputs))
    logits = logits_bytes(step.sequences, vocabulary, dtype.bytes_of(1) + 4 * _SAMPLED_COPIES)
    if engine is TRANSFORMERS:
        heads, width = architecture.heads or 0, architecture.head_width or 0
        widest = max(3 * middle, 5 * row_elements(heads, width) // ranks) + 3 * hidden
        words = _("max(tokens x (max(3 x intermediate, 5 x heads x head width) + 3 x hidden) x bytes, logits)")
    else:
        widest = 3 * middle + 3 * hidden
        words = _("max(tokens x (3 x intermediate + 3 x hidden) x bytes, logits)")
    layer = step.tokens * dtype.bytes_of(widest)
    ranked = _(", {ranks} ranks").format(ranks=ranks) if ranks > 1 else ""
    return Activations(max(layer, logits), words + ranked, (*inputs, ("sequences", step.sequences)))


def _active_intermediate(architecture: Architecture) -> int:
    """The MLP's width a token: of a mixture the chosen and the shared experts, or a dense layer's if that is wider."""
    experts = architecture.experts
    dense = architecture.intermediate or 4 * architecture.hidden
    if experts is None:
        return dense
    chosen = experts.active * experts.width + experts.shared_width
    return max(chosen, dense) if experts.layers < architecture.layers else chosen
