"""The architecture that a GGUF file's metadata describe, under the names of its own architecture."""

from __future__ import annotations

from ..errors import InputRefused
from ..language import _
from .architecture import Architecture, Attention, Cache, Experts, Latent, State
from .families import KNOWN_TO_GGUF, UNGATED, WINDOW_PATTERN
from .gguf import GgufFile
from .strange import taken_to_be_ordinary
from .tensors import head_width_of

_PATTERNS = {
    "gemma2": 2,
    "gemma3": 6,
    "gpt-oss": 2,
    "cohere2": 4,
    "exaone4": 4,
    "olmo2": 4,
    "gemma3n": 5,
} | WINDOW_PATTERN
_TELLING = (
    "window", "swa", "ssm.", "wkv", "conv", "time_mix", "token_shift", "lora_rank", "_mla", "latent", "indexer",
    "recurr", "shared_kv", "cross", "compress", "full_attention", "linear", "chunk", "memory", "state", "pattern",
    "kda",
)  # fmt: skip
"""Parts of keys that speak of what is kept."""
_READ = frozenset(
    ("attention.sliding_window", "attention.sliding_window_pattern", "attention.shared_kv_layers",
     "attention.kv_lora_rank", "attention.q_lora_rank", "attention.key_length_mla", "attention.value_length_mla",
     "attention.key_length_swa", "attention.value_length_swa", "rope.freq_base_swa", "rope.dimension_count_swa",
     "ssm.state_size", "ssm.inner_size", "ssm.conv_kernel", "ssm.group_count", "ssm.time_step_rank", "ssm.dt_b_c_rms",
     "full_attention_interval")
)  # fmt: skip
_CONVOLUTIONS = ("lfm2", "lfm2moe")
_NO_WINDOW = frozenset(("llama", "phi3", "qwen2", "qwen3", "mistral3"))
"""Architectures whose windowed layers llama.cpp keeps in full."""

_ALWAYS_WINDOWED = {"gemma2": 4096, "gemma3": None, "cohere2": None}
"""What llama.cpp takes for the window of architectures that have one, where the file has no key."""


def architecture_of_gguf(file: GgufFile, where: str) -> Architecture:
    """What the file keeps for each sequence. Raises InputRefused with the key that is missing."""
    return _Metadata(file, where).architecture()


