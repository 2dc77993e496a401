"""Batches that answer many queries at once, rows of like length together."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pretrain.evaluation.queries import Query

_WIDTH_STEP = 8


class Reading(NamedTuple):
    """One batch for the network, and where in it the answers stand.

    Attributes:
        input_ids: ``(rows, width)``.
        real: ``(rows, width)`` bool, True at real tokens; None where the model need not know.
        rows: ``(n_targets,)`` row of the state that predicts each target.
        columns: ``(n_targets,)`` its place in the row.
        targets: ``(n_targets,)`` token ids.
        queries: ``(n_targets,)`` number of the query that each target belongs to.
    """

    input_ids: np.ndarray
    real: np.ndarray | None
    rows: np.ndarray
    columns: np.ndarray
    targets: np.ndarray
    queries: np.ndarray


def causal_readings(
    queries: Sequence[Query], filler_id: int, n_tokens: int, longest: int | None
) -> Iterator[Reading]:
    """Each query is one row, whose state before each token predicts it.

    Args:
        queries: What is asked.
        filler_id: Any token id; it stands on the right, where a causal model does not see it.
        n_tokens: About how many tokens a batch holds.
        longest: The widest batch that the model can read, if there is a limit.
    """
    lengths = np.array([len(query.ids) - 1 for query in queries])
    for numbers, width in _batches(lengths, n_tokens, longest):
        asked = [queries[number] for number in numbers]
        counts = [query.n_tokens for query in asked]
        yield Reading(
            _padded([query.ids[:-1] for query in asked], width, filler_id),
            None,
            np.repeat(np.arange(len(asked)), counts),
            np.concatenate([np.arange(query.first - 1, query.last - 1) for query in asked]),
            np.concatenate([query.ids[query.first : query.last] for query in asked]),
            np.repeat(numbers, counts),
        )


def masked_readings(
    queries: Sequence[Query], mask_id: int, filler_id: int, n_tokens: int, longest: int | None
) -> Iterator[Reading]:
    """Each token that is asked for has a row of its own, in which it is hidden.

    Args:
        queries: What is asked.
        mask_id: Stands where a token is hidden.
        filler_id: Any token id.
        n_tokens: About how many tokens a batch holds.
        longest: The widest batch that the model can read, if there is a limit.
    """
    counts = np.array([query.n_tokens for query in queries])
    owners = np.repeat(np.arange(len(queries)), counts)
    places = np.concatenate([np.arange(query.first, query.last) for query in queries])
    lengths = np.array([len(query.ids) for query in queries])[owners]
    for numbers, width in _batches(lengths, n_tokens, longest):
        asked = [queries[number] for number in owners[numbers]]
        columns = places[numbers]
        input_ids = _padded([query.ids for query in asked], width, filler_id)
        rows = np.arange(len(asked))
        targets = input_ids[rows, columns]
        input_ids[rows, columns] = mask_id
        for row, query in enumerate(asked):
            if query.hides_rest:
                input_ids[row, columns[row] : query.last] = mask_id
        real = np.arange(width) < lengths[numbers, None]
        yield Reading(
            input_ids, None if real.all() else real, rows, columns, targets, owners[numbers]
        )


def _batches(
    lengths: np.ndarray, n_tokens: int, longest: int | None
) -> Iterator[tuple[np.ndarray, int]]:
    """Numbers of the rows that are read together, and their width; the longest rows come first.

    Rows of one length are read without filler. Where a batch mixes lengths its width is rounded
    up, since every new shape costs a CPU the choice of its kernels.
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        width = int(lengths[order[start]])
        numbers = order[start : start + max(1, n_tokens // width)]
        start += len(numbers)
        if lengths[numbers[-1]] < width:
            width = -(-width // _WIDTH_STEP) * _WIDTH_STEP
            width = width if longest is None else min(width, longest)
        yield numbers, width


def _padded(rows: Sequence[np.ndarray], width: int, filler_id: int) -> np.ndarray:
    padded = np.full((len(rows), width), filler_id, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded
