import math

import pytest
import torch

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.tasks.logit_rules import (
    divide_by_temperature,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    penalize_repetition,
    seen_tokens,
    writable_tokens,
)

# Two rows: probabilities in an order that is not sorted, and their mirror image.
PROBABILITIES = torch.tensor([[0.1, 0.5, 0.05, 0.3, 0.05], [0.05, 0.3, 0.05, 0.5, 0.1]])
LOGITS = PROBABILITIES.log() + torch.tensor([[3.0], [-2.0]])  # a constant changes no probability
PRUNING = {
    "top_k": lambda logits, value: keep_top_k(logits, int(value)),
    "top_p": keep_top_p,
    "min_p": keep_min_p,
}


def kept(logits):
    return [row.isfinite().nonzero().flatten().tolist() for row in logits]


@pytest.mark.parametrize(
    ("rule", "value", "first_row"),
    [
        ("top_k", 1, [1]),
        ("top_k", 3, [0, 1, 3]),
        ("top_k", 4, [0, 1, 2, 3, 4]),  # the fourth and the fifth are alike
        ("top_k", 99, [0, 1, 2, 3, 4]),
        ("top_p", 1e-300, [1]),
        ("top_p", 1e-9, [1]),
        ("top_p", 0.49, [1]),
        ("top_p", 0.51, [1, 3]),
        ("top_p", 0.79, [1, 3]),
        ("top_p", 0.81, [0, 1, 3]),
        ("top_p", 0.92, [0, 1, 2, 3]),
        ("top_p", 1.0, [0, 1, 2, 3, 4]),
        ("min_p", 1.0, [1]),
        ("min_p", 0.61, [1]),
        ("min_p", 0.59, [1, 3]),
        ("min_p", 0.19, [0, 1, 3]),
        ("min_p", 0.09, [0, 1, 2, 3, 4]),
    ],
)
def test_a_rule_keeps_the_tokens_of_the_hand_computed_set(rule, value, first_row):
    result = PRUNING[rule](LOGITS, value)
    first, second = kept(result)
    assert first == first_row
    mirrored = sorted(4 - token for token in first_row)
    # Of two tokens that are alike the nucleus takes the one that stands first.
    assert second == ([0, 1, 3, 4] if (rule, value) == ("top_p", 0.92) else mirrored)
    torch.testing.assert_close(result[result.isfinite()], LOGITS[result.isfinite()])


def test_the_nucleus_is_the_smallest_set_that_reaches_its_mass():
    logits = 3 * torch.randn(200, 50, generator=torch.Generator().manual_seed(0))
    probabilities = logits.double().softmax(-1)
    for p in (0.1, 0.5, 0.9):
        nucleus = keep_top_p(logits, p).isfinite()
        for row, member in zip(probabilities, nucleus, strict=True):
            inside = row[member]
            assert inside.sum() >= p - 1e-6
            assert inside.sum() - inside.min() < p + 1e-6
            assert inside.min() >= row[~member].max()


@pytest.mark.parametrize("rule", PRUNING)
def test_pruned_rows_keep_a_candidate_however_extreme_the_scores(rule):
    rows = [[0.0] * 4, [1e30, -1e30, 0, 0], [-torch.inf, -5.0, -torch.inf, -torch.inf], [88.0] * 4]
    for value in (1, 1e-12):
        if rule != "top_k" or value == 1:
            result = PRUNING[rule](torch.tensor(rows), value)
            assert result.isfinite().any(dim=-1).all()


def test_temperature_divides_the_scores():
    halved = divide_by_temperature(LOGITS, 2.0).softmax(-1)
    expected = PROBABILITIES.sqrt() / PROBABILITIES.sqrt().sum(-1, keepdim=True)
    torch.testing.assert_close(halved, expected)
    torch.testing.assert_close(divide_by_temperature(LOGITS, 1.0).softmax(-1), PROBABILITIES)


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-300, 1e30])
def test_no_temperature_overflows(temperature):
    probabilities = divide_by_temperature(LOGITS * 100, temperature).softmax(-1)
    assert probabilities.isfinite().all()
    if temperature < 1:
        assert probabilities.argmax(-1).tolist() == [1, 3]
        assert probabilities.amax(-1).tolist() == [1.0, 1.0]


def test_repetition_makes_positive_and_negative_scores_less_likely():
    logits = torch.tensor([[2.0, -2.0, 0.0, 4.0], [2.0, -2.0, 0.0, 4.0]])
    seen = seen_tokens([[0, 1, 1, 2], [3]], 4)
    assert seen.tolist() == [[True, True, True, False], [False, False, False, True]]
    expected = [[2 / 1.25, -2.5, 0.0, 4.0], [2.0, -2.0, 0.0, 3.2]]
    torch.testing.assert_close(penalize_repetition(logits, seen, 1.25), torch.tensor(expected))
    assert penalize_repetition(logits, seen, 1.0).equal(logits)


def test_a_ruled_out_token_stays_out_under_a_penalty():
    logits = torch.tensor([[-math.inf, 1.0]])
    assert penalize_repetition(logits, torch.tensor([[True, True]]), 2.0).tolist() == [
        [-math.inf, 0.5]
    ]


def test_only_pieces_of_text_and_endings_may_be_written():
    tokenizer = train_tokenizer(["abc"], TokenizerRule("char"))
    n_tokens = tokenizer.vocab_size + 5
    writable = writable_tokens(tokenizer, n_tokens, {tokenizer.end_id})
    written = {tokenizer.backend.id_to_token(i) for i in writable.nonzero().flatten().tolist()}
    assert written == {"a", "b", "c", "<|endoftext|>"}
    assert not writable_tokens(tokenizer, n_tokens, ())[tokenizer.end_id]
