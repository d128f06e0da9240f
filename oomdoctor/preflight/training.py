"""Whether the training that a command starts fits, by the formulas of `oomdoctor estimate --train`.

What the command does not tell is not guessed: the step is computed with the least and with the most that it may be. It
does not fit for sure where the least is too much, and fits where the most is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from ..errors import InputRefused
from ..estimate.adapters import ALL_LINEAR, USUAL_TARGETS, Lora
from ..estimate.budget import FITS, NO
from ..estimate.dtypes import element_type
from ..estimate.four_bit import is_four_bit
from ..estimate.launch_config import LaunchConfig, default_accelerate_file, read_launch_config
from ..estimate.model_input import Model, loaded_as
from ..estimate.parts import ASSUMED
from ..estimate.training import GRADIENTS, PARAMETERS, STATES, Training, TrainingBudget, training_budget
from ..facts.trainer_file import trainer_file_options, trainer_files
from ..facts.trainer_options import MIXED, NARROW, WIDE, TrainerOptions, optimizer_of, trainer_options
from ..language import _, begun
from ..model.units import exact_size, format_bytes
from .finding import Finding, Level
from .measured import measured_overhead
from .script_names import script_names
from .setup import Setup
from .visible import visible_cards

LAUNCHERS = ("torchrun", "deepspeed", "accelerate")
_ALL_CARDS = ("auto", "gpu")
_FREEZES = ("peft", "lora", "requires_grad", "freeze", "load_in_", "bitsandbytes")
_SHARDS = ("fsdp", "fully", "deepspeed", "zeroredundancy")
_CHECKPOINTS = ("checkpoint", "recompute", "trl", "sfttrainer")
_OPTIMIZERS = ("adam", "sgd", "adafactor", "lion", "rmsprop", "adagrad", "8bit", "muon")
_NARROWS = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


@dataclass(frozen=True)
class Card:
    """What a step has to fit in."""

    name: str
    bytes: int
    free_bytes: int | None
    """None: not seen."""


@dataclass(frozen=True)
class _Step:
    """One way to run the training that the command allows."""

    model: Model
    settings: Training
    budget: TrainingBudget

    @property
    def sure_bytes(self) -> int:
        """Of the same moments without what is assumed only, as a process's overhead is where nobody measured it."""
        sure = {part.name: part.bytes for part in self.budget.parts if part.known != ASSUMED}
        return max(sum(sure.get(name, 0) for name in moment.parts) for moment in self.budget.moments)


@dataclass(frozen=True)
class _Range:
    """The step with the least and with the most that the command may mean."""

    least: _Step
    most: _Step
    assumed: tuple[str, ...]
    """What is not told, and how it is counted in `most`."""


def is_training(setup: Setup) -> bool:
    """Whether the command's options or its script say that it trains."""
    names = script_names(setup).names
    written = "backward" in names or any(name.endswith("trainer") for name in names)
    return setup.command.engine is None and (_line(setup).trains or written)


def _line(setup: Setup) -> TrainerOptions:
    """What the command says, and the trainer's files of settings that it names."""
    return trainer_options(setup.command.text, trainer_file_options(_settings_files(setup)))


def _settings_files(setup: Setup) -> tuple[Path, ...]:
    return trainer_files(setup.command.words, trainer_options(setup.command.text).files)


def _launcher_files(setup: Setup, line: TrainerOptions) -> tuple[Path, ...]:
    """Those that the command names; else accelerate's own, where it would take that."""
    default = default_accelerate_file({**setup.variables, **setup.command.assigned})
    own = (default,) if line.takes_accelerates_default and default.is_file() else ()
    return (*(Path(each) for each in line.files), *own)


