"""What a training step needs on one device.

    parameters        in the precision that they are kept in
    gradients         in that of the parameters
    optimizer states  by optimizer: AdamW keeps two moments
    activations       what autograd keeps of every layer for the backward pass (`layer_activations`)
    logits            tokens x vocabulary: the output, its float32 copy, its log-softmax, and two gradients of it

Ranks that shard nothing copy their gradients into the buckets of DistributedDataParallel, which are as large as all
gradients and stay (torch's `reducer.cpp`); with `gradient_as_bucket_view` the gradients are views of them.

Sharding as in ZeRO (Rajbhandari et al., arXiv 1910.02054, figure 1): stage 1 divides optimizer states (with the float32
copy of the parameters), stage 2 gradients too, stage 3, and FSDP, parameters too. Which moment is the peak depends on
their sizes: gradients are freed before a step (`set_to_none`), so activations and gradients are not full at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..errors import InputRefused, UsageError
from ..language import N_, _
from ..model.units import MIB
from .adapters import Lora, dora_bytes, frozen_layer_activations, largest_matrix, trained_parameters
from .budget import RESERVE, WORKSPACE, WORKSPACE_BYTES, reserve_of
from .four_bit import base_bytes, is_four_bit
from .layer_activations import layer_activations
from .model_input import Model
from .parts import ASSUMED, COMPUTED, Part, measured_part
from .tensors import embedding_elements, logits_bytes

_OVERHEAD_BYTES = 500 * MIB
_RANK_BYTES = 900 * MIB
_RESERVE_OF_CHECKPOINTS = 0.33
"""The same in three steps with checkpointing."""
_BLOCK_8BIT = 256
"""Values that share one float32 scale in an optimizer with eight-bit states (bitsandbytes)."""

PRECISIONS = ("bf16-mixed", "fp32", "bf16-pure")
_SLOTS = {
    "adamw": 2, "adamw8bit": 2, "sgd": 0, "sgd-momentum": 1, "lion": 1, "lion8bit": 1, "rmsprop": 1, "adagrad": 1,
}  # fmt: skip
"""Tensors that an optimizer keeps for each parameter."""
_COPIES = {"adamw": 1, "rmsprop": 1, "adagrad": 2, "adafactor": 1}
"""Tensors for each parameter that a foreach step makes for a moment (torch 2.13 `_multi_tensor_…`): the root of the
second moment; in Adagrad the scaled gradient too. SGD adds to the parameters in place, and Lion's classes have none."""
OPTIMIZERS = ("adamw", "adamw8bit", "sgd", "sgd-momentum", "adafactor", "lion", "lion8bit", "rmsprop", "adagrad")


@dataclass(frozen=True)
class Training:
    """The settings of a training run."""

    capacity_bytes: int
    optimizer: str = "adamw"
    precision: str = "bf16-mixed"
    batch: int = 1
    sequence: int = 2048
    checkpointing: bool = False
    zero: int = 0
    """Stage of ZeRO; FSDP is 3."""
    ranks: int = 1
    headroom: float = 0.1
    comfort: float | None = None
    """A larger share that one would rather leave; None: one is enough."""
    overhead_bytes: int | None = None
    overhead_source: str = "--overhead"
    """Who measured it."""
    foreach: bool = True
    """Whether the optimizer works on all parameters at once, which torch does on CUDA unless it is fused."""
    bucket_view: bool = False
    """Whether gradients are views of DistributedDataParallel's buckets."""
    replicates: bool = True
    """Whether ranks that shard nothing have such buckets; DeepSpeed's have none."""
    lora: Lora | None = None
    """Adapters beside frozen parameters, which are kept as they are stored; None: all are trained."""
    offload_states: bool = False
    """Optimizer states, and with ZeRO 2 and 3 gradients, in host memory."""
    offload_parameters: bool = False
    buffer_bytes: int = 0
    """What DeepSpeed keeps for communication."""
    live_parameters: int | None = None
    """Most parameters that ZeRO 3 has gathered at once; None: those of two layers."""

    @property
    def headrooms(self) -> tuple[float, ...]:
        """Those asked for, the least first."""
        return (self.headroom,) if self.comfort is None else (self.headroom, self.comfort)

    def leaves(self, total_bytes: int) -> float | None:
        """The most of the headrooms asked for that so many bytes leave; None: not even the least."""
        kept = [each for each in self.headrooms if total_bytes <= int(self.capacity_bytes * (1 - each))]
        return kept[-1] if kept else None

    @property
    def tokens(self) -> int:
        """Tokens of a step on one device."""
        return self.batch * self.sequence


