"""An estimate of training as titles, sentences and tables."""

from __future__ import annotations

from ..compare.outline import Section
from ..estimate.adapters import trained_parameters
from ..estimate.model_input import Model
from ..estimate.training import Training, TrainingBudget
from ..language import _, ngettext, pgettext
from ..model.units import format_bytes
from .outline import VERDICTS, explained, reserve_line


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
        _("headroom: {headroom}; {share} % was asked for").format(
            headroom=format_bytes(budget.headroom_bytes), share=f"{100 * settings.headroom:.0f}"
        ),
        reserve_line(budget.reserve_bytes, budget.headroom_bytes),
        _("what binds: {binds}").format(binds=budget.binds),
        _("largest batch with {sequence} tokens: {max_batch}").format(
            sequence=f"{settings.sequence:,}", max_batch=budget.max_batch or _("not even one")
        ),
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


def _adapters(model: Model, settings: Training) -> tuple[str, ...]:
    """What is trained, where that is not all."""
    lora = settings.lora
    if lora is None:
        return ()
    return (
        _("LoRA of rank {rank} on {targets}: {count} parameters are trained, the others are frozen").format(
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
