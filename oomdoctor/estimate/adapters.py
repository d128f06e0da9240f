"""LoRA and DoRA: matrices of a low rank beside frozen ones, and what a frozen layer keeps for the backward pass.

    parameters   rank x (input width + output width) for each matrix that has an adapter, and with DoRA the output
                 width; in float32, as PEFT makes them
    activations  a frozen matrix keeps no input of its own. The norms keep their float32 copy, attention its rows, the
                 MLP its gate, activation and other half; each adapter keeps its input (a copy of its own, unless all
                 is float32) and `rank` values. A base of four bits answers in the type it was asked in: with autocast
                 and float32 norms the MLP keeps float32. DoRA keeps both answers, of the matrix and of the adapter
    DoRA's norm  of each matrix the sum of it and its adapter, for a moment (PEFT's `DoraLinearLayer.forward`): the
                 identity, the adapter multiplied out, the matrix, the scaled adapter and the sum

Activations were compared with transformers 5.24, PEFT 0.21 and bitsandbytes 0.50 on the CPU, tensor by tensor: the same
to the bytes of a norm's root (tests/estimate/test_adapters.py has the figures).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputRefused
from ..language import _
from .architecture import Architecture, Attention
from .files import read_json
from .tensors import embedding_elements, row_elements

ALL_LINEAR = "all-linear"
USUAL_TARGETS = ("q_proj", "v_proj")
_GATED, _PLAIN = ("gate_proj", "up_proj", "down_proj"), ("up_proj", "down_proj")
_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_WHOLE = ("embed_tokens", "lm_head")
_MOST_RANK = 1 << 16
ADAPTER_CONFIG = "adapter_config.json"


@dataclass(frozen=True)
class Lora:
    """Which matrices of a layer have adapters, and of which rank."""

    rank: int
    targets: tuple[str, ...] = USUAL_TARGETS
    whole: tuple[str, ...] = ()
    """Matrices that are trained themselves (PEFT's `modules_to_save`)."""
    dora: bool = False
    """With a trained magnitude for each output of a matrix (arXiv 2402.09353)."""
    base: str = ""
    """How the frozen matrices are quantised while they are loaded, one of `four_bit.BASES`; empty: as stored."""


def read_lora(path: Path) -> Lora:
    """What an `adapter_config.json` of PEFT says. Raises InputRefused for what is not known here."""
    file = path / ADAPTER_CONFIG if path.is_dir() else path
    config = read_json(file)
    kind = config.get("peft_type") if isinstance(config, dict) else None
    if kind != "LORA":
        raise InputRefused(_("{file}: peft_type is {kind}, not LORA").format(file=file, kind=repr(kind)))
    for name in ("rank_pattern", "layers_to_transform", "target_parameters"):
        if config.get(name):
            raise InputRefused(_("{file}: {name} is not in the estimate").format(file=file, name=name))
    rank, targets = config.get("r"), config.get("target_modules")
    if not isinstance(rank, int) or isinstance(rank, bool) or not 0 < rank < _MOST_RANK:
        raise InputRefused(_("{file}: the field r is missing or no rank").format(file=file))
    names = [targets] if isinstance(targets, str) else targets
    whole = config.get("modules_to_save") or []
    if not _are_words(names) or not _are_words(whole) or not names:
        raise InputRefused(_("{file}: the field target_modules is missing or no list of names").format(file=file))
    return Lora(rank, tuple(sorted(names)), tuple(sorted(whole)), dora=config.get("use_dora") is True)


def trained_parameters(architecture: Architecture, lora: Lora, where: object) -> int:
    """Parameters of the adapters and of what is trained whole. Raises InputRefused for a matrix not known here."""
    total = 0
    for layer, count in _layers(architecture, where):
        widths = _widths(architecture, layer)
        total += count * sum(
            lora.rank * sum(widths[name]) + lora.dora * widths[name][1] for name in _targets(architecture, lora, where)
        )
    for name in lora.whole:
        if name not in _WHOLE or architecture.vocabulary is None:
            raise InputRefused(_("{where}: what {name} has to train is not known here").format(where=where, name=name))
        total += embedding_elements(architecture.vocabulary, architecture.hidden)
    return total


def frozen_layer_activations(
    architecture: Architecture, lora: Lora, tokens: int, precision: str, where: object, four_bit: bool = False
) -> int:
    """What autograd keeps of one layer whose own matrices are frozen, in bytes: the widest layer's."""
    element = 4 if precision == "fp32" else 2
    answer = 4 if four_bit and precision == "bf16-mixed" else element
    copy = 2 if precision == "bf16-mixed" else 4
    targets = _targets(architecture, lora, where)
    middle = architecture.intermediate or 0
    most = 0
    for layer, _count in _layers(architecture, where):
        widths = _widths(architecture, layer)
        inputs = [widths[name][0] for name in targets]
        if precision == "fp32":
            # No copies: what attention answered is kept anyway, and matrices behind one norm share its output.
            shared = {name in _ATTENTION: widths[name][0] for name in targets if name not in ("o_proj", "down_proj")}
            inputs = [*shared.values(), *(widths[name][0] for name in targets if name == "down_proj")]
        queries = row_elements(architecture.heads or 0, layer.key_width)
        rows = row_elements(layer.kv_heads, layer.key_width + layer.value_width)
        attention = element * (2 * queries + rows) + 4 * (architecture.heads or 0)
        mlp = answer * (3 if architecture.gated else 1) * middle
        adapters = copy * (sum(inputs) + lora.rank * len(targets))
        if lora.dora:
            adapters += (answer + copy) * sum(widths[name][1] for name in targets)
        most = max(most, 8 * architecture.hidden + attention + mlp + adapters)
    return tokens * most


def dora_bytes(architecture: Architecture, lora: Lora, precision: str, where: object) -> int:
    """What DoRA's norm of one matrix takes while it is computed, of the one that takes most; 0 without it."""
    if not lora.dora:
        return 0
    square, whole = {"fp32": (4, 12), "bf16-mixed": (6, 18), "bf16-pure": (4, 16)}[precision]
    shapes = [
        _widths(architecture, layer)[name]
        for layer, _count in _layers(architecture, where)
        for name in _targets(architecture, lora, where)
    ]
    return max(square * read * read + whole * read * written for read, written in shapes)


def largest_matrix(architecture: Architecture, where: object) -> int:
    """Elements of the largest matrix of a layer."""
    layers = _layers(architecture, where)
    return max(read * written for layer, _count in layers for read, written in _widths(architecture, layer).values())


def _targets(architecture: Architecture, lora: Lora, where: object) -> tuple[str, ...]:
    mlp = _GATED if architecture.gated else _PLAIN
    named = (*_ATTENTION, *mlp) if lora.targets == (ALL_LINEAR,) else lora.targets
    for name in named:
        if name not in (*_ATTENTION, *mlp):
            raise InputRefused(
                _("{where}: a matrix {name} of its layers is not known here; those that are: {names}").format(
                    where=where, name=repr(name[:40]), names=", ".join((*_ATTENTION, *mlp, ALL_LINEAR))
                )
            )
        if name in mlp and (architecture.experts is not None or architecture.intermediate is None):
            raise InputRefused(
                _("{where}: how adapters of {name} sit on its experts is not known here").format(where=where, name=name)
            )
    return named


def _layers(architecture: Architecture, where: object) -> list[tuple[Attention, int]]:
    """The different layers; all of them ordinary attention."""
    found = [(cache, count) for cache, count in architecture.alike if isinstance(cache, Attention)]
    if sum(count for _cache, count in found) != architecture.layers or architecture.heads is None:
        raise InputRefused(
            _(
                "{where}: {family} has layers whose matrices are not known one by one: adapters are not estimated"
            ).format(where=where, family=repr(architecture.family))
        )
    return found


def _widths(architecture: Architecture, layer: Attention) -> Mapping[str, tuple[int, int]]:
    """Input and output of the matrices of a layer."""
    hidden, middle, heads = architecture.hidden, architecture.intermediate or 0, architecture.heads or 0
    answer = row_elements(heads, layer.value_width)
    return {
        "q_proj": (hidden, row_elements(heads, layer.key_width)),
        "k_proj": (hidden, row_elements(layer.kv_heads, layer.key_width)),
        "v_proj": (hidden, row_elements(layer.kv_heads, layer.value_width)),
        "o_proj": (answer, hidden),
        "gate_proj": (hidden, middle),
        "up_proj": (hidden, middle),
        "down_proj": (middle, hidden),
    }


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