@dataclass(frozen=True)
class Moment:
    """One moment of a step and the parts that are live in it."""

    name: str
    parts: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class TrainingLimits:
    """What fits at most and leaves this share of the card; 0 where nothing does."""

    headroom: float
    max_batch: int
    """With the length asked for."""
    max_sequence: int
    """With the batch asked for."""


@dataclass(frozen=True)
class TrainingBudget:
    """What a step asks of one device."""

    parts: tuple[Part, ...]
    moments: tuple[Moment, ...]
    total_bytes: int
    """Of the moment that needs most."""
    headroom_bytes: int
    verdict: str
    binds: str
    max_batch: int
    """The largest batch that leaves the headroom; 0 where none does."""
    reserve_bytes: int
    """What torch may hold beyond what is allocated, assumed."""

    @property
    def peak(self) -> Moment:
        """The moment that needs most."""
        return max(self.moments, key=lambda moment: moment.bytes)


PARAMETERS, GRADIENTS, STATES, ACTIVATIONS, LOGITS, LAYER, TEMPORARY, GATHERED, OVERHEAD = (
    N_("parameters"), N_("gradients"), N_("optimizer states"), N_("activations kept for backward"),
    N_("logits and their gradients"),
    N_("one layer computed again or backwards"), N_("optimizer's temporaries"), N_("gathered parameters"),
    N_("context and libraries"),
)  # fmt: skip
OUTPUT = N_("logits that the loop still names")
BUCKETS, BUFFERS = N_("buckets of gradients"), N_("buffers for communication")
UNPACKED, NORM = N_("one matrix of four bits unpacked"), N_("DoRA's norm of one matrix")
_FLOATS_IN_ALL = ("fp8",)
"""Methods of which the matrices are still as many values as the parameters that they stand for."""


def training_budget(model: Model, settings: Training) -> TrainingBudget:
    """The budget of one device. Raises InputRefused where the model does not tell what is needed."""
    parts = _parts(model, settings)
    moments = _moments(parts, settings.checkpointing)
    total = max(moment.bytes for moment in moments)
    safe = int(settings.capacity_bytes * (1 - settings.headroom))
    verdict = "fits" if total <= safe else "tight" if total <= settings.capacity_bytes else "no"
    peak = max(moments, key=lambda moment: moment.bytes)
    sizes = {part.name: part.bytes for part in parts}
    largest = max(peak.parts, key=lambda name: sizes[name])
    return TrainingBudget(
        parts=parts,
        moments=moments,
        total_bytes=total,
        headroom_bytes=settings.capacity_bytes - total,
        verdict=verdict,
        binds=_("the peak is {name}; its largest part is {largest}").format(name=_(peak.name), largest=_(largest)),
        max_batch=_largest_batch(model, settings, safe),
        reserve_bytes=reserve_of(
            total - sizes[OVERHEAD], _RESERVE_OF_CHECKPOINTS if settings.checkpointing else RESERVE
        ),
    )


