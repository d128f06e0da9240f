"""Sizes of single tensors of a transformer, each formula once, for estimates and for reading a failed request."""

from __future__ import annotations


def head_width_of(hidden: int, heads: int) -> int | None:
    """The width of a head where it has no field of its own; None where the heads do not divide the hidden size."""
    return hidden // heads if heads and hidden % heads == 0 else None


def scores_bytes(heads: int, positions: int, pair_bytes: int) -> int:
    """Attention scores: for each head and pair of positions `pair_bytes`, the width of a score times the sequences."""
    return heads * positions * positions * pair_bytes


def logits_bytes(positions: int, vocabulary: int, element_bytes: int) -> int:
    """Logits, or anything else that has a value for each position and word."""
    return positions * vocabulary * element_bytes


def embedding_elements(vocabulary: int, hidden: int) -> int:
    """The matrix of the vocabulary."""
    return vocabulary * hidden


def projection_elements(hidden: int, width: int, matrices: int = 1) -> int:
    """So many matrices between the residual stream and something of that width: an MLP's, an expert's."""
    return matrices * hidden * width


def middle_elements(positions: int, intermediate: int) -> int:
    """What an MLP makes of so many positions between its projections."""
    return positions * intermediate


def row_elements(kv_heads: int, width: int) -> int:
    """Keys, or values, of one token in one layer."""
    return kv_heads * width


def rows_bytes(tokens: int, page_tokens: int, token_bytes: int) -> int:
    """What so many tokens of one sequence take in whole pages."""
    return pages_of(tokens, page_tokens) * token_bytes


def tokens_within(room_bytes: int, page_tokens: int, token_bytes: int) -> int:
    """The most tokens, in whole pages, that fit; none where the room is negative."""
    return max(0, room_bytes // (token_bytes * page_tokens) * page_tokens)


def pages_of(tokens: int, page_tokens: int) -> int:
    """Tokens rounded up to whole pages."""
    return -(-tokens // page_tokens) * page_tokens