def training_finding(setup: Setup, model: Model, card: Card, *, trains: bool) -> Finding:
    """The judgement. Where it is not sure that the command `trains`, what a training needs is told, and no more."""
    asker = _Asker(setup, _line(setup), card)
    try:
        found, missing = asker.range_of(model), asker.missing()
    except InputRefused as error:
        return Finding("fit.training", Level.UNSEEN, _("Whether training fits"), begun(str(error)),
                       _("Ask for training"), (asker.command(),))  # fmt: skip
    unsure = () if asker.trains_all else (_("that all parameters are trained"),)
    level = _level(found, card, bool(missing), not unsure) if trains else Level.UNSEEN
    budget = found.most.budget
    figures: dict[str, int | float | str | None] = {
        "least_bytes": found.least.sure_bytes, "total_bytes": None if missing else budget.total_bytes,
        "capacity_bytes": card.bytes, "free_bytes": card.free_bytes, "fits": None if missing else budget.verdict,
        "max_batch": budget.max_batch if asker.line.sequence is not None else None,
        "ranks": found.most.settings.ranks, "zero": found.most.settings.zero,
    }  # fmt: skip
    why = [
        "" if trains else _("Neither the command nor its script says that it trains"),
        "" if level in (Level.FINE, Level.UNSEEN) else _meaning(found, card),
        _("Not told by the command: {missing}").format(missing=_(", ").join(missing)) if missing else "",
        _("Assumed, as it is not told: {assumed}").format(assumed=_("; ").join((*unsure, *found.assumed)))
        if unsure or found.assumed
        else "",
    ]
    fitting = budget.max_batch if not missing and level is not Level.FINE else 0
    do = _("Ask for training with the rest") if missing else _("See the parts")
    if fitting:
        do = _("A batch of {count} fits with this length").format(count=fitting)
    words = _without_a_batch(found.most, card) if missing else _whole_step(found.most, card)
    done = level is Level.FINE
    return Finding("fit.training", level, words, _(". ").join(each for each in why if each), "" if done else do,
                   () if done else (asker.command(),), figures)  # fmt: skip


