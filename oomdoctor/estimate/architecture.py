"""What a model keeps for each sequence, layer by layer, and the widths that its activations depend on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Attention:
    """Keys and values of one layer: a row a token, of all tokens or of the last ones."""

    kv_heads: int
    key_width: int
    value_width: int
    window: int | None = None
    """Tokens that the layer looks back; None: all."""
    expanded_heads: int | None = None
    """What transformers stores instead of `kv_heads` (Falcon's new decoder keeps every query head)."""
    chunked: bool = False
    """Whether `window` is a chunk: a token looks back to the start of its own."""


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: one compressed vector a token, shared by all heads."""

    rank: int
    rope_width: int
    heads: int
    nope_width: int
    value_width: int
    indexer_width: int = 0
    """A sparse indexer's own key a token (DeepSeek-V3.2)."""
    query_rank: int | None = None
    """Of the compressed queries, which are weights only."""


@dataclass(frozen=True)
class State:
    """A convolution's last inputs and a recurrent state: the same size at every length."""

    conv_channels: int
    conv_kernel: int
    recurrent_elements: int
    parameters: int | None = field(default=None, compare=False)
    """Of the layer that keeps it, without its MLP; None where they are not known here."""


@dataclass(frozen=True)
class CrossAttention:
    """Keys and values of an encoder's output, kept once a sequence; `positions` None: as long as the input."""

    kv_heads: int
    key_width: int
    value_width: int
    positions: int | None = None


Cache = Attention | Latent | State | CrossAttention


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in some of the layers."""

    count: int
    active: int
    width: int
    layers: int
    shared_width: int = 0


@dataclass(frozen=True)
class Architecture:
    """A model as its configuration tells it. A width is None where the configuration does not say."""

    family: str
    """`model_type` of a configuration, `general.architecture` of a GGUF file."""
    layers: int
    caches: tuple[Cache, ...]
    """Of all layers, in their order; a layer that keeps nothing has none, one that keeps two kinds has two."""
    hidden: int
    heads: int | None
    head_width: int | None
    intermediate: int | None
    vocabulary: int | None
    longest: int | None = None
    """The positions that the model was made for."""
    gated: bool = True
    tied: bool | None = None
    """Whether input and output embedding are one matrix."""
    experts: Experts | None = None
    state_dtype: str | None = None
    """Element type of recurrent states where the configuration names one."""
    uncounted: str | None = None
    """Weights that the dimensions here do not tell, in words."""
    gated_queries: bool = False
    """Whether attention has a gate as wide as its queries."""
    encoder_layers: int = 0
    """Of an encoder as wide as the decoder, which keeps nothing itself."""
    positions: int = 0
    """Learnt positions."""
    unknown: bool = False
    """Whether the family is not known here: that its layers are ordinary attention is assumed."""
    assumptions: tuple[str, ...] = ()
    """What the configuration leaves to its class, and which value that class has."""
    kept_assumed: bool = False
    """Whether one of these is about what is kept for each sequence."""
    sharing: tuple[Cache, ...] = ()
    """Of layers that read the keys and values of an earlier one: what they would keep without."""

    @property
    def assumed(self) -> bool:
        """Whether figures of its dimensions rest on something that the file does not say."""
        return self.unknown or bool(self.assumptions)

    @cached_property
    def alike(self) -> tuple[tuple[Cache, int], ...]:
        """The different caches and how many layers have each."""
        return tuple(Counter(self.caches).items())

    @property
    def windowed(self) -> bool:
        """Whether some layer looks back a limited number of tokens."""
        return any(isinstance(each, Attention) and each.window is not None for each, _ in self.alike)

    @property
    def latent(self) -> bool:
        """Whether some layer keeps a compressed vector instead of keys and values."""
        return any(isinstance(each, Latent) for each, _ in self.alike)

    @property
    def stateful(self) -> bool:
        """Whether some layer keeps a state."""
        return any(isinstance(each, State) for each, _ in self.alike)

    @property
    def recurrent(self) -> bool:
        """Whether some layer keeps a recurrent state, whose element type need not be the model's."""
        return any(isinstance(each, State) and each.recurrent_elements for each, _ in self.alike)
