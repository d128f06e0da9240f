"""What a launch line says of a training: batch, length, precision, optimizer, sharding, adapters, the launcher's file.

Names are those of transformers' TrainingArguments, TRL, Lightning, accelerate, DeepSpeed and torchrun. A script's own
option may mean something else by such a name: what is no number or no word that is known here tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import InputRefused
from ..estimate.adapters import ALL_LINEAR, Lora
from ..estimate.four_bit import DOUBLE, SINGLE
from ..estimate.launch_config import STRATEGIES, LaunchConfig, with_default_buffers
from ..language import _
from ..readers.log.launch import launch_options, launch_program
from .asked_settings import is_on
from .asked_settings import number as _strict_number

MIXED, WIDE, NARROW = "bf16-mixed", "fp32", "bf16-pure"
_PRECISIONS = {"bf16-mixed": MIXED, "16-mixed": MIXED, "bf16": MIXED, "fp16": MIXED, "bf16-true": NARROW,
               "16-true": NARROW, "32": WIDE, "32-true": WIDE, "fp32": WIDE, "no": WIDE}  # fmt: skip
"""Words for a precision, of Lightning and accelerate."""
_TRAINERS_BATCH = "per-device-train-batch-size"
_OF_ONE_CARD = (_TRAINERS_BATCH, "train-micro-batch-size-per-gpu", "micro-batch-size")
_BATCH = (*_OF_ONE_CARD, "train-batch-size", "batch-size", "batch")
_SEQUENCE = ("max-seq-length", "max-seq-len", "seq-length", "seq-len", "sequence-length", "max-length", "cutoff-len",
             "block-size", "sequence-len", "seq")  # fmt: skip
_STAGE = ("zero-stage", "zero")
_CHECKPOINTING = ("gradient-checkpointing", "checkpointing", "activation-checkpointing", "recompute-activations")
_OPTIMIZER = ("optim", "optimizer", "opt")
_TYPE = ("torch-dtype", "model-dtype", "dtype")
_ADAPTERS = ("lora", "peft", "adapter")
_RANK = ("lora-r", "lora-rank")
_TARGETS = ("lora-target-modules", "lora-target", "lora-targets", "lora-modules")
_WHOLE = ("lora-modules-to-save", "modules-to-save")
_FOUR_BIT = ("load-in-4bit", "use-4bit", "qlora", "use-qlora")
_BITS = "quantization-bit"
_DOUBLE = ("bnb-4bit-use-double-quant", "use-bnb-nested-quant", "use-nested-quant", "use-double-quant",
           "double-quantization", "double-quant")  # fmt: skip
_DORA = ("use-dora", "dora", "peft-use-dora")
_ALL_LINEAR = "lora-target-linear"
"""axolotl's switch for all matrices."""
_NOT_ESTIMATED = ("load-in-8bit",)
_DEEPSPEED_FILES = ("deepspeed", "deepspeed-config", "deepspeed-config-file")
_ACCELERATES_FILE = "config-file"
_SHARDED_BY_FILE = ("deepspeed", "accelerate")
"""Launchers whose sharding stands in a file of their own."""
_ON_HOST = ("cpu", "nvme")
_MODES = ("bf16", "fp16", "mixed-precision", "precision", "momentum", "use-peft", "finetuning-type", "adapter", "lora")
_TRAINS = (*_OF_ONE_CARD, *_CHECKPOINTING, "optim", "optimizer", "gradient-accumulation-steps",
           "learning-rate", "lr", "num-train-epochs", "zero-stage", "train-batch-size")  # fmt: skip


NAMES = frozenset((
    *_BATCH, *_SEQUENCE, *_STAGE, *_CHECKPOINTING, *_OPTIMIZER, *_TYPE, *_RANK, *_TARGETS, *_WHOLE, *_FOUR_BIT, _BITS,
    *_DOUBLE, *_DORA, _ALL_LINEAR, *_NOT_ESTIMATED, *_DEEPSPEED_FILES, *_MODES, *_TRAINS,
))  # fmt: skip
"""Those that are understood in a trainer's file of settings."""


