"""What streams skipped: counted while they are read, and kept over a resume."""

from __future__ import annotations

from collections import Counter
from typing import Protocol


class CountingStream(Protocol):
    """A stream that counts the records it skips in one pass, by reason."""

    bad_records: Counter[str]


class SkippedRecords:
    """Records skipped in a pass over each split, by reason; a pass may not be at its end."""

    def __init__(self) -> None:
        self._before: dict[str, Counter[str]] = {}
        self._streams: dict[str, CountingStream] = {}

    def load(self, state: dict[str, dict[str, int]]) -> None:
        """Go on from the `state` of another run; streams that are watched stay so."""
        self._before = {split: Counter(counts) for split, counts in state.items()}

    def watch(self, split: str, stream: CountingStream) -> None:
        """Count what this stream skips, in place of an earlier one of the split."""
        self._before = self._counts()
        self._streams[split] = stream

    def state(self) -> dict[str, dict[str, int]]:
        """Split → reason → count, in plain types."""
        return {split: dict(counts) for split, counts in self._counts().items()}

    def total(self, is_held_out: bool) -> dict[str, int]:
        """Reason → count over all splits.

        Args:
            is_held_out: whether validation text stands among the training text, so that passes over
                both meet the same records.
        """
        counts = self._counts()
        train = counts.pop("train", Counter())
        held_out = counts.pop("validation", Counter())
        both = train | held_out if is_held_out else train + held_out
        return dict(sum(counts.values(), both))

    def _counts(self) -> dict[str, Counter[str]]:
        found = dict(self._before)
        for split, stream in self._streams.items():
            found[split] = found.get(split, Counter()) | stream.bad_records
        return found
