import itertools

import numpy as np
import pytest

from pretrain.data.seeding import Purpose, generator, uniform_rows

BITS = 2**64


def test_the_same_key_gives_the_same_numbers():
    assert (generator(Purpose.MIXTURE, 1, 2, 3).random(5) == generator(3, 1, 2, 3).random(5)).all()


def test_every_part_of_the_key_counts():
    keys = itertools.product(Purpose, (0, 1, 2**32 - 1), (0, 1, 300), (0, 1, 2**40))
    first = [generator(*key).random() for key in keys]
    assert len(set(first)) == len(first)


def test_neighbouring_keys_are_independent():
    draws = np.array([generator(Purpose.TRAIN_MASKS, 1, 0, i).random(2) for i in range(4000)])
    assert abs(draws.mean() - 0.5) < 4 / np.sqrt(12 * draws.size)
    following = np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]
    assert abs(following) < 4 / np.sqrt(len(draws))


def rows(epochs, indices, n_numbers, seed=1, purpose=Purpose.TRAIN_MASKS):
    epochs, indices = np.broadcast_arrays(epochs, indices)
    return uniform_rows(purpose, seed, epochs, indices, n_numbers)


def mixed(bits):
    """The finalizer of SplitMix64 as it is published, in whole numbers."""
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % BITS
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % BITS
    return bits ^ bits >> 31


@pytest.mark.parametrize(
    ("seed", "epoch", "index"), [(0, 0, 0), (2**32 - 1, 300, 2**40), (5, 1, 9)]
)
def test_a_row_is_a_sequence_of_splitmix64(seed, epoch, index):
    state = (mixed(seed << 32 | epoch << 8 | Purpose.TRAIN_MASKS) + index) % BITS
    state, expected = mixed(state), []
    for _ in range(50):
        state = (state + 0x9E3779B97F4A7C15) % BITS
        expected.append((mixed(state) >> 11) / 2**53)
    assert rows([epoch], [index], 50, seed=seed)[0].tolist() == expected


def test_known_numbers_of_splitmix64():
    """The first ones from the state 1234567, as its reference implementation gives them."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    state = 1234567
    for number in known:
        state = (state + 0x9E3779B97F4A7C15) % BITS
        assert mixed(state) == number


def test_a_row_does_not_depend_on_its_neighbours():
    together = rows(np.array([0, 3, 3]), np.array([7, 7, -1]), 10)
    for place, (epoch, index) in enumerate([(0, 7), (3, 7), (3, -1)]):
        assert (rows([epoch], [index], 10)[0] == together[place]).all()
        assert (rows([epoch], [index], 4)[0] == together[place, :4]).all()


def test_every_part_of_a_row_s_key_counts():
    keys = itertools.product(Purpose, (0, 1, 2**32 - 1), (0, 1, 300), (0, 1, 2**40))
    first = [rows([e], [i], 1, seed=s, purpose=p)[0, 0] for p, s, e, i in keys]
    assert len(set(first)) == len(first)


@pytest.mark.parametrize("axis", ["index", "epoch", "seed"])
def test_numbers_of_neighbouring_rows_are_uniform_and_independent(axis):
    n_rows, n_numbers = 4000, 40
    count, zero = np.arange(n_rows), np.zeros(n_rows, dtype=np.int64)
    if axis == "seed":
        draws = np.concatenate([rows([0], [5], n_numbers, seed=seed) for seed in range(n_rows)])
    else:
        draws = rows(*((zero, count) if axis == "index" else (count, zero)), n_numbers)
    # 100 bins, 99 degrees of freedom
    counts = np.histogram(draws, 100, (0, 1))[0]
    chi_square = ((counts - draws.size / 100) ** 2 / (draws.size / 100)).sum()
    assert abs(chi_square - 99) < 4 * np.sqrt(2 * 99)
    # Each place of a row, each with the next one, and with the same one of the next row
    assert np.abs(draws.mean(axis=0) - 0.5).max() < 5 / np.sqrt(12 * n_rows)
    centred = (draws - 0.5) * np.sqrt(12)
    for one, other in ((centred[:, :-1], centred[:, 1:]), (centred[:-1], centred[1:])):
        products = one * other
        assert np.abs(products.mean(axis=0)).max() < 5 / np.sqrt(len(products))
    # All pairs of places at once: none may move together
    correlations = centred.T @ centred / n_rows
    np.fill_diagonal(correlations, 0)
    assert np.abs(correlations).max() < 5.5 / np.sqrt(n_rows)


def test_every_bit_is_as_often_set_as_not():
    draws = rows(np.zeros(2000, dtype=np.int64), np.arange(2000), 20)
    whole = (draws * 2**53).astype(np.uint64).ravel()
    for bit in range(53):
        share = (whole >> np.uint64(bit) & np.uint64(1)).mean()
        assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(len(whole)), bit