@dataclass(frozen=True)
class TrainerOptions:
    """The options of one launch line, by their long names with dashes, and the program that it starts."""

    options: Mapping[str, str | None]
    program: str | None = None

    @property
    def trains(self) -> bool:
        """Whether an option is one that only a training has."""
        return any(name in self.options for name in _TRAINS)

    @property
    def of_transformers(self) -> bool:
        """Whether transformers' Trainer reads them, whose optimizer is AdamW where none is named."""
        return _TRAINERS_BATCH in self.options

    @property
    def batch(self) -> int | None:
        """Sequences of a step on one device."""
        return number(self.options, *_BATCH)

    @property
    def batch_is_of_one_card(self) -> bool:
        """False where the name of the option does not say whether all cards share it."""
        return number(self.options, *_OF_ONE_CARD) is not None

    @property
    def sequence(self) -> int | None:
        """Tokens of a sequence."""
        return number(self.options, *_SEQUENCE)

    @property
    def precision(self) -> str | None:
        """Of what computes; parameters may be kept in another (`parameters_type`)."""
        if is_on(self.options, "bf16") or is_on(self.options, "fp16"):
            return MIXED
        named = next((self.options[name] for name in ("mixed-precision", "precision") if self.options.get(name)), None)
        return _PRECISIONS.get(str(named))

    @property
    def parameters_type(self) -> str | None:
        """The type that the model is loaded in."""
        named = next((str(self.options[name]) for name in _TYPE if self.options.get(name)), "")
        named = named.removeprefix("torch.")
        return named if named in ("bfloat16", "float16", "float32", "bf16", "fp16", "fp32") else None

    @property
    def checkpointing(self) -> bool:
        """Whether activations are computed again."""
        return any(is_on(self.options, name) for name in _CHECKPOINTING)

    @property
    def checkpointing_is_told(self) -> bool:
        """Whether the line says so, or the contrary."""
        return any(name in self.options for name in _CHECKPOINTING)

    @property
    def optimizer(self) -> str:
        """Its name as given, in small letters; empty where none is."""
        return next((str(self.options[name]) for name in _OPTIMIZER if self.options.get(name)), "").lower()

    @property
    def momentum(self) -> bool:
        """Whether a momentum is asked for."""
        try:
            return float(self.options.get("momentum") or "") > 0
        except ValueError:
            return False

    @property
    def sharding(self) -> LaunchConfig | None:
        """What the line itself says of it, FSDP as ZeRO 3; None where it says nothing."""
        host = [str(self.options.get(f"offload-{what}-device")).lower() in _ON_HOST for what in ("optimizer", "param")]
        stage = number(self.options, *_STAGE, least=0)
        if stage is not None and stage <= 3:
            return with_default_buffers(
                LaunchConfig(zero=stage, offload_states=host[0], offload_parameters=host[1]), self.program or ""
            )
        if is_on(self.options, "fsdp") or is_on(self.options, "use-fsdp"):
            words = [word.lower() for word in self.names("fsdp")]
            strategy = (self.options.get("fsdp-sharding-strategy") or "").lower()
            named = next(
                (STRATEGIES[word] for word in (*words, strategy) if "shard" in word and word in STRATEGIES), None
            )
            named = STRATEGIES.get(strategy, 3) if named is None else named
            away = is_on(self.options, "fsdp-offload-params") or "offload" in words
            return LaunchConfig(zero=named, offload_states=away, offload_parameters=away, replicates=named == 0)
        return None

    def sharding_with(self, file: LaunchConfig) -> LaunchConfig | None:
        """The same where a launcher's file may say it: a file that only starts ranks leaves it to the line."""
        own = self.sharding
        return file if file.zero or (file.zero is not None and own is None) else own

    def precision_with(self, file: LaunchConfig) -> str | None:
        """The same of the precision: a file's `no` leaves it to the program."""
        return file.precision if file.precision not in (None, WIDE) else self.precision or file.precision

    @property
    def shards_by_file(self) -> bool:
        """Whether it starts by a launcher, or names a library, whose sharding stands in a file."""
        return self.program in _SHARDED_BY_FILE or any(name in self.options for name in _DEEPSPEED_FILES)

    @property
    def files(self) -> tuple[str, ...]:
        """The launcher's files that it names: of sharding before those of processes."""
        names = (*_DEEPSPEED_FILES, *((_ACCELERATES_FILE,) if self.program == "accelerate" else ()))
        return tuple(str(self.options[name]) for name in names if self.options.get(name))

    @property
    def takes_accelerates_default(self) -> bool:
        """Whether accelerate looks for the file of its own folder, as none is named."""
        return self.program == "accelerate" and not self.options.get(_ACCELERATES_FILE)

    @property
    def replicates(self) -> bool:
        """Whether an option is about DistributedDataParallel."""
        return any("ddp" in name for name in self.options)

    @property
    def adapters(self) -> bool:
        """Whether an option is about adapters."""
        if "use-peft" in self.options and not is_on(self.options, "use-peft"):
            return False
        asked = (name for name in self.options if any(word in name for word in _ADAPTERS))
        return str(self.options.get("finetuning-type")) == "lora" or any(is_on(self.options, name) for name in asked)

    def lora(self, targets: tuple[str, ...]) -> Lora | None:
        """Adapters, of these matrices where it names none; None where it has none.

        Raises InputRefused where it has some whose rank is not told, or weights that are not as they are stored.
        """
        for name in _NOT_ESTIMATED:
            if self._is_told(name):
                raise InputRefused(_("what --{name} does to the weights is not in the estimate").format(name=name))
        bits = self.options.get(_BITS) if self._is_told(_BITS) else None
        if bits not in (None, "4"):
            raise InputRefused(_("what --{name} does to the weights is not in the estimate").format(name=_BITS))
        packed = bits is not None or self.options.get("adapter") == "qlora" or any(map(self._is_told, _FOUR_BIT))
        if not self.adapters and not packed:
            return None
        rank = number(self.options, *_RANK)
        if rank is None:
            raise InputRefused(
                _(
                    "the rank of its adapters (LoRA) is not told; name it with --lora-r at its launch line or in the"
                    " file of settings that it names, or ask `oomdoctor estimate --train` with --lora"
                )
            )
        named = self.names(*_TARGETS)
        if named in (("all",), (ALL_LINEAR,)) or self._is_told(_ALL_LINEAR):
            named = (ALL_LINEAR,)
        double = any(map(self._is_told, _DOUBLE))
        base = (DOUBLE if double else SINGLE) if packed else ""
        return Lora(rank, named or targets, self.names(*_WHOLE), any(map(self._is_told, _DORA)), base)

    def _is_told(self, name: str) -> bool:
        return is_on(self.options, name) and (self.options[name] or "true").lower() not in ("none", "null")

    @property
    def targets_are_told(self) -> bool:
        """Whether the matrices that have adapters are named."""
        return bool(self.names(*_TARGETS)) or self._is_told(_ALL_LINEAR)

    def names(self, *options: str) -> tuple[str, ...]:
        """The words of the first of these options that has any, divided by blanks or commas."""
        found = next((str(self.options[name]) for name in options if self.options.get(name)), "")
        return tuple(found.replace(",", " ").split())


