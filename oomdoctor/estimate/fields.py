"""A configuration's fields, read with their type; what is missing is named, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputRefused, UsageError
from ..language import _
from .dtypes import ElementType, element_type

_LARGEST = 1 << 40
"""No dimension of a model is larger; what is, was not written by one."""
_MOST_LAYERS = 10_000
Config = Mapping[str, Any]

_DIMENSIONS = (
    "hidden_size", "n_embd", "d_model", "n_embed", "num_hidden_layers", "n_layer", "n_layers", "decoder_layers",
    "num_decoder_layers", "num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
    "num_key_value_heads", "num_kv_heads", "n_head_kv", "head_dim", "kv_lora_rank", "encoder_layers",
    "num_layers", "qk_rope_head_dim", "qk_nope_head_dim", "attention_chunk_size",
    "no_rope_layer_interval", "max_window_layers", "sliding_window_pattern", "global_attn_every_n_layers",
    "intermediate_size", "n_inner", "ffn_dim", "decoder_ffn_dim", "d_ff", "ffn_hidden_size", "vocab_size",
    "padded_vocab_size", "max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "max_target_positions",
    "max_source_positions", "attn_layer_period", "attn_layer_offset", "full_attention_interval", "mamba_d_state",
    "state_size", "ssm_state_size", "mamba_d_conv", "conv_kernel", "mamba_expand", "expand", "mamba_dt_rank",
    "time_step_rank", "mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "mamba_n_groups", "mamba_ngroups",
    "n_groups", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
    "linear_conv_kernel_dim", "lru_width", "conv1d_width", "conv_L_cache",
)  # fmt: skip
"""Fields whose absence is seen: without one of them nothing is counted, or a part of it is said not to be."""
ABSENCE_PASSES = frozenset(
    ("multi_query", "new_decoder_architecture", "d_kv", "attention_head_dim", "kv_channels",
     "global_head_dim", "num_global_key_value_heads", "attention_k_eq_v", "swa_num_key_value_heads", "v_head_dim",
     "q_lora_rank", "index_head_dim", "sliding_window", "attention_window_size", "use_sliding_window",
     "num_kv_shared_layers", "intermediate_size_mlp", "tie_word_embeddings",
     "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "moe_intermediate_size",
     "expert_intermediate_size", "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk",
     "moe_top_k", "moe_k", "experts_per_token", "first_k_dense_replace", "num_dense_layers", "expert_layer_period",
     "expert_layer_offset", "decoder_sparse_step", "interleave_moe_layer_step", "shared_expert_intermediate_size",
     "shared_intermediate_size", "n_shared_experts", "mamba_d_head", "mamba_head_dim", "mamba_headdim",
     "hidden_size_per_layer_input")
)  # fmt: skip
"""Fields whose absence would pass for another value: for these the class's own counts, in a flat file too."""
SIZING = (*_DIMENSIONS, *sorted(ABSENCE_PASSES))
"""All fields that bear on sizes."""


def type_of_field(name: str, value: object, where: str) -> ElementType:
    """The element type that a field names. Raises InputRefused for what is none, or has blocks."""
    try:
        found = element_type(str(value))
    except UsageError as error:
        raise InputRefused(
            _("{where}: {name} is {value!r}, no element type that is known here").format(
                where=where, name=name, value=str(value)[:40]
            )
        ) from error
    if found.block_values > 1 or found.head_scale_bytes:
        raise InputRefused(
            _("{where}: {name} is {value!r}, which is one of quantised blocks").format(
                where=where, name=name, value=found.name
            )
        )
    return found


