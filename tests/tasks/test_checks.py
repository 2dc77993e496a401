from types import SimpleNamespace

import pytest

from pretrain.errors import UserError
from pretrain.model import TransformerConfig
from pretrain.tasks.checks import check_fit


def data(objective="clm", seq_len=8, vocab_size=29):
    return SimpleNamespace(
        objective=objective, seq_len=seq_len, tokenizer=SimpleNamespace(vocab_size=vocab_size)
    )


def check(objective, network, data_module):
    check_fit(objective, TransformerConfig(**{"vocab_size": 29, **network}), data_module)


def test_what_fits_passes():
    check("clm", {}, data())
    check("mlm", {}, data("mlm"))


@pytest.mark.parametrize("size", [40, 64])
def test_a_table_rounded_up_is_fine(size):
    check("clm", {"vocab_size": size}, data())


def test_added_tokens_beyond_the_table_are_refused_with_both_numbers():
    with pytest.raises(UserError, match=r"largest id is 30, .*vocab_size is 29"):
        check("clm", {}, data(vocab_size=31))


def test_a_table_far_larger_than_the_vocabulary_is_refused_with_both_numbers():
    with pytest.raises(UserError, match=r"5000, .* only 29 tokens"):
        check("clm", {"vocab_size": 5000}, data())


def test_learned_positions_must_reach():
    network = {"position": "learned", "max_len": 8}
    for seq_len in (7, 8):
        check("clm", network, data(seq_len=seq_len))
    with pytest.raises(UserError, match=r"seq_len \(9\) .* 8 learned positions"):
        check("clm", network, data(seq_len=9))
    check("clm", {"max_len": 8}, data(seq_len=9))  # rotary: any length


def test_the_objective_must_be_the_datas():
    with pytest.raises(UserError, match=r"objective is mlm, .* use MaskedLMDataModule"):
        check("mlm", {}, data("clm"))