def trainer_options(command: str, by_file: Mapping[str, str | None] | None = None) -> TrainerOptions:
    """Of a launch line; of an option given twice the last. What a file of settings says, the line overrules."""
    options = {name.replace("_", "-"): value for name, value in launch_options(command)}
    return TrainerOptions({**(by_file or {}), **options}, launch_program(command))


def number(options: Mapping[str, str | None], *names: str, least: int = 1) -> int | None:
    """The first of these options that is a number: a script's own options may mean something else by such a name."""
    for name in names:
        try:
            found = _strict_number(options, name, least=least)
        except InputRefused:
            continue
        if found is not None:
            return found
    return None


def optimizer_of(name: str, momentum: bool = False) -> tuple[str, bool]:
    """The kind of the optimizer that is named so, and whether it works on one parameter at a time.

    Raises InputRefused for one whose states are not known here.
    """
    words = name.lower()
    if "paged" in words:
        raise InputRefused(_("the states of a paged optimizer may lie in host memory"))
    small = "8bit" if "8bit" in words.replace("_", "") and ("adam" in words or "lion" in words) else ""
    fused = "fused" in words
    if "sgd" in words:
        return ("sgd-momentum" if momentum else "sgd"), fused
    for kind, optimizer in (("adafactor", "adafactor"), ("lion", f"lion{small}"), ("rmsprop", "rmsprop"),
                            ("adagrad", "adagrad"), ("adam", f"adamw{small}")):  # fmt: skip
        if kind in words:
            return optimizer, fused
    raise InputRefused(_("the states of the optimizer {name} are not known here").format(name=words))
