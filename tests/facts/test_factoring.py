"""GIVEN a size WHEN it is taken apart THEN the product is the one it was made of, or none is given."""

from __future__ import annotations

import re
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from oomdoctor.facts.factoring import Factors, factor

GIB = 1 << 30


def product_of(found: Factors) -> int:
    return prod(int(number) for number in re.findall(r"[0-9]+", found.product))


def test_scores_of_one_prompt_whose_length_is_known():
    found = factor(8 * GIB, 8 * GIB, heads=32, lengths=[8192])
    assert found is not None
    assert (found.kind, found.product, found.tokens) == ("scores", "32 heads × 8192 × 8192 × 4 bytes", 8192)
    assert found.meaning == "float32 attention scores of one sequence of 8192 tokens (or 16-bit ones of two)"


def test_a_power_of_two_without_a_length_is_many_products_and_therefore_none():
    assert factor(8 * GIB, 8 * GIB, heads=32) is None
    assert factor(8 * GIB, 8 * GIB) is None


def test_an_uneven_length_is_told_by_the_size_alone():
    found = factor(40 * 7037 * 7037 * 2, 40 * 7037 * 7037 * 2, heads=40)
    assert found is not None
    assert found.product == "40 heads × 7037 × 7037 × 2 bytes"


def test_logits_in_either_width():
    size = 33024 * 128256 * 4
    found = factor(size - 511, size, heads=32, vocabulary=128256)
    assert found is not None
    assert found.product == "33024 positions × 128256 words × 4 bytes"
    assert found.meaning == "float32 logits of 33024 tokens (or 16-bit ones of 66048)"
    known = factor(size - 511, size, vocabulary=128256, lengths=[66048])
    assert known is not None
    assert known.meaning == "16-bit logits of 66048 tokens"


def test_a_rounded_size_leaves_the_known_length():
    rounded = factor(round(7.99 * GIB), round(8.005 * GIB), heads=32, lengths=[8192, 4000])
    assert rounded is not None
    assert rounded.tokens == 8192


def test_a_square_that_nothing_else_speaks_for_is_only_a_square():
    found = factor(7037 * 7037 * 512, 7037 * 7037 * 512)
    assert found is not None
    assert (found.kind, found.product, found.tokens) == ("square", "7037 × 7037 × 512 bytes", None)
    assert factor(1024 * 1024 * 512, 1024 * 1024 * 512) is None


def test_an_operation_that_is_known_leaves_its_own_kind():
    size = 33024 * 128256 * 4
    assert factor(size, size, heads=32, vocabulary=128256, kinds=["scores"]) is None


@given(st.integers(1 << 26, 1 << 44), st.integers(0, 511), st.sampled_from([None, 8, 28, 32, 71, 128]))
def test_whatever_is_told_multiplies_to_the_size(size: int, slack: int, heads: int | None):
    found = factor(size - slack, size, heads=heads, vocabulary=151936)
    assert found is None or size - slack <= product_of(found) <= size


@given(st.sampled_from([12, 28, 32, 40, 64]), st.integers(1000, 60000), st.sampled_from([2, 4]))
def test_what_was_made_is_found_where_its_length_is_known(heads: int, length: int, width: int):
    size = heads * length * length * width
    found = factor(size, size, heads=heads, lengths=[length])
    assert found is not None
    assert (found.tokens, product_of(found)) == (length, size)


def test_a_matrix_of_the_vocabulary_is_not_logits_of_so_many_tokens():
    """Both have the same bytes: without a length or an operation neither is told."""
    size = 128256 * 4096 * 2
    assert factor(size, size, vocabulary=128256, hidden=4096) is None
    matrix = factor(size, size, vocabulary=128256, hidden=4096, kinds=["embedding"])
    assert matrix is not None
    assert (matrix.kind, matrix.product) == ("embedding", "128256 words × 4096 × 2 bytes")
    logits = factor(size, size, vocabulary=128256, hidden=4096, lengths=[4096])
    assert logits is not None
    assert logits.kind == "logits"


def test_keys_of_one_layer():
    size = 33001 * 1024 * 2
    found = factor(size - 511, size, kv_row=1024, kinds=["keys"])
    assert found is not None
    assert (found.kind, found.product, found.tokens) == ("keys", "33001 positions × 1024 × 2 bytes", 33001)
    assert factor(size + 512, size + 1023, kv_row=1024, kinds=["keys"]) is None


def test_what_is_none_of_these_is_not_explained():
    dimensions = {"heads": 32, "vocabulary": 128256, "hidden": 4096, "kv_row": 1024}
    for size in (
        64 * 320 * 1001 * 1003 * 2,  # a convolution's output on images of unequal sides
        8_030_261_248 * 4,  # the states of a flat buffer of all parameters
        256 * 224 * 224 * 3 * 4,  # a batch of images
    ):
        assert factor(size, size, **dimensions) is None, size
