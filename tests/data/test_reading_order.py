import pytest

from pretrain.data.reading_order import ExampleOrder, ReadingOrder
from pretrain.errors import UserError

ORDER = {
    "uses_cache": True, "seq_len": 16, "seed": 1, "shares": [0.25, 0.75], "train_tokens": 1000,
    "vocabulary": "a",
}  # fmt: skip
EXAMPLES = {
    "batch_size": 4, "tokens_per_batch": None, "group_by_length": True, "max_len": 32, "seed": 1,
    "train_tokens": 1000,
}  # fmt: skip
INSIDE = {"epoch": 1, "block": 5}
CHANGES = [
    ("uses_cache", False, "cache=True"),
    ("seq_len", 32, "seq_len 16, this run has 32"),
    ("seed", 2, "seed 1, this run has 2"),
    ("shares", [0.5, 0.5], r"source weights \[0.25, 0.75\], this run has \[0.5, 0.5\]"),
    ("train_tokens", 999, "1,000 training tokens, this corpus has 999"),
]


def test_the_same_order_goes_on():
    ReadingOrder(**ORDER).check_continues({**ORDER, "position": INSIDE})


@pytest.mark.parametrize(("name", "value", "words"), CHANGES)
def test_another_order_is_refused_inside_an_epoch_with_both_values(name, value, words):
    with pytest.raises(UserError, match=words):
        ReadingOrder(**{**ORDER, name: value}).check_continues({**ORDER, "position": INSIDE})


@pytest.mark.parametrize(("name", "value", "words"), CHANGES[1:])
def test_between_epochs_the_order_may_change(name, value, words):
    state = {**ORDER, "position": {"epoch": 2, "block": 0}}
    ReadingOrder(**{**ORDER, name: value}).check_continues(state)


@pytest.mark.parametrize("position", [INSIDE, {"epoch": 2, "block": 0}])
def test_another_vocabulary_is_refused_anywhere(position):
    order = ReadingOrder(**{**ORDER, "vocabulary": "b"})
    with pytest.raises(UserError, match="other tokens"):
        order.check_continues({**ORDER, "position": position})


@pytest.mark.parametrize("state", [{}, {**ORDER, "position": None}])
def test_before_the_first_step_any_order_will_do(state):
    ReadingOrder(**{**ORDER, "seq_len": 99, "uses_cache": False}).check_continues(state)


@pytest.mark.parametrize("order", [ReadingOrder(**ORDER), ExampleOrder(**EXAMPLES)])
def test_a_place_that_counts_something_else_is_refused(order):
    state = {**vars(order), "position": {"epoch": 1, "micro_batch": 5}}
    with pytest.raises(UserError, match=r"earlier version.*init_from"):
        order.check_continues(state)
