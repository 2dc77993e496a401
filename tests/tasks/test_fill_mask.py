import pytest
import torch
from tiny import make_task

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError
from pretrain.tasks.fill_mask import fill_masks

TEXT = "abcdefghijklmnopqrstuvwxyz the cat sat on the mat. a dog ran in the sun. "


def masked(**network):
    tokenizer = train_tokenizer([TEXT] * 3, TokenizerRule("wordpiece", 60))
    task = make_task("mlm", network={"vocab_size": tokenizer.vocab_size + 3, **network})
    task.tokenizer_json = tokenizer.to_json()
    return task.eval(), tokenizer


def test_fillings_are_probabilities_of_that_position():
    task, tokenizer = masked()
    text = "the [MASK] sat on the [MASK]."
    both = fill_masks(task, text, top_k=4)
    assert [len(guesses) for guesses in both] == [4, 4]
    ids = [tokenizer.cls_id, *tokenizer.encode_prompt(text), tokenizer.sep_id]
    logits = task(torch.tensor([ids]))[0].detach()
    hole = ids.index(tokenizer.mask_id)
    allowed = [i for i in range(tokenizer.vocab_size) if i not in tokenizer.special_ids]
    expected = logits[hole, allowed].softmax(-1)
    best = both[0][0]
    assert best.probability == pytest.approx(float(expected.max()), rel=1e-4)
    assert best.token == tokenizer.backend.id_to_token(allowed[int(expected.argmax())])
    assert "[MASK]" in best.text  # the other one is still open


def test_a_text_without_a_mask_is_refused():
    with pytest.raises(UserError, match=r"holds no \[MASK\]"):
        fill_masks(masked()[0], "the cat")


def test_a_tokenizer_without_masks_is_refused():
    task = masked()[0]
    task.tokenizer_json = train_tokenizer([TEXT], TokenizerRule("char")).to_json()
    with pytest.raises(UserError, match=r"no \[MASK\]"):
        fill_masks(task, "the [MASK]")


def test_a_text_longer_than_the_learned_positions_is_refused():
    task = masked(position="learned", max_len=8)[0]
    with pytest.raises(UserError, match="has 9 tokens; the model reads 8"):
        fill_masks(task, "[MASK] " * 7)
    assert len(fill_masks(task, "[MASK] " * 6)) == 6
