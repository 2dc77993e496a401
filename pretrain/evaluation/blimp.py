"""BLiMP: does a model find the grammatical sentence of a pair likelier?

Warstadt et al. 2020, "BLiMP: The Benchmark of Linguistic Minimal Pairs for English": 67 sets
(``UID``) of 1,000 pairs. The published file has 13 phenomena (``linguistics_term``), since it parts
the paper's argument structure from s-selection, and 4 fields. Guessing gives 50 %.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pretrain.evaluation.likelihood import Scorer
from pretrain.evaluation.records import read_records
from pretrain.evaluation.report import Report, aligned, shown


class Pair(NamedTuple):
    """Two sentences that differ in what makes one of them wrong."""

    good: str
    bad: str
    uid: str
    term: str
    field: str


class Tally(NamedTuple):
    """How many pairs of one set were judged right."""

    uid: str
    term: str
    field: str
    n_right: int
    n_pairs: int


@dataclass(frozen=True)
class BlimpReport(Report):
    """The tally of every set."""

    sets: tuple[Tally, ...]

    @property
    def accuracy(self) -> float:
        """Over all pairs: with as many pairs in each set, the mean over the sets."""
        return _accuracy(self.sets)

    @property
    def standard_error(self) -> float:
        """Of the accuracy, the pairs taken for independent draws."""
        n_pairs = sum(tally.n_pairs for tally in self.sets)
        return (self.accuracy * (1 - self.accuracy) / n_pairs) ** 0.5

    def by(self, kind: str) -> dict[str, float]:
        """Accuracy for each ``uid``, ``term`` or ``field``, sorted by name."""
        names = sorted({getattr(tally, kind) for tally in self.sets})
        return {
            name: _accuracy([tally for tally in self.sets if getattr(tally, kind) == name])
            for name in names
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain types."""
        return {
            "accuracy": self.accuracy,
            "standard_error": self.standard_error,
            "n_pairs": sum(tally.n_pairs for tally in self.sets),
            "n_sets": len(self.sets),
            **{f"by_{kind}": self.by(kind) for kind in ("field", "term", "uid")},
        }

    def figures(self) -> dict[str, float]:
        """Accuracy of all, and of each phenomenon."""
        return {"accuracy": self.accuracy, **self.by("term")}

    def table(self) -> str:
        """Phenomena with the sets in them, each with its number of pairs."""
        rows = [("", "accuracy", "pairs")]
        for term in self.by("term"):
            inside = [tally for tally in self.sets if tally.term == term]
            rows.append(_row(term, inside))
            rows += [_row(f"  {tally.uid}", [tally]) for tally in inside]
        rows += [_row(f"all {field}", self._of_field(field)) for field in self.by("field")]
        return aligned([*rows, _row("all", self.sets)])

    def _of_field(self, field: str) -> list[Tally]:
        return [tally for tally in self.sets if tally.field == field]


def read_pairs(source: str, limit: int | None = None) -> list[Pair]:
    """The pairs of a file in BLiMP's format, at most ``limit`` of each set.

    Raises:
        UserError: The file can't be read, or a row lacks a field.
    """
    pairs = []
    taken: Counter[str] = Counter()
    for record in read_records(source):
        uid = record.text("UID")
        taken[uid] += 1
        if limit is None or taken[uid] <= limit:
            good, bad, term = map(record.text, ("good", "bad", "linguistics_term"))
            # One set of the published data has a slash where all others have an underscore.
            field = record.text("field").replace("/", "_")
            pairs.append(Pair(good, bad, uid, term, field))
    return pairs


def blimp(scorer: Scorer, pairs: Sequence[Pair]) -> BlimpReport:
    """Judge every pair by the likelihood of its whole sentences, not divided by their length.

    A pair is right only if the good sentence is strictly likelier. Seven pairs of the published
    set have two equal sentences, which no model can get right; they count all the same, as in
    published figures (they lower the accuracy by 0.01 points).

    Raises:
        UserError: A sentence can't be read, or the model computes NaN.
    """
    found = scorer.texts([text for pair in pairs for text in (pair.good, pair.bad)])
    n_pairs: Counter[tuple[str, str, str]] = Counter()
    n_right: Counter[tuple[str, str, str]] = Counter()
    for pair, good, bad in zip(pairs, found[::2], found[1::2], strict=True):
        key = (pair.uid, pair.term, pair.field)
        n_pairs[key] += 1
        n_right[key] += good.log_probability > bad.log_probability
    return BlimpReport(tuple(Tally(*key, n_right[key], n) for key, n in sorted(n_pairs.items())))


def _accuracy(tallies: Sequence[Tally]) -> float:
    return sum(tally.n_right for tally in tallies) / sum(tally.n_pairs for tally in tallies)


def _row(name: str, tallies: Sequence[Tally]) -> tuple[str, str, str]:
    n_pairs = sum(tally.n_pairs for tally in tallies)
    return name, shown("accuracy", _accuracy(tallies)), shown("n_pairs", n_pairs)