class _Asker:
    """Reads the settings from the command, its launcher's files and its script."""

    def __init__(self, setup: Setup, line: TrainerOptions, card: Card) -> None:
        self.line, self._setup, self._card = line, setup, card
        self._files = _launcher_files(setup, line)
        self._names = script_names(setup, (*line.files, *(str(each) for each in _settings_files(setup))))

    @property
    def trains_all(self) -> bool:
        """Whether nothing speaks of parameters that are frozen or quantised, or adapters are told."""
        return self.line.adapters or not self._names.may_speak_of(*_FREEZES)

    def range_of(self, model: Model) -> _Range:
        """Raises InputRefused for what is not known here."""
        file, assumed = self._file(), list[str]()
        ranks = self._ranks(file)
        sharding, other = self._sharding(file, ranks, assumed)
        heavy = replace(
            self._base(file, ranks, assumed),
            zero=sharding.zero or 0,
            ranks=ranks,
            replicates=sharding.replicates,
            offload_states=sharding.offload_states,
            offload_parameters=sharding.offload_parameters,
            buffer_bytes=sharding.buffer_bytes,
            live_parameters=sharding.live_parameters,
            lora=self.line.lora((ALL_LINEAR,)),
        )
        light = heavy if other is None else replace(heavy, zero=other, offload_states=True, offload_parameters=True)
        light = self._lighter(light, file, assumed)
        models = self._models(model, heavy.lora, assumed)
        four_bit = heavy.lora is not None and is_four_bit(model, heavy.lora.base)
        precisions = self._precisions(file, bool(heavy.zero), assumed, four_bit)
        most = [_step(each, replace(heavy, precision=name)) for each in models for name in precisions]
        least = [_step(each, replace(light, precision=name)) for each in models for name in precisions]
        return _Range(
            min(least, key=lambda step: step.sure_bytes),
            max(most, key=lambda step: step.budget.total_bytes),
            tuple(assumed),
        )

    def missing(self) -> list[str]:
        """What a step cannot be told without."""
        batch, length = self._batch(self._file()), self.line.sequence
        told = ((batch, _("the batch of a card")), (length, _("the length of a sequence")))
        return [name for value, name in told if value is None]

    def command(self) -> str:
        """How to ask for the training that the command tells, as far as it does."""
        line, setup = self.line, self._setup
        words = [f"oomdoctor estimate {quote(str(setup.asked.model))} --train --gpu {exact_size(self._card.bytes)}"]
        file = next((each for each in self._files if each.is_file()), None)
        try:
            told = LaunchConfig() if file is None else read_launch_config(file)
        except InputRefused:
            told = LaunchConfig()
        sharding = line.sharding_with(told) or LaunchConfig()
        kept = self._precisions(told, bool(sharding.zero), [])
        precision = kept[0] if len(kept) == 1 or line.precision is not None else None
        launched = self._launched()
        if file is not None and told.ranks in (None, launched or told.ranks) and sharding.zero == told.zero:
            words.append(f"--launch-config {quote(str(file))}")
        else:  # `estimate` takes either the file or the options that say other than it
            told = LaunchConfig()
        options = {
            "ranks": launched if told.ranks is None else None,
            "zero": sharding.zero if sharding.zero and told.zero is None else None,
            "batch": line.batch if told.batch is None else None,
            "seq": line.sequence,
            "precision": precision if told.precision is None and precision != MIXED else None,
        }
        try:
            options["optimizer"] = optimizer_of(line.optimizer, line.momentum)[0] if line.optimizer else None
            lora = line.lora(USUAL_TARGETS)
        except InputRefused:
            lora = None
        if told.optimizer is not None or options.get("optimizer") == "adamw":
            options["optimizer"] = None
        words.extend(f"--{name} {value}" for name, value in options.items() if value is not None)
        if line.checkpointing and told.checkpointing is None:
            words.append("--checkpointing")
        if lora is not None:
            words.append(f"--lora {lora.rank} --lora-targets {','.join(lora.targets)}")
            words.extend(["--dora"] * lora.dora + [f"--base {lora.base}"] * bool(lora.base))
        return " ".join(words)

    def _file(self) -> LaunchConfig:
        found: LaunchConfig | None = None
        for path in self._files:
            if not path.is_file():
                if path.suffix in (".json", ".yaml", ".yml"):
                    raise InputRefused(_("the file {path}, which the command names, is not there").format(path=path))
                continue
            read = read_launch_config(path)
            found = read if found is None else replace(found, ranks=found.ranks or read.ranks)
        return found or LaunchConfig()

    def _launched(self) -> int | None:
        """Ranks of all machines, as the line tells them."""
        ranks = self._setup.command.ranks
        nodes = self.line.options.get("nnodes") or "1"
        return ranks * int(nodes) if ranks is not None and nodes.isdecimal() and 0 < len(nodes) < 6 else ranks

    def _ranks(self, file: LaunchConfig) -> int:
        told = self._launched() or file.ranks
        if told is not None:
            return told
        by_cards = self.line.options.get("nproc-per-node") in _ALL_CARDS
        cards = len(visible_cards(self._setup).cards)
        return max(1, cards) if by_cards or self.line.program in ("deepspeed", "accelerate") else 1

    def _batch(self, file: LaunchConfig) -> int | None:
        return file.batch or self.line.batch

    def _base(self, file: LaunchConfig, ranks: int, assumed: list[str]) -> Training:
        measured = measured_overhead(self._card.bytes, None)
        optimizer, fused = ("adamw", False)
        named = self.line.optimizer or file.optimizer
        if named:
            optimizer, fused = optimizer_of(named, self.line.momentum)
        elif not self._is_adamw():
            assumed.append(_("AdamW as the optimizer"))
        return Training(
            capacity_bytes=self._card.bytes,
            optimizer=optimizer,
            batch=self._batch(file) or 1,
            sequence=self.line.sequence or 1,
            checkpointing=self.line.checkpointing or bool(file.checkpointing),
            ranks=ranks,
            headroom=self._setup.asked.headroom,
            overhead_bytes=measured.bytes if measured is not None else None,
            overhead_source=measured.words if measured is not None else "",
            foreach=not fused,
        )

    def _is_adamw(self) -> bool:
        """Whether the program, or the script, says so without an option."""
        if self.line.of_transformers:
            return True
        return self._names.all_of_it and [each for each in _OPTIMIZERS if self._names.speak_of(each)] == ["adam"]

    def _sharding(self, file: LaunchConfig, ranks: int, assumed: list[str]) -> tuple[LaunchConfig, int | None]:
        """What is told of it, and the most that it may be where nothing is."""
        told = self.line.sharding_with(file)
        if told is not None:
            return told, None
        launched = self.line.program in ("deepspeed", "accelerate") or self.line.shards_by_file
        if launched or (ranks > 1 and self._names.may_speak_of(*_SHARDS)):
            assumed.append(_("that nothing is sharded or kept in host memory"))
            return LaunchConfig(replicates=True), 3
        return LaunchConfig(replicates=True), None

    def _lighter(self, heavy: Training, file: LaunchConfig, assumed: list[str]) -> Training:
        """The same with the least that what is not told may be."""
        light = heavy
        if not (self.line.optimizer or file.optimizer):
            light = replace(light, foreach=False, optimizer=light.optimizer if self._is_adamw() else "sgd")
        told = self.line.checkpointing_is_told or file.checkpointing is not None
        if not told and self._names.may_speak_of(*_CHECKPOINTS):
            light = replace(light, checkpointing=True)
            assumed.append(_("no gradient checkpointing"))
        if heavy.ranks > 1 and file.batch is None and self.line.batch and not self.line.batch_is_of_one_card:
            light = replace(light, batch=-(-light.batch // heavy.ranks))
            assumed.append(_("that the batch is that of one card"))
        if light.lora is not None and not self.line.targets_are_told:
            light = replace(light, lora=replace(light.lora, targets=USUAL_TARGETS))
            assumed.append(_("adapters of all matrices"))
        return light

    def _models(self, model: Model, lora: Lora | None, assumed: list[str]) -> list[Model]:
        """As it may be loaded: the type counts where parameters are frozen."""
        if lora is None or is_four_bit(model, lora.base) or self._setup.asked.dtype is not None:
            return [model]
        told = self.line.parameters_type
        if told is not None:
            return [loaded_as(model, element_type(_NARROWS.get(told, told)))]
        if model.dtype.bytes_of(1) == 4:
            return [model]
        assumed.append(_("frozen parameters in float32, not as they are stored"))
        return [model, loaded_as(model, element_type("float32"))]

    def _precisions(
        self, file: LaunchConfig, sharded: bool, assumed: list[str], four_bit: bool = False
    ) -> tuple[str, ...]:
        """That parameters may be kept in and computed with."""
        computed, kept = self.line.precision_with(file), self.line.parameters_type
        if four_bit:
            # What is not quantised is made float32 by PEFT's prepare_model_for_kbit_training, which not all call.
            assumed.append(_("embeddings and norms in float32"))
            return (MIXED, NARROW) if computed != WIDE else (WIDE, NARROW)
        if computed == NARROW or (computed == MIXED and sharded):
            return (computed,)
        if kept is not None:
            narrow = kept not in ("float32", "fp32")
            return (NARROW,) if narrow else (computed,) if computed is not None else (WIDE, MIXED)
        if computed is not None:
            assumed.append(_("parameters in float32"))
            return (computed, NARROW)
        assumed.append(_("the precision that takes most"))
        return (WIDE, MIXED, NARROW)


def _step(model: Model, settings: Training) -> _Step:
    return _Step(model, settings, training_budget(model, settings))


def _level(found: _Range, card: Card, missing: bool, sure: bool) -> Level:
    least, most = found.least.sure_bytes, found.most.budget.total_bytes
    room = card.bytes if card.free_bytes is None else min(card.bytes, card.free_bytes)
    if least > room:
        return Level.FAIL if sure else Level.WARN
    if missing:
        return Level.WARN if most > room else Level.UNSEEN
    return Level.FINE if found.most.budget.verdict == FITS and most <= room else Level.WARN


def _meaning(found: _Range, card: Card) -> str:
    """What the figures mean where it may not fit."""
    least, most = found.least.sure_bytes, found.most.budget
    room, words = card.bytes, _("It does not fit")
    if card.free_bytes is not None and most.verdict != NO and most.total_bytes > card.free_bytes:
        room, words = (
            card.free_bytes,
            _("The card would hold it, but only {free} of it are free").format(free=format_bytes(card.free_bytes)),
        )
    elif most.verdict != NO:
        return begun(most.binds)
    if found.least.budget.total_bytes == most.total_bytes and least > room:
        return words
    if least > room:
        return _("{verdict}, with {least} at the least").format(verdict=words, least=format_bytes(least))
    return _("{verdict}, unless it takes less than is assumed: {least} at the least").format(
        verdict=words, least=format_bytes(least)
    )


def _whole_step(step: _Step, card: Card) -> str:
    settings = step.settings
    return _(
        "Training {batch} x {tokens} tokens ({optimizer}, {precision}{how}) needs {size} of {name}: {parts}"
    ).format(
        batch=settings.batch, tokens=f"{settings.sequence:,}", optimizer=settings.optimizer,
        precision=settings.precision, how="".join(_how(step)), size=format_bytes(step.budget.total_bytes),
        name=card.name, parts=_parts(step),
    )  # fmt: skip


def _how(step: _Step) -> Iterator[str]:
    settings = step.settings
    if settings.lora is not None:
        yield f", {'DoRA' if settings.lora.dora else 'LoRA'} {settings.lora.rank}"
        if settings.lora.base:
            yield _(", four bits")
    if settings.zero:
        yield f", ZeRO {settings.zero} x {settings.ranks}"
    elif settings.ranks > 1:
        yield f", {settings.ranks} x DDP"
    if settings.checkpointing:
        yield _(", checkpointing")


def _parts(step: _Step) -> str:
    """The moment that needs most, part by part."""
    live = step.budget.peak.parts
    sizes = [(part.name, part.bytes) for part in step.budget.parts if part.name in live and part.bytes]
    return " + ".join(f"{_(name)} {format_bytes(size)}" for name, size in sizes)


def _without_a_batch(step: _Step, card: Card) -> str:
    sizes = {part.name: part.bytes for part in step.budget.parts}
    own = [(name, sizes[name]) for name in (PARAMETERS, GRADIENTS, STATES)]
    return _(
        "Before any batch, training ({optimizer}, {precision}{how}) needs {size} of {name}: {parts}"
    ).format(
        optimizer=step.settings.optimizer, precision=step.settings.precision, how="".join(_how(step)),
        size=format_bytes(sum(size for _name, size in own)), name=card.name,
        parts=" + ".join(f"{_(name)} {format_bytes(size)}" for name, size in own),
    )  # fmt: skip
