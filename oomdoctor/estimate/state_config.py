"""The layers of a configuration that keep a state instead of a row a token: state-space, linear attention, convolution.

A convolution keeps the last inputs of each channel, the recurrence one matrix a head; neither grows with the length.
Shapes were read off the caches of transformers 5.24.0 (tests/estimate/test_transformers.py).
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import InputRefused
from ..language import _
from .architecture import State
from .attention_config import head_width, query_heads
from .fields import Fields

STATE_KINDS = frozenset(("linear_attention", "mamba", "mamba2", "recurrent", "conv", "m", "M", "*ssm"))
MAMBA_1 = frozenset(("mamba", "falcon_mamba", "jamba"))
MAMBA_2 = frozenset(("mamba2", "bamba", "granitemoehybrid", "falcon_h1", "nemotron_h", "zamba2"))
GATED_DELTA = frozenset(("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "olmo_hybrid"))


def state_layer(family: str, fields: Fields) -> State:
    """The state of one layer of that family. Raises InputRefused for one whose state is not known here."""
    if family in MAMBA_1:
        return _mamba_1(fields)
    if family in MAMBA_2:
        found = _mamba_2(fields)
        # Zamba2's layers share their blocks of attention and MLP.
        return replace(found, parameters=None) if family == "zamba2" else found
    if fields.has("linear_num_value_heads"):
        return _gated_delta(fields)
    if family == "recurrent_gemma":
        width = fields.maybe("lru_width") or fields.number("hidden_size")
        # This convolution keeps one input less than it has columns, in transformers too.
        return State(width, max(1, fields.number("conv1d_width") - 1), width)
    if fields.has("conv_L_cache"):
        return State(fields.number("hidden_size"), fields.number("conv_L_cache"), 0)
    if family == "minimax":
        width = head_width(family, fields)
        return State(0, 1, query_heads(fields) * width * width)
    raise InputRefused(
        _("{where}: the state that a layer of {family} keeps is not known; it is not guessed").format(
            where=fields.where, family=repr(family)
        )
    )


def _mamba_1(fields: Fields) -> State:
    inner = fields.maybe("intermediate_size") if fields.has("state_size") else None
    inner = inner or fields.number("mamba_expand", "expand") * fields.number("hidden_size")
    state = fields.number("mamba_d_state", "state_size")
    hidden, columns = fields.number("hidden_size"), fields.number("mamba_d_conv", "conv_kernel")
    ranks = ("mamba_dt_rank", "time_step_rank")
    # Their classes' word for a sixteenth of the width.
    own = fields.text(fields.name_of(*ranks)) == "auto"
    rank = -(-hidden // 16) if own else fields.maybe(*ranks)
    parameters = None
    if rank is not None:
        projections = 3 * hidden * inner + inner * (rank + 2 * state) + rank * inner
        parameters = projections + inner * (columns + state + 3)
    return State(inner, columns, inner * state, parameters)


def _mamba_2(fields: Fields) -> State:
    heads = fields.number("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")
    state = fields.number("mamba_d_state", "ssm_state_size", "state_size")
    groups = fields.number("mamba_n_groups", "mamba_ngroups", "n_groups")
    name = fields.name_of("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")
    fields.dividing(groups, fields.name_of("mamba_n_groups", "mamba_ngroups", "n_groups"), heads, name)
    inner = heads * _mamba_2_head_width(fields, heads)
    channels, columns = inner + 2 * groups * state, fields.number("mamba_d_conv", "conv_kernel")
    hidden = fields.number("hidden_size")
    parameters = hidden * (inner + channels + heads) + inner * hidden + channels * (columns + 1) + 3 * heads + inner
    return State(channels, columns, inner * state, parameters)


def _mamba_2_head_width(fields: Fields, heads: int) -> int:
    if fields.text("mamba_d_head") == "auto":
        inner = fields.number("mamba_expand") * fields.number("hidden_size")
        name = fields.name_of("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")
        return inner // fields.dividing(heads, name, inner, "mamba_expand x hidden_size")
    names = ("mamba_d_head", "mamba_head_dim", "mamba_headdim")
    # Mamba-2 itself calls it head_dim, which in the hybrids is that of attention.
    return fields.number(*names) if any(fields.has(name) for name in names) else fields.number("head_dim")


def _gated_delta(fields: Fields) -> State:
    groups, heads = fields.number("linear_num_key_heads"), fields.number("linear_num_value_heads")
    fields.dividing(groups, "linear_num_key_heads", heads, "linear_num_value_heads")
    keys = groups * fields.number("linear_key_head_dim")
    values = fields.number("linear_num_value_heads") * fields.number("linear_value_head_dim")
    recurrent = values * fields.number("linear_key_head_dim")
    hidden, columns = fields.number("hidden_size"), fields.number("linear_conv_kernel_dim")
    channels = 2 * keys + values
    # Queries, keys, values and their gate; two numbers a head; the convolution; the output.
    parameters = hidden * (channels + values + 2 * heads) + channels * columns + values * hidden + 2 * heads
    return State(channels, columns, recurrent, parameters)
