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
    verdict = judge(runs, _differences(runs))
    rows = result_rows(verdict.runs, verdict.same_task, verdict.same_text)
    return Comparison(verdict, rows, _differences(verdict.runs))


def _differences(runs: Sequence[Run]) -> list[Difference]:
    """In the configurations, then in where they were run."""
    return [
        *differences([run.settings for run in runs]),
        *differences([_environment(run) for run in runs]),
    ]


def _environment(run: Run) -> Mapping[str, Any]:
    """What the card tells of the machine and the code."""
    versions = run.card.get("versions")
    known = {name: run.card[name] for name in _ENVIRONMENT if run.card.get(name) is not None}
    if isinstance(versions, Mapping):
        known |= {f"versions.{name}": version for name, version in versions.items()}
    return {f"environment.{name}": value for name, value in known.items()}
