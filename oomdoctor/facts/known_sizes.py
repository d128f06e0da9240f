"""Sizes that follow from what is known of a model, a launch or a shape: no length has to be found for them.

Parameters in one piece, as ZeRO, FSDP and fused optimizers keep them; DeepSpeed's buckets; the projections of an MLP,
and of all experts of a layer; scores of the latents of an image; a tensor whose shape the message names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ..estimate.tensors import middle_elements, projection_elements
from ..language import N_
from .factoring import Factors

_PADDING_BYTES = 64 << 10
"""Flat buffers are padded so that every rank has as much, and aligned."""
_WIDTHS = ((4, N_("float32")), (2, N_("16 bits")))
_LATENTS = (8, 16)
"""Pixels of a side that become one position: of autoencoders alone, and with patches of two."""
_MOST_BYTES_A_PAIR = 256
"""Bytes for a pair of latents: heads times images times the width of a score."""


@dataclass(frozen=True)
class Known:
    """What the input tells; None where it does not."""

    parameters: int | None = None
    trainable: int | None = None
    reduce_bucket: int | None = None
    gather_bucket: int | None = None
    hidden: int | None = None
    intermediate: int | None = None
    experts: int | None = None
    expert_width: int | None = None
    ranks: int | None = None
    image: tuple[int, int] | None = None
    lengths: Collection[int] = ()


def known_sizes(least: int, most: int, known: Known, kinds: Collection[str]) -> Iterator[Factors]:
    """Those of `kinds` whose size lies in [least, most]."""
    if "parameters" in kinds:
        yield from _parameters(least, most, known)
        yield from _buckets(least, most, known)
    if "projections" in kinds:
        yield from _projections(least, most, known)
    if "activations" in kinds:
        yield from _activations(least, most, known)
    if "latents" in kinds and known.image is not None:
        yield from _latents(least, most, known.image)


def _cards(known: Known) -> tuple[int, ...]:
    return (1, known.ranks) if known.ranks is not None and known.ranks > 1 else (1,)


def _parameters(least: int, most: int, known: Known) -> Iterator[Factors]:
    counts = dict.fromkeys(count for count in (known.trainable, known.parameters) if count)
    for count in counts:
        for cards in _cards(known):
            for width, name in _WIDTHS:
                size = -(-count // cards) * width
                if least - _PADDING_BYTES <= size <= most:
                    part = N_("one of {cards} equal parts of the parameters") if cards > 1 else N_("all parameters")
                    said = N_("{part} in one piece, in {width}: a copy, gradients or one state of the optimizer")
                    divided = N_("{count} parameters ÷ {cards} × {number} bytes")
                    product = divided if cards > 1 else N_("{count} parameters × {number} bytes")
                    yield Factors(
                        "parameters",
                        product.format(count=count, cards=cards, number=width),
                        said.format(part=part.format(cards=cards), width=name),
                        None,
                    )


def _buckets(least: int, most: int, known: Known) -> Iterator[Factors]:
    buckets = (
        (known.reduce_bucket, N_("the bucket in which gradients are reduced, in {width}")),
        (known.gather_bucket, N_("the bucket in which parameters are gathered, in {width}")),
    )
    for count, said in buckets:
        for width, name in _WIDTHS if count else ():
            if count and least - _PADDING_BYTES <= count * width <= most:
                product = N_("{count} elements × {number} bytes").format(count=count, number=width)
                yield Factors("parameters", product, said.format(width=name), None)


def _projections(least: int, most: int, known: Known) -> Iterator[Factors]:
    """In 16 bits, as such weights are loaded: in other widths other projections would have the same size."""
    if known.hidden is None:
        return
    both, one = N_("the gate and up projections"), N_("a projection")
    if known.experts and known.expert_width:
        for cards in _cards(known):
            for count, which in ((2, both), (1, one)):
                size = known.experts * 2 * projection_elements(known.hidden, known.expert_width, count) // cards
                if least <= size <= most:
                    rows = projection_elements(1, known.expert_width, count)
                    product = N_("{experts} experts × {rows} × {number} × 2 bytes").format(
                        experts=known.experts, rows=rows, number=known.hidden
                    )
                    said = N_("{which} of all experts of a layer, in 16 bits").format(which=which)
                    if cards > 1:
                        product = N_("{product} ÷ {number}").format(product=product, number=cards)
                        said = N_("{said}, of one card's share").format(said=said)
                    yield Factors("projections", product, said, None)
    for count, which in ((2, both), (1, one)) if known.intermediate else ():
        if known.intermediate and least <= 2 * projection_elements(known.hidden, known.intermediate, count) <= most:
            rows = projection_elements(1, known.intermediate, count)
            product = N_("{rows} × {number} × 2 bytes").format(rows=rows, number=known.hidden)
            yield Factors("projections", product, N_("{which} of a layer's MLP, in 16 bits").format(which=which), None)


def _activations(least: int, most: int, known: Known) -> Iterator[Factors]:
    for length in known.lengths if known.intermediate else ():
        for width, name in _WIDTHS:
            if known.intermediate and least <= middle_elements(length, known.intermediate) * width <= most:
                product = N_("{length} positions × {wide} × {number} bytes").format(
                    length=length, wide=known.intermediate, number=width
                )
                said = N_("what a layer's MLP makes of {length} tokens, in {width}").format(length=length, width=name)
                yield Factors("activations", product, said, length)


def _latents(least: int, most: int, image: tuple[int, int]) -> Iterator[Factors]:
    width, height = image
    for side in _LATENTS:
        if width % side or height % side:
            continue
        positions = (width // side) * (height // side)
        pair = most // (positions * positions)
        if 2 <= pair <= _MOST_BYTES_A_PAIR and pair % 2 == 0 and positions * positions * pair >= least:
            product = N_("{positions} × {positions} × {number} bytes").format(positions=positions, number=pair)
            said = N_("attention scores of the {positions} latents of a {width} × {height} image").format(
                positions=positions, width=width, height=height
            )
            yield Factors("latents", product, said, positions)


def of_shape(shape: Collection[int], item_bytes: int, dtype: str) -> Factors:
    """A tensor whose shape and type are told."""
    sides = tuple(shape)
    product = N_("{sides} × {number} bytes").format(sides=" × ".join(map(str, sides)), number=item_bytes)
    said = N_("a tensor of that shape, of type {dtype}").format(dtype=dtype)
    if len(sides) == 2 and sides[0] == sides[1]:
        said = N_("one {dtype} for each pair of {count} items, as a matrix of distances has").format(
            dtype=dtype, count=sides[0]
        )
    elif len(sides) == 4:
        said = N_("what a layer makes of a batch of {count}, of type {dtype}").format(count=sides[0], dtype=dtype)
    return Factors("tensor", product, said, None)
