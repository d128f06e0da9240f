"""What differs between engines for one configuration: pages, windows, what is reserved, what a step needs.

Versions and defaults are those of vLLM 0.33, SGLang 0.5, llama.cpp of 2026 and transformers 5.24; a difference that a
version makes is told where it changes a figure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from ..errors import UsageError
from ..language import _
from ..model.units import GIB, MIB
from .architecture import Architecture, Attention
from .dtypes import ElementType
from .families import WINDOW_IF_ASKED, WINDOW_IN_EVERY_LAYER


@dataclass(frozen=True)
class Engine:
    """The rules of one engine."""

    name: str
    page_tokens: int
    """Tokens that are given to a sequence at once."""
    step_tokens: int | None
    """Most tokens of one step on a small card; None: a whole prompt of every sequence."""
    fraction: float
    """Of the card, what the engine takes; 1 where it takes what it needs."""
    fraction_name: str
    overhead_bytes: int
    """Context and libraries of one process, assumed where nobody measured."""
    graph_bytes: int
    """What captured graphs take, assumed."""
    conv_columns_less: int
    """A convolution of n columns keeps n inputs in transformers, n - 1 elsewhere."""
    queues: bool = False
    """Whether requests that its pool does not hold wait: it starts where the pool holds one of the longest."""
    repeats_heads: bool = False
    """Whether several ranks may keep the same KV head."""
    larger_steps: tuple[tuple[int, int], ...] = ()
    """Memory of a card from which on, the largest first, and the most tokens of a step there."""
    divides_layers: bool = False
    """Whether each card has some of the layers whole (llama.cpp's --split-mode layer), not a share of each."""


TRANSFORMERS = Engine("transformers", 1, None, 1.0, "", 500 * MIB, 0, 0)
VLLM = Engine(
    "vllm", 16, 2048, 0.92, "--gpu-memory-utilization", 358 * MIB, 512 * MIB, 1, queues=True, repeats_heads=True,
    larger_steps=((160 * GIB, 16_384), (70 * GIB, 8192)),
)  # fmt: skip
SGLANG = Engine(
    "sglang", 1, 2048, 0.88, "--mem-fraction-static", 500 * MIB, 1 * GIB, 1, queues=True, repeats_heads=True,
    larger_steps=((160 * GIB, 16_384), (60 * GIB, 8192), (20 * GIB, 4096)),
)  # fmt: skip
LLAMA_CPP = Engine("llama.cpp", 256, 512, 1.0, "", 500 * MIB, 0, 1, divides_layers=True)
ENGINES = {engine.name: engine for engine in (TRANSFORMERS, VLLM, SGLANG, LLAMA_CPP)}

_GGML_TYPES = ("float32", "float16", "bfloat16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_WITHOUT_SCALES = ("int8", "uint8")
_SGLANG_TYPES = ("fp4_mx_block16", "mxfp8")
_GGML_BLOCK = 32
"""Values of a block of ggml's quantised types; a plain type has none."""

SGLANG_WINDOW_SHARE = Fraction(8, 10)
"""SGLang's own `swa_full_tokens_ratio`."""
_SGLANG_DROPS = frozenset(
    ("gemma4_text", "gemma4_unified_text", "gpt_oss", "granite_swa", "granitemoe_swa", "laguna", "llama4",
     "llama4_text", "mellum", "mimo_v2_flash", "step3p5")
)  # fmt: skip
"""Families whose windowed layers have a pool of their own in SGLang 0.5.23 (`is_hybrid_swa_model`)."""
_LLAMA_CPP_KEEPS = WINDOW_IN_EVERY_LAYER | WINDOW_IF_ASKED | {"ministral3"}
"""Families whose windowed layers llama.cpp keeps in full: it converts them to architectures without windows."""
RANK_BYTES = 900 * MIB
"""What communication between the ranks of a tensor-parallel group takes on each, assumed."""


_SMALL_STEPS = ("a100", "gb10", "dgx spark")
_LARGEST_STEPS_BYTES = 160 * GIB


def goes_by_name(capacity_bytes: int) -> bool:
    """Whether vLLM looks at the name of a card of this size as it chooses its step."""
    return 70 * GIB <= capacity_bytes < _LARGEST_STEPS_BYTES


def drops_what_slid_out(engine: Engine, family: str) -> bool:
    """Whether windowed layers of the family may keep less than all tokens.

    SGLang has a smaller pool for windows of some families only; those of all others (Gemma 2 and 3, Mistral, Phi-3 …)
    limit what is looked at, not what is kept. llama.cpp has windows of some architectures only.
    """
    if engine is LLAMA_CPP:
        return family not in _LLAMA_CPP_KEEPS
    return engine is not SGLANG or family in _SGLANG_DROPS


def usual_step_tokens(engine: Engine, capacity_bytes: int, card: str | None = None) -> int | None:
    """Most tokens of a step where nothing sets it, by the card; None: a whole prompt of every sequence.

    vLLM 0.33 `EngineArgs.get_batch_defaults` of a server, which goes by the name of the card too: an A100 and a GB10
    (DGX Spark) have the small one whatever their memory; SGLang 0.5.23 `memory_hook.py`, by memory alone.
    """
    if engine is VLLM and goes_by_name(capacity_bytes) and any(each in (card or "").lower() for each in _SMALL_STEPS):
        return engine.step_tokens
    return next((tokens for least, tokens in engine.larger_steps if capacity_bytes >= least), engine.step_tokens)


def ranks_refused(engine: Engine, architecture: Architecture, ranks: int) -> str | None:
    """Why it does not run with so many ranks, in words; None where it does.

    vLLM and SGLang want the ranks to divide the attention heads, and KV heads to be divided or repeated evenly (their
    `QKVParallelLinear` and attention classes); transformers repeats none (huggingface/transformers#48307).
    """
    if engine.divides_layers:
        layers = architecture.layers
        return None if ranks <= layers else _("the model has only {layers} layers to divide").format(layers=layers)
    if architecture.heads is not None and architecture.heads % ranks:
        return _("it does not divide {heads} attention heads").format(heads=architecture.heads)
    for heads in {cache.kv_heads for cache in architecture.caches if isinstance(cache, Attention)}:
        if heads % ranks and not engine.repeats_heads:
            return _("it does not divide {heads} KV heads, and this engine repeats none").format(heads=heads)
        if heads % ranks and ranks % heads:
            return _("{heads} KV heads can neither be divided nor repeated evenly").format(heads=heads)
    return None


def cache_type_refused(
    engine: Engine, architecture: Architecture, kinds: Iterable[ElementType], packed: bool
) -> str | None:
    """Why the engine keeps nothing in these element types, in words; None where nothing speaks against it.

    `packed`: in vLLM's fp8_ds_mla. ggml's blocks are llama.cpp's (its --cache-type-k takes them and plain floats).
    """
    latent = architecture.latent
    if packed and (engine is not VLLM or not latent):
        return _("fp8_ds_mla is how vLLM keeps latent vectors (MLA)")
    for kind in kinds:
        if kind.name in _WITHOUT_SCALES:
            return _("{kind} alone does not tell its scales; vLLM has {kind}_per_token_head").format(kind=kind.name)
        if kind.head_scale_bytes and (engine is not VLLM or latent):
            return _("{kind} is how vLLM keeps keys and values of heads").format(kind=kind.name)
        if engine is not SGLANG and kind.name in _SGLANG_TYPES:
            return _("{kind} is a type of SGLang").format(kind=kind.name)
        if engine is SGLANG and kind.name == "mxfp4":
            return _("SGLang refuses mxfp4 for keys and values; its four bits are nvfp4 and fp4_mx_block16")
        if engine is LLAMA_CPP and kind.name not in _GGML_TYPES:
            return _("llama.cpp keeps keys and values in {names}").format(names=", ".join(_GGML_TYPES))
        if engine is not LLAMA_CPP and kind.block_values == _GGML_BLOCK and kind.name in _GGML_TYPES:
            return _("{kind} is a type of llama.cpp").format(kind=kind.name)
    return None


def engine_of(name: str) -> Engine:
    """The engine of that name."""
    if name not in ENGINES:
        raise UsageError(
            _("no engine that is known here: {name}; one of {engines}").format(
                name=repr(name), engines=", ".join(ENGINES)
            )
        )
    return ENGINES[name]
