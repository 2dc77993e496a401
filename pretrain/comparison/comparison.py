"""All that is said of the runs that are compared, for the terminal and for the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pretrain.comparison.configuration import Difference, differences
from pretrain.comparison.figures import Row, result_rows
from pretrain.comparison.run import Run
from pretrain.comparison.verdict import Verdict, judge

# Of the card: what a run's time and its last digits depend on.
_ENVIRONMENT = ("device", "n_cpu_threads", "precision", "code_version")


@dataclass(frozen=True)
class Comparison:
    """The comparison; its tables have one column for each of ``verdict.runs``.

    Attributes:
        verdict: The judgement, and the runs in its order.
        results: Figures of the cards.
        differences: Settings that differ.
    """

    verdict: Verdict
    results: list[Row]
    differences: list[Difference]


def compare(runs: Sequence[Run]) -> Comparison:
    """Set one or more runs beside each other."""
    verdict = judge(runs, differences([_all_settings(run) for run in runs]))
    settings = [_all_settings(run) for run in verdict.runs]
    return Comparison(verdict, result_rows(verdict.runs, verdict.same_task), differences(settings))


def _all_settings(run: Run) -> Mapping[str, Any]:
    """The configuration, and where it was run."""
    versions = run.card.get("versions")
    known = {name: run.card[name] for name in _ENVIRONMENT if run.card.get(name) is not None}
    if isinstance(versions, Mapping):
        known |= {f"versions.{name}": version for name, version in versions.items()}
    return {**run.settings, **{f"environment.{name}": value for name, value in known.items()}}
