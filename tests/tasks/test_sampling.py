import pytest
import torch
from tiny import make_task

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError
from pretrain.tasks.sampling import continue_ids, fill_masks

TEXT = "abcdefghijklmnopqrstuvwxyz the cat sat on the mat. a dog ran in the sun. "


def causal(**network):
    tokenizer = train_tokenizer([TEXT], TokenizerRule("char"))
    task = make_task("clm", network={"vocab_size": tokenizer.vocab_size + 3, **network})
    task.tokenizer_json = tokenizer.to_json()
    return task.eval(), tokenizer


def masked():
    tokenizer = train_tokenizer([TEXT] * 3, TokenizerRule("wordpiece", 60))
    task = make_task("mlm", network={"vocab_size": tokenizer.vocab_size + 3})
    task.tokenizer_json = tokenizer.to_json()
    return task.eval(), tokenizer


def test_greedy_takes_the_likeliest_token_of_the_full_pass():
    task, tokenizer = causal()
    prompt = tokenizer.encode_prompt("the ")
    drawn = list(continue_ids(task, prompt, 5, temperature=0))
    ids = list(prompt)
    for token in drawn:
        logits = task(torch.tensor([ids]))[0, -1, : tokenizer.vocab_size]
        logits[[i for i in tokenizer.special_ids if i != tokenizer.end_id]] = -torch.inf
        assert token == int(logits.argmax())
        ids.append(token)


def test_drawing_follows_the_seed_and_never_takes_filler_or_special_tokens():
    task, tokenizer = causal()
    with torch.no_grad():  # make the rows that only round the table up very likely
        task.head.decoder.weight[tokenizer.vocab_size :] *= 100

    def draw(seed):
        generator = torch.Generator().manual_seed(seed)
        return list(continue_ids(task, [5], 40, 1.0, None, generator))

    assert draw(1) == draw(1) != draw(2)
    forbidden = {*tokenizer.special_ids, *range(tokenizer.vocab_size, tokenizer.vocab_size + 3)}
    assert not forbidden & {*draw(1), *draw(2)}


def test_the_end_token_ends_the_text():
    task, tokenizer = causal()
    with torch.no_grad():
        task.head.decoder.weight.zero_()
        task.head.decoder.weight[tokenizer.end_id] = 1.0
        task.transformer.final_norm = torch.nn.Identity()
        task.transformer.forward = lambda ids: torch.ones(*ids.shape, 16)
    assert list(continue_ids(task, [5], 10, temperature=0)) == []


@pytest.mark.parametrize(
    ("trained_len", "network"), [(7, {}), (None, {"position": "learned", "max_len": 7})]
)
def test_the_model_reads_no_more_than_it_was_trained_on(trained_len, network):
    task, _ = causal(**network)
    task.trained_len = trained_len
    lengths = []
    task.transformer.register_forward_pre_hook(lambda _, args: lengths.append(args[0].shape[1]))
    list(continue_ids(task, [5] * 4, 30))
    assert max(lengths) == 7


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
    with pytest.raises(UserError, match=r"no \[MASK\]"):
        fill_masks(causal()[0], "the [MASK]")