class _Metadata:
    def __init__(self, file: GgufFile, where: str) -> None:
        self._file, self._where = file, where
        family = file.metadata.get("general.architecture")
        if not isinstance(family, str):
            raise InputRefused(
                _("{where}: the key general.architecture is missing; it is not guessed").format(where=where)
            )
        self._family = family
        self._unknown = family not in KNOWN_TO_GGUF
        self._assumed = [taken_to_be_ordinary(family)] if self._unknown else []

    def architecture(self) -> Architecture:
        self._refuse_strange_keys()
        layers = self._number("block_count")
        if layers > 10_000:
            raise InputRefused(
                _("{where}: {layers} layers are not those of a model").format(where=self._where, layers=layers)
            )
        heads = max(self._each("attention.head_count", layers, required=not self._has("ssm.state_size")))
        kept = self._each("attention.head_count_kv", layers, required=False)
        if heads and max(kept) > heads:
            raise InputRefused(
                _("{where}: {found} KV heads of {heads} attention heads are not those of a model").format(
                    where=self._where, found=max(kept), heads=heads
                )
            )
        width = self._maybe("attention.key_length")
        hidden = self._number("embedding_length")
        windows = self._windows(layers)
        states = self._states(layers, kept)
        caches: list[Cache] = []
        for layer in range(layers):
            if states[layer] is not None:
                caches.append(states[layer])  # type: ignore[arg-type]
            elif kept[layer] or not any(kept):
                caches.append(self._attention(kept[layer] or heads, heads, hidden, windows[layer]))
        shared = self._maybe("attention.shared_kv_layers") or 0
        experts = self._maybe("expert_count")
        vocabulary = self._maybe("vocab_size") or self._file.lengths.get("tokenizer.ggml.tokens")
        return Architecture(
            family=self._family,
            layers=layers,
            caches=tuple(caches[: len(caches) - shared]),
            sharing=tuple(caches[len(caches) - shared :]),
            hidden=hidden,
            heads=heads or None,
            head_width=width or head_width_of(hidden, heads),
            intermediate=max(self._each("feed_forward_length", layers, required=False)) or None,
            vocabulary=vocabulary,
            longest=self._maybe("context_length"),
            gated=self._family not in UNGATED,
            experts=None
            if not experts
            else Experts(
                experts,
                self._maybe("expert_used_count") or 1,
                self._maybe("expert_feed_forward_length") or self._maybe("feed_forward_length") or 1,
                layers - (self._maybe("leading_dense_block_count") or 0),
            ),
            unknown=self._unknown,
            assumptions=tuple(self._assumed),
            kept_assumed=bool(self._assumed),
        )

    def _refuse_strange_keys(self) -> None:
        """A key that may change what is kept, and that is not read here."""
        for key, value in self._file.metadata.items():
            name = key.removeprefix(f"{self._family}.")
            read = name in _READ or (name == "shortconv.l_cache" and self._family in _CONVOLUTIONS)
            if name != key and value and not read and any(part in name for part in _TELLING):
                raise InputRefused(
                    _(
                        "{where}: the key {key} may change what is kept, and is not known here; it is not guessed"
                    ).format(where=self._where, key=key)
                )

    def _attention(self, kept: int, heads: int, hidden: int, window: int | None) -> Cache:
        rank = self._maybe("attention.kv_lora_rank")
        width = self._maybe("attention.key_length") or head_width_of(hidden, heads)
        if width is None:
            raise InputRefused(
                _("{where}: the key {family}.attention.key_length is missing; it is not guessed").format(
                    where=self._where, family=self._family
                )
            )
        value = self._maybe("attention.value_length") or width
        if window is not None:
            width = self._maybe("attention.key_length_swa") or width
            value = self._maybe("attention.value_length_swa") or value
        if rank is not None and self._has("attention.key_length_mla"):
            rope = self._number("rope.dimension_count")
            nope = self._number("attention.key_length_mla") - rope
            return Latent(rank, rope, heads, nope, self._number("attention.value_length_mla"))
        return Attention(kept, width, value, window)

    def _windows(self, layers: int) -> list[int | None]:
        window = self._maybe("attention.sliding_window")
        if window is None and self._family in _ALWAYS_WINDOWED:
            window = _ALWAYS_WINDOWED[self._family]
            self._assumed.append(
                _("{name} = {value}: not in the file, what llama.cpp takes then").format(
                    name=f"{self._family}.attention.sliding_window", value=window or _("none")
                )
            )
        if window is None or self._family in _NO_WINDOW:
            return [None] * layers
        listed = self._file.metadata.get(f"{self._family}.attention.sliding_window_pattern")
        if isinstance(listed, tuple) and len(listed) == layers:
            return [window if each else None for each in listed]
        pattern = listed if isinstance(listed, int) and listed > 1 else _PATTERNS.get(self._family)
        if pattern is None:
            raise InputRefused(
                _(
                    "{where}: the key {family}.attention.sliding_window_pattern is missing: which layers have "
                    "the window is not guessed"
                ).format(where=self._where, family=self._family)
            )
        return [window if (layer + 1) % pattern else None for layer in range(layers)]

    def _states(self, layers: int, kept: list[int]) -> list[State | None]:
        """Layers that keep a state: those without KV heads, or all but each `full_attention_interval`-th."""
        columns = self._maybe("shortconv.l_cache") if self._family in _CONVOLUTIONS else None
        if columns is not None:
            convolution = State(self._number("embedding_length"), columns, 0)
            return [None if kept[layer] else convolution for layer in range(layers)]
        if not self._has("ssm.state_size"):
            return [None] * layers
        inner, size = self._number("ssm.inner_size"), self._number("ssm.state_size")
        groups = self._maybe("ssm.group_count") or 0
        state = State(inner + 2 * groups * size, self._number("ssm.conv_kernel"), inner * size)
        every = self._maybe("full_attention_interval")
        if every:
            return [state if (layer + 1) % every else None for layer in range(layers)]
        if any(kept) and all(kept):
            raise InputRefused(
                _(
                    "{where}: the key {family}.attention.head_count_kv does not tell which layers are states; it "
                    "is not guessed"
                ).format(where=self._where, family=self._family)
            )
        return [None if kept[layer] else state for layer in range(layers)]

    def _has(self, name: str) -> bool:
        return f"{self._family}.{name}" in self._file.metadata

    def _number(self, name: str) -> int:
        found = self._maybe(name)
        if found is None:
            raise InputRefused(
                _("{where}: the key {family}.{name} is missing; it is not guessed").format(
                    where=self._where, family=self._family, name=name
                )
            )
        return found

    def _maybe(self, name: str) -> int | None:
        value = self._file.metadata.get(f"{self._family}.{name}")
        if isinstance(value, tuple):
            value = max((each for each in value if isinstance(each, int)), default=None)
        if value is None or value == 0:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 40:
            raise InputRefused(
                _("{where}: {family}.{name} is {value}, not a size").format(
                    where=self._where, family=self._family, name=name, value=repr(str(value)[:40])
                )
            )
        return value

    def _each(self, name: str, layers: int, *, required: bool) -> list[int]:
        """A number for each layer; zeros where the key is missing and may be."""
        value = self._file.metadata.get(f"{self._family}.{name}")
        if isinstance(value, tuple):
            if len(value) != layers or not all(isinstance(each, int) and 0 <= each < 1 << 40 for each in value):
                raise InputRefused(
                    _("{where}: {family}.{name} is not a number for each of {layers} layers").format(
                        where=self._where, family=self._family, name=name, layers=layers
                    )
                )
            return [int(each) for each in value]
        return [self._number(name) if required else self._maybe(name) or 0] * layers