class Fields:
    """The fields of one configuration object."""

    def __init__(self, values: Config, where: str, defaults: Mapping[str, int] | None = None) -> None:
        """`defaults`: what the class of this model has where its file is silent; a use of a size is written down."""
        self.values, self.where, self._defaults = values, where, dict(defaults or {})
        self.assumed: list[str] = []

    def get(self, name: str) -> Any:
        """The field as it stands, or its class's value; None where it is null, or nothing tells it."""
        # A field that is there and null is not left to its class.
        if name in self.values or name not in self._defaults:
            return self.values.get(name)
        value = self._defaults[name]
        if not isinstance(value, bool):
            self.assumed.append(
                _("{name} = {value}: not in the file, the default of its class").format(name=name, value=value)
            )
        return value

    def has(self, name: str) -> bool:
        """Whether the field is there and not null, or its class has a value for it."""
        return self.get(name) is not None

    def number(self, *names: str) -> int:
        """A size of at least 1 under the first of these names that is there. Raises InputRefused."""
        found = self.maybe(*names)
        if found is None:
            others = _(" (or {names})").format(names=_(", ").join(names[1:])) if names[1:] else ""
            raise InputRefused(
                _("{where}: the field {name}{others} is missing; it is not guessed").format(
                    where=self.where, name=names[0], others=others
                )
            )
        return found

    def maybe(self, *names: str) -> int | None:
        """The same, None where all are missing."""
        for name in names:
            if self.values.get(name) is not None:
                return self._checked(name, self.values[name])
        value = next((value for name in names if (value := self.get(name)) is not None), None)
        return None if not value else int(value)

    def count(self, *names: str) -> int:
        """The same where it may be none: 0 where it is 0 or missing."""
        for name in names:
            if self.values.get(name) in (0, 0.0) and not isinstance(self.values[name], bool):
                return 0
        return self.maybe(*names) or 0

    def at_most(self, name: str, most: int, of: str) -> int:
        """A number from 0 to `most`, which `of` names; 0 where it is missing."""
        found = self.count(name)
        if found > most:
            raise self.refusal(name, _("more than {of} ({most})").format(of=of, most=most))
        return found

    def dividing(self, found: int, name: str, whole: int, of: str) -> int:
        """`found`, which has to divide `whole`. Raises InputRefused that names both fields."""
        if whole % found:
            raise InputRefused(
                _("{where}: {name} is {value}, which does not divide {of} ({whole})").format(
                    where=self.where, name=name, value=found, of=of, whole=whole
                )
            )
        return found

    def name_of(self, *names: str) -> str:
        """Under which of these names the file tells it; the first where none is there."""
        return next((name for name in names if self.values.get(name) is not None), names[0])

    def refusal(self, name: str, why: str) -> InputRefused:
        """The field with its value, and what speaks against it."""
        return InputRefused(
            _("{where}: {name} is {value}, {why}").format(
                where=self.where, name=name, value=repr(str(self.get(name))[:40]), why=why
            )
        )

    def layers(self, *names: str) -> int:
        """A number of layers."""
        found = self.number(*names)
        if found > _MOST_LAYERS:
            raise InputRefused(
                _("{where}: {found} layers are not those of a model").format(where=self.where, found=found)
            )
        return found

    def flag(self, name: str, default: bool) -> bool:
        """A yes or no; `default` where neither the file nor its class says."""
        value = self.get(name)
        if value is None:
            return default
        if value not in (0, 1) or isinstance(value, float):
            raise self.refusal(name, _("neither true nor false"))
        return bool(value)

    def text(self, name: str) -> str | None:
        """A word."""
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    def element(self, *names: str) -> ElementType | None:
        """The element type under the first of these names that is there; None where all are missing."""
        name = next((name for name in names if self.has(name)), None)
        return None if name is None else type_of_field(name, self.values[name], self.where)

    def items(self, name: str, length: int | None = None) -> list[Any] | None:
        """A list, of that length; None where it is missing."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > _MOST_LAYERS:
            raise InputRefused(_("{where}: {name} is not a list of layers").format(where=self.where, name=name))
        if length is not None and len(value) != length:
            raise InputRefused(
                _("{where}: {name} names {value} layers, the model has {length}").format(
                    where=self.where, name=name, value=len(value), length=length
                )
            )
        return value

    def layer_numbers(self, name: str, layers: int) -> frozenset[int] | None:
        """A list of layers by their numbers, from 0; None where it is missing."""
        listed = self.items(name)
        if listed is None:
            return None
        for each in listed:
            if isinstance(each, bool) or not isinstance(each, int) or not 0 <= each < layers:
                raise InputRefused(
                    _("{where}: {name} names the layer {layer}, the model has {layers}").format(
                        where=self.where, name=name, layer=repr(str(each)[:40]), layers=layers
                    )
                )
        return frozenset(listed)

    def part(self, name: str) -> Fields | None:
        """A nested object."""
        value = self.values.get(name)
        return Fields(value, f"{self.where}, {name}") if isinstance(value, dict) else None

    def _checked(self, name: str, value: object) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST:
            raise InputRefused(
                _("{where}: {name} is {value}, not a size").format(
                    where=self.where, name=name, value=repr(str(value)[:40])
                )
            )
        return value
