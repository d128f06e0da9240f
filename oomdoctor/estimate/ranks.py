"""What one of several tensor-parallel ranks holds of the weights: not every tensor is divided.

    embedding, output   by rows of the vocabulary, which is first filled up to a multiple of 64
    queries, outputs    divided by the ranks
    keys, values        a rank has at least one KV head: divided by no more than there are
    latent attention    the projections down to a latent vector, their norms and the indexer whole on every rank; those
                        up from it divided
    MLP, experts        divided; a mixture's router whole
    norms, positions    whole

Sources: `QKVParallelLinear`, `VocabParallelEmbedding`, `ReplicatedLinear` and `deepseek_v2` in vLLM 0.33 and SGLang
0.5.23, which agree in this. Biases behind a row-parallel matrix are whole, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .architecture import Architecture, Attention
from .files import StoredTensor

EVENLY, WHOLE = 0, 1
"""Limits of a share: by all ranks, and by none. Another number: by no more ranks than that."""
_VOCABULARY_STEP = 64

_NORM = re.compile(r"norm|(?:^|\.)ln_|layernorm|\.ln[0-9f]?\.")
_ROUTER = re.compile(
    r"\.(?:mlp|block_sparse_moe|feed_forward|moe|mixer)\.(?:gate|router)\.|\.router\.|shared_expert_gate|"
    r"e_score_correction_bias|expert_bias"
)
_LATENT = re.compile(r"\.(?:q_a_proj|kv_a_proj_with_mqa|kv_a_proj|indexer)\.?")
_POSITIONS = re.compile(r"(?:^|\.)(?:wpe|embed_positions|position_embeddings)\.|rotary|inv_freq")
_KEYS = re.compile(r"\.(?:k_proj|v_proj|wk|wv|key_proj|value_proj)\.")
_FUSED = re.compile(r"\.(?:qkv_proj|query_key_value|Wqkv|c_attn|qkv|wqkv)\.")
_ROW_BIAS = re.compile(r"\.(?:o_proj|down_proj|out_proj|c_proj|dense|dense_4h_to_h|fc2|fc_out|w2|wo)\.bias$")
_VOCABULARY = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embed_in|embed_out|lm_head)\.weight$|^output\.weight$"
)
_DIVIDED = re.compile(
    r"\.(?:q_proj|o_proj|q_b_proj|kv_b_proj|wq|wo|gate_proj|up_proj|down_proj|gate_up_proj|dense|dense_h_to_4h|"
    r"dense_4h_to_h|fc1|fc2|fc_in|fc_out|c_fc|c_proj|out_proj|w1|w2|w3|experts|shared_experts?|block_sparse_moe|"
    r"q_up_proj|attention\.dense|sinks|embed_scale)(?:\.|_|$)"
)
_ENCODER = re.compile(r"(?:^|\.)(?:vision|visual|image|audio|vit|multi_modal|mm_)")


@dataclass(frozen=True)
class Share:
    """Weights that are divided in one way."""

    limit: int
    bytes: int
    floats: tuple[int, int] = (0, 0)
    """Of them those that a loader casts: their bytes and how many."""


@dataclass(frozen=True)
class Shares:
    """All weights by how they are divided."""

    all: tuple[Share, ...]
    sure: bool
    """Whether each tensor's name is one whose place is known."""

    def of_rank(self, ranks: int) -> int:
        """Bytes on one rank, the fullest."""
        return sum(-(-share.bytes // min(ranks, share.limit or ranks)) for share in self.all)

    def cast(self, element_bytes: int) -> Shares:
        """With the floats in elements of another size."""
        return Shares(
            tuple(
                Share(
                    share.limit, share.bytes - share.floats[0] + element_bytes * share.floats[1],
                    (element_bytes * share.floats[1], share.floats[1]),
                )
                for share in self.all
            ),
            self.sure,
        )  # fmt: skip


def shares_of_tensors(tensors: Iterable[StoredTensor], floats: frozenset[str], architecture: Architecture) -> Shares:
    """By the names in the headers of safetensors files."""
    sums: dict[int, list[int]] = {}
    sure, heads = not architecture.stateful, kv_heads_of(architecture)

    def add(limit: int, tensor: StoredTensor, size: int) -> None:
        sized = sums.setdefault(limit, [0, 0, 0])
        part = size / tensor.bytes if tensor.bytes else 0
        sized[0] += size
        if tensor.dtype in floats:
            sized[1] += size
            sized[2] += round(tensor.elements * part)

    for tensor in tensors:
        limit = _limit(tensor, heads)
        if limit is None:
            sure, limit = False, EVENLY
        if limit == EVENLY and _FUSED.search(tensor.name) and heads is not None and architecture.heads:
            kept = tensor.bytes * 2 * heads // (architecture.heads + 2 * heads)
            add(heads, tensor, kept)
            add(EVENLY, tensor, tensor.bytes - kept)
        elif _VOCABULARY.search(tensor.name) and architecture.vocabulary:
            add(EVENLY, tensor, tensor.bytes)
            sums[EVENLY][0] += tensor.bytes * unused_rows(architecture.vocabulary) // architecture.vocabulary
        else:
            add(limit, tensor, tensor.bytes)
    return Shares(tuple(Share(limit, each[0], (each[1], each[2])) for limit, each in sorted(sums.items())), sure)


def _limit(tensor: StoredTensor, heads: int | None) -> int | None:
    """How a tensor of that name is divided; None where its name does not tell."""
    name = tensor.name
    if _ENCODER.search(name):
        return None
    whole = (_NORM, _ROUTER, _LATENT, _POSITIONS, _ROW_BIAS)
    if tensor.elements == 1 or any(each.search(name) for each in whole):
        return WHOLE
    if _KEYS.search(name):
        return heads
    if _FUSED.search(name) or _VOCABULARY.search(name) or _DIVIDED.search(name):
        return EVENLY
    return None


def kv_heads_of(architecture: Architecture) -> int | None:
    """KV heads of the attention layers; None where they differ, or there are none."""
    found = {cache.kv_heads for cache, _count in architecture.alike if isinstance(cache, Attention)}
    return found.pop() if len(found) == 1 else None


def shares_of_counts(counts: Mapping[int, int], element_bytes: int, architecture: Architecture) -> Shares:
    """By the numbers of parameters, where no file with weights is at hand (`parameters.divided_parameters`)."""
    each = {limit: element_bytes * count for limit, count in sorted(counts.items())}
    return Shares(tuple(Share(limit, size, (size, counts[limit])) for limit, size in each.items()),
                  not architecture.stateful)  # fmt: skip


def unused_rows(vocabulary: int) -> int:
    """Rows of an embedding that nobody uses, so that the ranks have as many each."""
    return -vocabulary % _VOCABULARY_STEP
