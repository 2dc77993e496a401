import pytest

from pretrain.commands.adoption import refuse_contradictions
from pretrain.errors import UserError

NETWORK = {"d_model": 32, "position": "learned", "max_len": 64, "dropout": 0.0, "vocab_size": 99}


def test_the_same_architecture_passes():
    refuse_contradictions(NETWORK, NETWORK, "a.ckpt")


@pytest.mark.parametrize(("key", "value"), [("d_model", 64), ("max_len", 128), ("vocab_size", 7)])
def test_another_architecture_is_refused_with_both_values(key, value):
    with pytest.raises(UserError, match=rf"{key} is {value}, but a\.ckpt has {NETWORK[key]}"):
        refuse_contradictions({**NETWORK, key: value}, NETWORK, "a.ckpt")


def test_what_changes_no_weight_may_differ():
    refuse_contradictions({**NETWORK, "dropout": 0.1}, NETWORK, "a.ckpt")
    rotary = {**NETWORK, "position": "rotary"}
    refuse_contradictions({**rotary, "max_len": 128}, rotary, "a.ckpt")