def state_bytes(optimizer: str, parameters: int, hidden: int, element: int) -> int:
    """States of an optimizer in elements of that size. Adafactor keeps a row and a column for a matrix."""
    if optimizer not in OPTIMIZERS:
        raise UsageError(
            _("no optimizer that is known here: {optimizer}; one of {optimizers}").format(
                optimizer=repr(optimizer), optimizers=", ".join(OPTIMIZERS)
            )
        )
    if optimizer == "adafactor":
        return 2 * 4 * -(-parameters // hidden)
    if optimizer.endswith("8bit"):
        return slots_bytes(optimizer, parameters + 4 * -(-parameters // _BLOCK_8BIT))
    return slots_bytes(optimizer, element * parameters)


def slots_bytes(optimizer: str, slot_bytes: int) -> int:
    """States of an optimizer whose slots are as large as what they belong to."""
    return _SLOTS[optimizer] * slot_bytes


def state_parts(
    count: int, hidden: int | None, settings: Training, source: str = "", frozen_bytes: int = 0
) -> tuple[Part, ...]:
    """What follows from the number of parameters alone: themselves, gradients, states, buckets, a step's temporaries.

    `count`: those that are trained, beside `frozen_bytes` of others. `hidden`: the width of the matrices, for an
    optimizer that keeps rows and columns.
    """
    if settings.precision not in PRECISIONS:
        raise UsageError(
            _("no precision that is known here: {precision}; one of {precisions}").format(
                precision=repr(settings.precision), precisions=", ".join(PRECISIONS)
            )
        )
    if settings.optimizer == "adafactor" and hidden is None:
        raise InputRefused(_("the states of adafactor depend on the widths of the matrices, which are not known"))
    ranks, zero, kept = settings.ranks, settings.zero, _kept_bytes(settings)
    master = 4 * count if kept == 2 and settings.precision == "bf16-mixed" else 0
    states = state_bytes(settings.optimizer, count, hidden or 1, kept if not master else 4) + master

    def shared(size: int, stage: int) -> int:
        return -(-size // ranks) if zero >= stage else size

    def divided(formula: str, stage: int) -> str:
        return _("{formula} / ranks").format(formula=formula) if zero >= stage and ranks > 1 else formula

    each = _("parameters x {kept} bytes").format(kept=kept) + (_(" + frozen ones") if frozen_bytes else "")
    moments = _("states of {optimizer}").format(optimizer=settings.optimizer) + (
        _(" + float32 parameters") if master else ""
    )
    away, gradients = settings.offload_states, shared(kept * count, 2)
    copies = _COPIES.get(settings.optimizer, 0) if settings.foreach else 0
    parameters = shared(kept * count + frozen_bytes, 3)
    buckets = kept * count if ranks > 1 and not zero and settings.replicates else 0
    viewed = bool(buckets) and settings.bucket_view
    on_host = _("in host memory")
    inputs: tuple[tuple[str, int | str], ...] = (("parameters", count), ("ranks", ranks), (N_("ZeRO stage"), zero))
    frozen: tuple[tuple[str, int | str], ...] = ((N_("frozen bytes"), frozen_bytes),) if frozen_bytes else ()
    return (
        Part(PARAMETERS, 0 if settings.offload_parameters else parameters,
             on_host if settings.offload_parameters else divided(each, 3), (*inputs, *frozen), COMPUTED, source),
        Part(GRADIENTS, 0 if viewed or (away and zero >= 2) else gradients,
             _("views of the buckets") if viewed else on_host if away and zero >= 2
             else divided(_("parameters x {kept} bytes").format(kept=kept), 2), inputs, COMPUTED),
        Part(BUCKETS, buckets, _("as large as all gradients (DistributedDataParallel)"), inputs, COMPUTED),
        Part(STATES, 0 if away else shared(states, 1), on_host if away else divided(f"({moments})", 1),
             (*inputs, ("optimizer", settings.optimizer)), COMPUTED),
        Part(TEMPORARY, 0 if away else shared(kept * count * copies, 1),
             _("parameters x {kept} bytes x tensors that a foreach step makes").format(kept=kept),
             (*inputs, (N_("tensors of a step"), copies)), COMPUTED),
    )  # fmt: skip


def _kept_bytes(settings: Training) -> int:
    """Of a trained parameter as it is kept: PEFT makes adapters in float32."""
    if settings.lora is not None:
        return 4
    sharded = settings.precision == "bf16-mixed" and settings.zero > 0
    return 2 if settings.precision == "bf16-pure" or sharded else 4


def _parts(model: Model, settings: Training) -> tuple[Part, ...]:
    architecture = model.architecture
    count = model.parameters
    if count is None:
        raise InputRefused(
            _("{path}: how many parameters it has is not known; give the directory with the weights").format(
                path=model.path
            )
        )
    if model.gguf:
        raise InputRefused(_("{path}: a GGUF file is not trained; give the model's directory").format(path=model.path))
    vocabulary = architecture.vocabulary
    if vocabulary is None:
        raise InputRefused(_("{path}: the field vocab_size is missing; it is not guessed").format(path=model.path))
    zero, lora, where = settings.zero, settings.lora, model.path
    if lora is None and model.quantization not in (None, *_FLOATS_IN_ALL):
        raise InputRefused(
            _("{path}: weights that are stored as {stored} are not trained themselves, only adapters (--lora)").format(
                path=model.path, stored=model.quantization
            )
        )
    four_bit = lora is not None and is_four_bit(model, lora.base)
    frozen = 0 if lora is None else frozen_bytes(model, lora, settings.precision)
    trained = count if lora is None else trained_parameters(architecture, lora, where)
    states = state_parts(trained, architecture.hidden, settings, model.weights_source, frozen)
    kept = _kept_bytes(settings) if lora is None else model.dtype.bytes_of(1)
    if four_bit:
        kept = 2 if settings.precision == "bf16-pure" else 4
    tokens, layers = settings.tokens, architecture.layers
    if lora is None:
        # Parameters in bfloat16 compute in it: only autocast has a float32 residual stream.
        layer = layer_activations(architecture, tokens, "bf16-pure" if kept == 2 else settings.precision)
    else:
        layer = frozen_layer_activations(architecture, lora, tokens, settings.precision, where, four_bit)
    residual, one_layer = kept * tokens * architecture.hidden, layer
    activations = layers * residual if settings.checkpointing else layers * layer
    copies = 0
    if settings.precision == "bf16-mixed" and not zero and kept == 4:
        # Autocast keeps the bfloat16 copy that it made of each weight until the forward pass ends. Of frozen ones it
        # is autograd that does: of those outside the layers, and of a layer that is computed again its own.
        output = embedding_elements(vocabulary, architecture.hidden)
        inside = 0 if four_bit else count - output * (1 if architecture.tied else 2)
        if lora is not None and settings.checkpointing:
            copies, layer = 2 * output, layer + 2 * inside // max(1, layers)
        else:
            copies = 2 * (output if four_bit else count)
    element = 4 if settings.precision == "fp32" else 2
    logits = logits_bytes(tokens, vocabulary, element + 12)
    layer_count = max(1, layers)
    each_logit = _("tokens x vocabulary x {element} bytes")
    parts = (
        *states,
        Part(ACTIVATIONS, activations + copies,
             (_("layers x tokens x hidden: checkpointing keeps a layer's input") if settings.checkpointing else
              _("layers x what each keeps")) + (_(" + autocast's bfloat16 copies of weights") if copies else ""),
             (("layers", layers), ("tokens", tokens),
              (N_("bytes of one layer"), residual if settings.checkpointing else one_layer),
              *(((N_("bytes of copies"), copies),) if copies else ())), COMPUTED),
        Part(LOGITS, logits, each_logit.format(element=element + 12),
             (("tokens", tokens), ("vocabulary", vocabulary)), COMPUTED),
        Part(OUTPUT, logits_bytes(tokens, vocabulary, element), each_logit.format(element=element),
             (("tokens", tokens), ("vocabulary", vocabulary)), COMPUTED),
        Part(LAYER, layer, _("what one layer keeps"), (("tokens", tokens), (N_("bytes a token"), layer // tokens)),
             COMPUTED),
        *_of_adapters(model, settings, four_bit),
        _gathered(count, layer_count, settings, frozen if four_bit else None),
        Part(BUFFERS, settings.buffer_bytes, _("buckets of DeepSpeed's configuration"),
             ((N_("bytes of buckets"), settings.buffer_bytes),), ASSUMED),
        _overhead(settings),
        Part(WORKSPACE, WORKSPACE_BYTES, _("one workspace of cuBLAS"), ((N_("bytes of a workspace"), WORKSPACE_BYTES),),
             ASSUMED),
    )  # fmt: skip
    return tuple(_as_known(model, part) for part in parts)


def _as_known(model: Model, part: Part) -> Part:
    """A part known no better than the parameters, or the dimensions, that it is worked out from."""
    architecture = model.architecture
    told = architecture.intermediate is not None or architecture.experts is not None
    rests = {
        **dict.fromkeys((PARAMETERS, GRADIENTS, BUCKETS, STATES, TEMPORARY, GATHERED), model.weights_known == ASSUMED),
        # The formula is that of ordinary attention and one dense MLP a layer.
        **dict.fromkeys(
            (ACTIVATIONS, LAYER),
            architecture.assumed
            or not told
            or architecture.stateful
            or architecture.latent
            or architecture.experts is not None
            or architecture.encoder_layers > 0,
        ),
    }
    return replace(part, known=ASSUMED) if rests.get(part.name) and part.known == COMPUTED else part


def frozen_bytes(model: Model, lora: Lora, precision: str) -> int:
    """Of the parameters beside adapters, which are not trained. Raises InputRefused for a base that is not known."""
    return base_bytes(model, lora.base, precision) if is_four_bit(model, lora.base) else model.weights_bytes


def weights_bytes(model: Model, settings: Training) -> int:
    """All parameters as they are kept, on all cards together. Raises InputRefused as `training_budget` does."""
    whole = {part.name: part.bytes for part in _parts(model, replace(settings, zero=0, offload_parameters=False))}
    sharded = settings.precision == "bf16-mixed" and settings.zero > 0 and settings.lora is None
    return whole[PARAMETERS] // 2 if sharded else whole[PARAMETERS]


def _of_adapters(model: Model, settings: Training, four_bit: bool) -> Iterator[Part]:
    """What a base of four bits and DoRA take for a moment."""
    lora, architecture = settings.lora, model.architecture
    if lora is None:
        return
    if four_bit:
        element, largest = 4 if settings.precision == "fp32" else 2, largest_matrix(architecture, model.path)
        yield Part(UNPACKED, element * largest, _("elements x {element} bytes").format(element=element),
                   ((N_("elements of the largest matrix"), largest),), COMPUTED)  # fmt: skip
    if lora.dora:
        yield Part(NORM, dora_bytes(architecture, lora, settings.precision, model.path),
                   _("identity, adapter multiplied out, matrix, scaled adapter, sum"), (("rank", lora.rank),),
                   COMPUTED)  # fmt: skip


def _gathered(count: int, layers: int, settings: Training, packed_bytes: int | None) -> Part:
    """What ZeRO 3 has whole for a moment; `packed_bytes`: of a base of four bits, which is gathered as it is kept."""
    if settings.zero < 3:
        return Part(
            GATHERED, 0, _("parameters are whole on every rank"), ((N_("ZeRO stage"), settings.zero),), COMPUTED
        )
    if packed_bytes is not None:
        return Part(GATHERED, 2 * packed_bytes // layers, _("2 layers x frozen bytes"),
                    ((N_("frozen bytes"), packed_bytes), ("layers", layers)), COMPUTED)  # fmt: skip
    if settings.live_parameters is None:
        return Part(GATHERED, 2 * 2 * count // layers, _("2 layers x parameters x 2 bytes"),
                    (("parameters", count), ("layers", layers)), COMPUTED)  # fmt: skip
    live = min(count, settings.live_parameters)
    return Part(GATHERED, 2 * live, _("live parameters x 2 bytes"), ((N_("live parameters"), live),), ASSUMED)


def _overhead(settings: Training) -> Part:
    if settings.overhead_bytes is not None:
        return measured_part(OVERHEAD, settings.overhead_bytes, settings.overhead_source)
    more = _RANK_BYTES if settings.ranks > 1 else 0
    return Part(
        OVERHEAD,
        _OVERHEAD_BYTES + more,
        _("a process of torch") + (_(" + communication of ranks") if more else ""),
        ((N_("bytes of a process"), _OVERHEAD_BYTES), (N_("bytes of communication"), more)),
        ASSUMED,
    )


def _moments(parts: tuple[Part, ...], checkpointing: bool) -> tuple[Moment, ...]:
    sizes = {part.name: part.bytes for part in parts}
    always = (PARAMETERS, STATES, OVERHEAD, WORKSPACE, GATHERED, BUCKETS, BUFFERS)
    # A layer that is computed again has its forward pass, and with it DoRA's norms, within the backward pass.
    norms = (NORM,) if NORM in sizes else ()
    layer = (LAYER, *((UNPACKED,) if UNPACKED in sizes else ()), *(norms if checkpointing else ()))
    named = (
        *(((N_("the forward pass of the last layer"), (*always, ACTIVATIONS, NORM)),) if norms else ()),
        (N_("the start of the backward pass"), (*always, ACTIVATIONS, LOGITS)),
        (N_("the backward pass of a late layer"), (*always, ACTIVATIONS, *layer)),
        (N_("the end of the backward pass"), (*always, GRADIENTS, *layer, OUTPUT)),
        (
            N_("the optimizer's step"),
            (PARAMETERS, STATES, OVERHEAD, WORKSPACE, BUCKETS, BUFFERS, GRADIENTS, TEMPORARY, OUTPUT),
        ),
    )
    return tuple(Moment(name, live, sum(sizes[part] for part in live)) for name, live in named)


def training_limits(model: Model, settings: Training) -> tuple[TrainingLimits, ...]:
    """What fits at most, for each of the headrooms asked for."""
    return tuple(
        TrainingLimits(
            headroom,
            _largest_batch(model, settings, int(settings.capacity_bytes * (1 - headroom))),
            _largest_sequence(model, settings, int(settings.capacity_bytes * (1 - headroom))),
        )
        for headroom in settings.headrooms
    )


def _largest_batch(model: Model, settings: Training, safe: int) -> int:
    return _largest(lambda batch: _total(model, replace(settings, batch=batch)) <= safe)


def _largest_sequence(model: Model, settings: Training, safe: int) -> int:
    return _largest(lambda length: _total(model, replace(settings, sequence=length)) <= safe)


def _largest(fits: Callable[[int], bool]) -> int:
    """The largest number that fits, up to a million; sizes grow with it."""
    low, high = 0, 1
    while fits(high) and high < 1 << 20:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _total(model: Model, settings: Training) -> int:
    return max(each.bytes for each in _moments(_parts(model, settings), settings.checkpointing))
