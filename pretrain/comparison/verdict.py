"""Which run is best, by how much and at what cost, in words; or why that can't be said."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pretrain.comparison import numbers
from pretrain.comparison.comparability import (
    Aspect,
    Comparability,
    comparability,
    groups_alike,
    objective,
)
from pretrain.comparison.configuration import Difference
from pretrain.comparison.cost import cost_in_words, lead_in_words
from pretrain.comparison.run import Run

# Seeds alone move a loss by about this share of it.
_CLOSE = 0.01
FINAL, BEST, BITS = "val_loss_nats", "best_val_loss_nats", "val_bits_per_byte"
_MEASURES = {
    FINAL: "nats validation loss",
    BEST: "nats best validation loss",
    BITS: "bits per byte",
}
# Of many differences these are named first.
_TELLING = (
    "model", "data.source", "model.network.n_layers", "model.network.d_model", "model.lr",
    "model.optimizer.matrices", "model.network.norm_position", "model.network.position",
    "model.network.activation", "model.network.init", "model.schedule.kind", "data.batch_size",
    "data.seq_len", "trainer.max_steps", "seed_everything",
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The judgement.

    Attributes:
        headline: The one sentence to read.
        sentences: What it rests on, and what it cost.
        cautions: Why it may not hold.
        runs: All runs, the best first where they can be ranked.
        best: The best run; None where none can be named.
        same_task: Whether losses and accuracies may be set against each other.
        same_text: Whether bits per byte may.
    """

    headline: str
    runs: list[Run]
    sentences: list[str] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)
    best: Run | None = None
    same_task: bool = True
    same_text: bool = True


def judge(runs: Sequence[Run], differing: Sequence[Difference]) -> Verdict:
    """Compare one or more runs.

    Args:
        runs: In the order given by the user.
        differing: What differs in their settings.
    """
    seen = comparability(runs)
    if len(runs) == 1:
        verdict = _alone(runs[0])
    elif seen.losses:
        verdict = _ranked(runs, _measure(runs))
    elif seen.bits_per_byte and all(run.figure(BITS) is not None for run in runs):
        verdict = _on_other_texts(runs) if Aspect.TEXT in seen.differing else _ranked(runs, BITS)
    else:
        verdict = _apart(runs, seen)
    if len(runs) > 1 and not seen.unknown:
        verdict.sentences.extend(_settings_in_words(differing))
    return replace(
        verdict,
        cautions=[*_about_task(seen, verdict), *_about_runs(verdict.runs)],
        same_task=seen.losses,
        same_text=seen.bits_per_byte and Aspect.TEXT not in seen.differing,
    )


def _measure(runs: Sequence[Run]) -> str:
    """The loss over the whole split where all have it, else the best one on the way."""
    return FINAL if all(run.figure(FINAL) is not None for run in runs) else BEST


def _alone(run: Run) -> Verdict:
    measure = _measure([run])
    loss = run.figure(measure)
    if loss is None:
        return Verdict(f"{run.name} is {run.status} and has no validation loss yet.", [run])
    figures = [f"{loss:.3f} {_MEASURES[measure]}"]
    if run.figure(BITS) is not None:
        figures.append(f"{run.figure(BITS):.3f} bits per byte")
    if run.figure("val_masked_accuracy") is not None:
        figures.append(f"{numbers.percent(run.figure('val_masked_accuracy') or 0)} of masks right")
    headline = f"{run.name} is {run.status}: {', '.join(figures)}."
    return Verdict(headline, [run], cost_in_words([run]) + _overfitting(run))


def _overfitting(run: Run) -> list[str]:
    losses = run.metrics.series.get("val/loss")
    if not losses or losses.values[-1] <= min(losses.values) * (1 + _CLOSE):
        return []
    step = losses.steps[losses.values.index(min(losses.values))]
    return [f"Its validation loss was lowest at step {step:,} and has risen since."]


def _ranked(runs: Sequence[Run], measure: str) -> Verdict:
    known = [(value, run) for run in runs if (value := run.figure(measure)) is not None]
    known.sort(key=lambda pair: pair[0])
    ranked = [run for _, run in known]
    order = [*ranked, *(run for run in runs if run not in ranked)]
    if not known:
        return Verdict("No run has a validation loss yet.", order)
    low, best = known[0]
    if len(known) == 1:
        said = f"Only {best.name} has a validation loss: {low:.3f} nats."
        return Verdict(said, order, cost_in_words(ranked))
    value, second = known[1]
    if value - low <= _CLOSE * value:
        return Verdict(*_equal(known, measure, order))
    headline = (
        f"{best.name} is best: {low:.3f} {_MEASURES[measure]}, {value - low:.3f} "
        f"({100 * (value - low) / value:.0f} %) below {second.name}."
    )
    lead = lead_in_words(best, second) if measure != BITS else []
    return Verdict(headline, order, [*lead, *cost_in_words(ranked)], best=best)


