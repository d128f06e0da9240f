"""An estimate of training as titles, sentences and tables."""

from __future__ import annotations

from ..compare.outline import Section
from ..estimate.adapters import trained_parameters
from ..estimate.four_bit import DOUBLE, SINGLE
from ..estimate.model_input import Model
from ..estimate.training import Training, TrainingBudget, training_limits
from ..language import _, ngettext, pgettext
from ..model.units import format_bytes
from .outline import VERDICTS, explained, left_line, reserve_line, share_text


def training_headline(budget: TrainingBudget, settings: Training) -> str:
    """The answer in one sentence."""
    return _("{verdict}: a step with {batch} x {sequence} tokens needs {total} of {capacity}").format(
        verdict=_(VERDICTS[budget.verdict]),
        batch=settings.batch,
        sequence=f"{settings.sequence:,}",
        total=format_bytes(budget.total_bytes),
        capacity=format_bytes(settings.capacity_bytes),
    )


def training_outline(model: Model, settings: Training, budget: TrainingBudget) -> tuple[Section, ...]:
    """The verdict, the moments of a step, the parts, how they come about."""
    count = f"{model.parameters:,}" if model.parameters is not None else _("not known")
    facts = (
        left_line(settings, budget.total_bytes),
        reserve_line(budget.reserve_bytes, budget.headroom_bytes),
        _("what binds: {binds}").format(binds=budget.binds),
        ngettext(
            "parameters: {count}; {optimizer}, {precision}, ZeRO stage {zero} on {number} rank",
            "parameters: {count}; {optimizer}, {precision}, ZeRO stage {zero} on {number} ranks",
            settings.ranks,
        ).format(
            count=count,
            optimizer=settings.optimizer,
            precision=settings.precision,
            zero=settings.zero,
            number=settings.ranks,
        ),
        _("checkpointing: on") if settings.checkpointing else _("checkpointing: off"),
        *_adapters(model, settings),
        *_on_host(settings),
    )
    parts = tuple(part for part in budget.parts if part.bytes)
    peak = budget.peak.parts
    return (
        Section(training_headline(budget, settings), facts),
        _what_fits(model, settings),
        Section(
            _("Moments of a step"),
            head=(pgettext("column", "moment"), pgettext("column", "needs")),
            rows=tuple((_(moment.name), format_bytes(moment.bytes)) for moment in budget.moments),
            remark=_("The largest of them counts."),
        ),
        Section(
            _("Parts"),
            head=(pgettext("column", "part"), pgettext("column", "size"), _("at the peak"), _("how known")),
            rows=tuple(
                (_(part.name), format_bytes(part.bytes), _("yes") if part.name in peak else _("no"), _(part.known))
                for part in parts
            ),
        ),
        Section(_("How the figures come about"), tuple(explained(part) for part in parts)),
    )


def _what_fits(model: Model, settings: Training) -> Section:
    """The largest batch and the longest sequence, for each headroom."""
    rows = tuple(
        (
            share_text(each.headroom),
            f"{each.max_batch:,}" if each.max_batch else _("not even one"),
            f"{each.max_sequence:,}" if each.max_sequence else _("none fits"),
        )
        for each in reversed(training_limits(model, settings))
    )
    return Section(
        _("What fits"),
        head=(
            _("left of the card"),
            _("largest batch of {sequence} tokens").format(sequence=f"{settings.sequence:,}"),
            _("longest with a batch of {batch}").format(batch=settings.batch),
        ),
        rows=rows,
    )


def _adapters(model: Model, settings: Training) -> tuple[str, ...]:
    """What is trained, where that is not all."""
    lora = settings.lora
    if lora is None:
        return ()
    base = {SINGLE: _(", in four bits"), DOUBLE: _(", in four bits with their scales quantised as well")}
    return (
        _("{kind} of rank {rank} on {targets}: {count} parameters are trained, the others are frozen{base}").format(
            kind="DoRA" if lora.dora else "LoRA",
            base=base.get(lora.base, ""),
            rank=lora.rank,
            targets=_(", ").join((*lora.targets, *lora.whole)),
            count=f"{trained_parameters(model.architecture, lora, model.path):,}",
        ),
    )


def _on_host(settings: Training) -> tuple[str, ...]:
    """What lies elsewhere, as the launcher's file says."""
    said = []
    if settings.offload_states:
        said.append(_("optimizer states lie in host memory (offloaded), not on the card"))
    if settings.offload_parameters:
        said.append(_("parameters lie in host memory (offloaded), not on the card"))
    return tuple(said)
