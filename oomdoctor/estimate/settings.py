"""What an estimate of inference is for: the engine, the card, the requests, and what was set or measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from .dtypes import ElementType
from .engines import SGLANG_WINDOW_SHARE, Engine, usual_step_tokens
from .parts import ASSUMED, COMPUTED


@dataclass(frozen=True)
class Settings:
    """What the estimate is for."""

    engine: Engine
    capacity_bytes: int
    """Of one device."""
    context: int
    concurrency: int
    headroom: float = 0.1
    """The least share of the card that is to be left."""
    comfort: float | None = None
    """A larger share, beside which everything is told as well; None: one is enough."""
    tensor_parallel: int = 1
    fraction: float | None = None
    keys: ElementType | None = None
    """Element type of keys; None: that of the model."""
    values: ElementType | None = None
    states: ElementType | None = None
    step_tokens: int | None = None
    overhead_bytes: int | None = None
    """Measured; None: assumed for the engine."""
    overhead_source: str = "--overhead"
    """Who measured it."""
    graph_bytes: int | None = None
    expanded: bool = False
    hybrid: bool = True
    packed_latent: bool = False
    prefix_states: bool | None = None
    """Whether vLLM's prefix cache holds states, two a request instead of one; None: as its default is."""
    gpu_layers: int | None = None
    """Layers that llama.cpp puts on cards, the output counted as one; None: all."""
    window_share: Fraction = SGLANG_WINDOW_SHARE
    """SGLang's `--swa-full-tokens-ratio`."""
    steps_at_once: int = 2
    """Steps that vLLM's windows hold: since 0.26 two, which asynchronous scheduling, its default, has under way."""
    card: str | None = None
    """What the card is called; None: nobody told. vLLM goes by it."""

    @property
    def most_step_tokens(self) -> int | None:
        """Tokens of the largest step; None: a whole prompt of every sequence."""
        return self.step_tokens or usual_step_tokens(self.engine, self.capacity_bytes, self.card)

    @property
    def step_assumed(self) -> bool:
        """Whether the largest step is what the engine takes on a card of this size, which its versions change."""
        return self.step_tokens is None and bool(self.engine.larger_steps)

    @property
    def limit_bytes(self) -> int:
        """What the engine may take of the device."""
        return int(self.capacity_bytes * (self.engine.fraction if self.fraction is None else self.fraction))

    @property
    def limit_known(self) -> str:
        """How the share is known that this is of the card: an engine's own changes between versions."""
        return ASSUMED if self.fraction is None and self.engine.fraction_name else COMPUTED

    @property
    def safe_bytes(self) -> int:
        """What leaves the headroom asked for."""
        return min(self.limit_bytes, int(self.capacity_bytes * (1 - self.headroom)))

    @property
    def headrooms(self) -> tuple[float, ...]:
        """Those asked for, the least first."""
        return (self.headroom,) if self.comfort is None else (self.headroom, self.comfort)

    def leaves(self, total_bytes: int) -> float | None:
        """The most of the headrooms asked for that so many bytes leave; None: not even the least."""
        kept = [each for each in self.headrooms if total_bytes <= replace(self, headroom=each).safe_bytes]
        return kept[-1] if kept else None
