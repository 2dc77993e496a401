import itertools

import numpy as np

from pretrain.data.seeding import Purpose, generator


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
