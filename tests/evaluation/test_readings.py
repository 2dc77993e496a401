import numpy as np
import pytest

from pretrain.evaluation.queries import Query
from pretrain.evaluation.readings import causal_readings, masked_readings

MASK, FILLER = 99, 0
LENGTHS = (5, 9, 3, 9, 17, 4, 5, 9)


def queries(hides_rest=False):
    generator = np.random.default_rng(0)
    return [
        Query(generator.integers(1, 50, length), 1, length - 1, hides_rest) for length in LENGTHS
    ]


@pytest.mark.parametrize("n_tokens", [1, 20, 1000])
def test_every_token_is_asked_for_once_by_a_causal_model(n_tokens):
    asked = queries()
    seen = []
    for reading in causal_readings(asked, FILLER, n_tokens, None):
        for row, column, target, number in zip(*reading[2:], strict=True):
            ids = asked[number].ids
            assert reading.input_ids[row, : len(ids) - 1].tolist() == ids[:-1].tolist()
            assert target == ids[column + 1]
            seen.append((number, column + 1))
        assert reading.real is None
    assert sorted(seen) == [(n, i) for n, q in enumerate(asked) for i in range(q.first, q.last)]


@pytest.mark.parametrize("hides_rest", [False, True])
@pytest.mark.parametrize("n_tokens", [1, 20, 1000])
def test_every_token_is_hidden_once_from_a_masked_model(n_tokens, hides_rest):
    asked = queries(hides_rest)
    seen = []
    for reading in masked_readings(asked, MASK, FILLER, n_tokens, None):
        assert len(set(reading.rows.tolist())) == len(reading.input_ids)  # one in each row
        for row, column, target, number in zip(*reading[2:], strict=True):
            ids = asked[number].ids.copy()
            assert target == ids[column]
            ids[column : asked[number].last if hides_rest else column + 1] = MASK
            line = reading.input_ids[row]
            assert line.tolist() == [*ids, *[FILLER] * (len(line) - len(ids))]
            n_real = len(line) if reading.real is None else reading.real[row].sum()
            assert n_real == len(ids)
            seen.append((number, column))
    assert sorted(seen) == [(n, i) for n, q in enumerate(asked) for i in range(q.first, q.last)]


@pytest.mark.parametrize("readings", [causal_readings, masked_readings])
def test_batches_keep_to_their_size_and_to_few_widths(readings):
    masked = () if readings is causal_readings else (MASK,)
    for reading in readings(queries(), *masked, FILLER, 40, None):
        n_rows, width = reading.input_ids.shape
        lengths = {LENGTHS[n] - (not masked) for n in reading.queries}
        assert width == min(lengths) if len(lengths) == 1 else width % 8 == 0
        assert n_rows == 1 or n_rows * max(lengths) <= 40


def test_a_table_of_positions_is_not_exceeded_by_rounding():
    asked = [Query(np.arange(1, n), 1, n - 2) for n in (11, 10, 9)]
    for reading in masked_readings(asked, MASK, FILLER, 1000, 10):
        assert reading.input_ids.shape[1] == 10
