import pytest
import torch
from tiny import VOCAB, make_task

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError
from pretrain.tasks.predicted_tokens import expectations

IDS = [5, 9, 2, 9]


def test_a_causal_model_expects_each_token_from_those_before_it():
    task = make_task("clm").eval()
    found = expectations(task, IDS, task.transformer(torch.tensor([IDS]))[0], top_k=3)
    assert [one.token for one in found] == [*IDS, None]
    assert found[0].surprisal is None
    assert found[0].guesses == ()
    for place in range(1, len(IDS) + 1):
        p = task(torch.tensor([IDS[:place]]))[0, -1].softmax(-1)
        assert [token for token, _ in found[place].guesses] == p.topk(3).indices.tolist()
        assert sum(share for _, share in found[place].guesses) <= 1
        if place < len(IDS):
            assert found[place].surprisal == pytest.approx(-p[IDS[place]].log().item(), abs=1e-5)
    assert found[-1].surprisal is None


def test_a_masked_model_is_asked_for_each_token_without_seeing_it():
    tokenizer = train_tokenizer(["the cat sat on the mat."] * 3, TokenizerRule("wordpiece", 40))
    task = make_task("mlm", network={"vocab_size": tokenizer.vocab_size}).eval()
    task.tokenizer_json = tokenizer.to_json()
    mask = tokenizer.mask_id
    ids = [tokenizer.cls_id, 10, mask, 12, tokenizer.sep_id]
    found = expectations(task, ids, torch.empty(0))
    assert [one.token for one in found] == ids
    assert found[0].guesses == found[-1].guesses == ()
    assert found[2].surprisal is None
    assert found[2].guesses
    p = task(torch.tensor([[ids[0], mask, mask, 12, ids[-1]]]))[0, 1].softmax(-1)
    assert found[1].surprisal == pytest.approx(-p[10].log().item(), abs=1e-5)
    assert found[1].guesses[0][1] == pytest.approx(p.max().item(), abs=1e-6)


def test_a_model_that_computes_nan_is_named():
    task = make_task("clm")
    with pytest.raises(UserError, match="diverged"):
        expectations(task, IDS, torch.full((len(IDS), 16), torch.nan))
    assert max(IDS) < VOCAB
