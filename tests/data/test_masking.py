import math
import time

import numpy as np
import pytest

from pretrain.data.masking import Masker, MaskingConfig
from pretrain.data.seeding import Purpose
from pretrain.errors import UserError

PAD, CLS, SEP, MASK, FIRST = 0, 1, 2, 3, 4
VOCAB_SIZE = 100


def masker(seq_len, config=None, seed=1, purpose=Purpose.TRAIN_MASKS):
    return Masker(
        config or MaskingConfig(),
        seq_len,
        mask_id=MASK,
        special_ids=(PAD, CLS, SEP, MASK),
        vocab_size=VOCAB_SIZE,
        seed=seed,
        purpose=purpose,
    )


def rows(n_rows, seq_len, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.integers(FIRST, VOCAB_SIZE, (n_rows, seq_len))
    ids[:, 0] = CLS
    ids[:, seq_len // 2] = SEP
    return ids


def apply(ids, mask, epoch=0, real=None):
    n_rows = len(ids)
    real = np.ones_like(ids, dtype=bool) if real is None else real
    return mask(ids, real, np.full(n_rows, epoch), np.arange(n_rows))


def within_three_standard_errors(count, n, p):
    return abs(count - n * p) <= 3 * math.sqrt(n * p * (1 - p))


def test_shares_over_a_hundred_thousand_tokens():
    seq_len = 103  # 101 maskable tokens: 15.15 targets a row on average
    ids = rows(1000, seq_len)
    batch = apply(ids, masker(seq_len))
    is_target = batch["labels"] != -100
    positions, labels = batch["masked_positions"][is_target], batch["labels"][is_target]
    n_targets = len(labels)
    fraction = 0.15 * 101 % 1
    assert within_three_standard_errors(n_targets - 15 * 1000, 1000, fraction)

    shown = batch["input_ids"].ravel()[positions]
    is_mask, is_kept = shown == MASK, shown == labels
    chance = 1 / (VOCAB_SIZE - FIRST)  # a random replacement may be the token itself
    assert within_three_standard_errors(is_mask.sum(), n_targets, 0.8)
    assert within_three_standard_errors(is_kept.sum(), n_targets, 0.1 + 0.1 * chance)
    replaced = shown[~is_mask & ~is_kept]
    assert within_three_standard_errors(len(replaced), n_targets, 0.1 * (1 - chance))
    # Replacements are uniform over the ordinary ids: chi-square with 95 degrees of freedom
    counts = np.bincount(replaced, minlength=VOCAB_SIZE)[FIRST:]
    chi_square = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    assert abs(chi_square - 95) < 4 * math.sqrt(2 * 95)
    # Every place of a row is as likely as any other
    place = np.bincount(positions % seq_len, minlength=seq_len)
    assert place[0] == place[seq_len // 2] == 0
    assert np.abs(place[place > 0] - n_targets / 101).max() < 5 * math.sqrt(150)


def test_only_targets_change_and_labels_are_the_originals():
    ids = rows(64, 32)
    batch = apply(ids, masker(32))
    is_target = batch["labels"] != -100
    positions = batch["masked_positions"][is_target]
    assert len(np.unique(positions)) == len(positions)
    assert (ids.ravel()[positions] == batch["labels"][is_target]).all()
    rest = np.ones(ids.size, dtype=bool)
    rest[positions] = False
    assert (batch["input_ids"].ravel()[rest] == ids.ravel()[rest]).all()
    assert batch["labels"].shape == batch["masked_positions"].shape == (64 * math.ceil(0.15 * 32),)
    assert (batch["masked_positions"][~is_target] == 0).all()


def test_specials_and_padding_are_never_chosen_nor_drawn():
    ids = rows(500, 20)
    real = np.arange(20) < 12
    ids[:, 12:] = PAD
    config = MaskingConfig(rate=0.9, mask=0, random=1, keep=0)
    batch = apply(ids, masker(20, config), real=np.broadcast_to(real, ids.shape))
    is_target = batch["labels"] != -100
    assert (batch["labels"][is_target] >= FIRST).all()
    assert (batch["masked_positions"][is_target] % 20 < 12).all()
    assert (batch["input_ids"].ravel()[batch["masked_positions"][is_target]] >= FIRST).all()


def test_a_row_of_three_words_always_has_one_target():
    ids = np.array([[CLS, 10, 11, 12, SEP, PAD, PAD, PAD]])
    real = ids != PAD
    for epoch in range(50):
        labels = apply(ids, masker(8), epoch, real)["labels"]
        assert (labels != -100).sum() == 1


def test_a_row_of_specials_alone_has_none():
    batch = apply(np.array([[CLS, SEP, PAD, PAD]]), masker(4))
    assert (batch["labels"] == -100).all()
    assert batch["input_ids"].tolist() == [[CLS, SEP, PAD, PAD]]


@pytest.mark.parametrize("rate", [0.01, 0.15, 0.5, 1.0])
@pytest.mark.parametrize("seq_len", [2, 3, 17, 64])
def test_the_rate_always_fits_its_capacity(rate, seq_len):
    ids = np.full((50, seq_len), 10)
    batch = apply(ids, masker(seq_len, MaskingConfig(rate=rate)))
    per_row = (batch["labels"].reshape(50, -1) != -100).sum(axis=1)
    assert per_row.min() >= max(1, math.floor(rate * seq_len))
    assert per_row.max() <= max(1, math.ceil(rate * seq_len))


def test_a_row_depends_on_seed_epoch_and_block_alone():
    ids = rows(8, 32)
    whole = apply(ids, masker(32))["input_ids"]
    ones = np.ones((1, 32), dtype=bool)
    for block in range(8):
        alone = masker(32)(ids[block : block + 1], ones, np.array([0]), np.array([block]))
        assert (alone["input_ids"] == whole[block]).all()
    assert (apply(ids, masker(32), epoch=1)["input_ids"] != whole).any()
    assert (apply(ids, masker(32, seed=2))["input_ids"] != whole).any()
    fixed = masker(32, purpose=Purpose.VALIDATION_MASKS)
    assert (apply(ids, fixed)["input_ids"] != whole).any()


def test_masks_more_than_a_million_tokens_a_second():
    ids, mask = rows(512, 128), masker(128)
    apply(ids, mask)
    best = math.inf
    for _ in range(5):  # the best of a few, since tests share their processor
        start = time.perf_counter()
        apply(ids, mask)
        best = min(best, time.perf_counter() - start)
    assert ids.size / best > 1e6


@pytest.mark.parametrize("bad", [{"rate": 0}, {"rate": 1.5}, {"keep": 0.2}, {"mask": -0.1}])
def test_impossible_rates_are_refused(bad):
    with pytest.raises(UserError, match="masking"):
        MaskingConfig(**bad)