def _equal(
    known: Sequence[tuple[float, Run]], measure: str, order: list[Run]
) -> tuple[str, list[Run], list[str]]:
    """Headline, order and sentences where the first runs are too near to each other."""
    low = known[0][0]
    equal = [(value, run) for value, run in known if value * (1 - _CLOSE) <= low]
    names = _listed([run.name for _, run in equal])
    headline = (
        f"{names} are as good as equal: {low:.3f} to {equal[-1][0]:.3f} {_MEASURES[measure]}."
    )
    sentences = ["Another seed may turn the order round."]
    for value, run in known[len(equal) :][:1]:
        sentences.append(f"Next is {run.name} with {value:.3f}.")
    return headline, order, [*sentences, *cost_in_words([run for _, run in known])]


def _on_other_texts(runs: Sequence[Run]) -> Verdict:
    """Bits per byte are there, but of different texts: an order, and no best run."""
    order = sorted(runs, key=lambda run: run.figure(BITS) or 0.0)
    bits = [f"{run.name} {run.figure(BITS):.3f}" for run in order]
    headline = f"On different validation texts, no run is best. Bits per byte: {_listed(bits)}."
    return Verdict(headline, order, cost_in_words(order))


def _apart(runs: Sequence[Run], seen: Comparability) -> Verdict:
    aspects = _listed([aspect.value for aspect in seen.differing])
    headline = f"The losses of these runs can't be compared: they differ in {aspects}."
    sentences = []
    if Aspect.OBJECTIVE in seen.differing:
        names = [f"{run.name} is a {objective(run)}" for run in runs if objective(run)]
        sentences.append(f"{_listed(names)}.")
    groups = groups_alike(runs)
    for group in groups:
        if len(group) > 1:
            part = _ranked(group, _measure(group))
            sentences.append(f"Among {_listed([run.name for run in group])}: {part.headline}")
    return Verdict(headline, [run for group in groups for run in group], sentences)


def _settings_in_words(differing: Sequence[Difference]) -> list[str]:
    keys = [row.key for row in differing if not row.key.startswith("environment.")]
    if not keys:
        return ["Their configurations are the same."]
    if len(keys) == 1:
        row = next(row for row in differing if row.key == keys[0])
        return [f"They differ in one setting, {row.key}: {' against '.join(row.values)}."]
    named = [key for key in _TELLING if key in keys] or keys
    first = [re.sub(r"^(model\.network|model|data|trainer)\.", "", key) for key in named[:6]]
    among = f", among them {_listed(first)}" if len(first) < len(keys) else f": {_listed(first)}"
    return [f"They differ in {len(keys)} settings{among}."]


def _about_task(seen: Comparability, verdict: Verdict) -> list[str]:
    cautions = []
    if seen.differing and seen.bits_per_byte:
        aspects = _listed([aspect.value for aspect in seen.differing])
        cautions.append(f"They differ in {aspects}, so their losses in nats can't be compared.")
    if seen.unknown and len(verdict.runs) > 1:
        cautions.append(
            f"{_listed(list(seen.unknown))} kept no config.yaml: whether the runs learned the same "
            "task on the same text is not known."
        )
    return cautions


def _about_runs(runs: Sequence[Run]) -> list[str]:
    cautions = []
    for run in runs:
        at = f" at step {run.figure('steps'):,.0f}" if run.figure("steps") is not None else ""
        if run.status in ("running", "interrupted"):
            cautions.append(f"{run.name} is {run.status}{at}: its figures are not final.")
        elif run.status == "failed":
            warnings = run.card.get("warnings") or []
            why = f" ({warnings[-1]})" if warnings else ""
            cautions.append(f"{run.name} failed{at}{why}.")
        if len(runs) > 1 and run.figure(BEST) is None and run.figure(FINAL) is None:
            cautions.append(f"{run.name} has no validation loss.")
        if run.alerts:
            names = dict.fromkeys(str(one.get("name")).replace("_", " ") for one in run.alerts)
            cautions.append(f"{run.name} raised an alert: {_listed(list(names))}.")
    return cautions


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""
