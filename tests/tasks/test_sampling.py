import pytest
import torch
import transformers
from writers import make_writer, until, writer_and_peer

from pretrain.errors import UserError
from pretrain.tasks.sampling import Decoding, sample

GREEDY = Decoding(n_tokens=12, temperature=0)


def written(task, prompts, decoding, seeds=None):
    """The token ids after each prompt."""
    *_, rows = sample(task, prompts, decoding, seeds or [1] * len(prompts))
    return [list(row.ids) for row in rows]


def without_cache(task, tokenizer, prompt, n_tokens, penalty=1.0):
    """Greedy decoding, each token from a pass over the whole text."""
    ids = list(prompt)
    for _ in range(n_tokens):
        filler = [0] * (32 - len(ids))  # invisible from the left; one length is one kernel
        logits = task(torch.tensor([ids + filler]))[0, len(ids) - 1].detach()
        for token in set(ids):
            logits[token] *= penalty if logits[token] < 0 else 1 / penalty
        logits[tokenizer.vocab_size :] = -torch.inf
        logits[[i for i in tokenizer.special_ids if i != tokenizer.end_id]] = -torch.inf
        token = int(logits.argmax())
        if token == tokenizer.end_id:
            break
        ids.append(token)
    return ids[len(prompt) :]


@pytest.mark.parametrize("position", ["rotary", "learned", "alibi"])
def test_greedy_takes_the_likeliest_token_of_the_full_pass(position):
    task, tokenizer = make_writer(position=position)
    prompts = [tokenizer.encode_prompt(text) for text in ("the ", "a", "the dog ran in")]
    expected = [without_cache(task, tokenizer, prompt, 12) for prompt in prompts]
    assert written(task, prompts, GREEDY) == expected
    penalized = Decoding(n_tokens=12, temperature=0, repetition_penalty=1.5)
    repeated = written(task, prompts, penalized)
    assert repeated == [without_cache(task, tokenizer, prompt, 12, 1.5) for prompt in prompts]
    assert repeated != expected


def test_a_text_does_not_depend_on_the_others_in_its_batch():
    task, tokenizer = make_writer()
    task.trained_len = 16  # so that windows fill at different steps
    prompts = [tokenizer.encode_prompt(text) for text in ("the cat sat on", "a", "dog ran")]
    seeds = [3, 1, 4]
    for decoding in (
        Decoding(n_tokens=30, temperature=0),
        Decoding(n_tokens=30, temperature=1.3, top_k=20, top_p=0.95, repetition_penalty=1.1),
    ):
        together = written(task, prompts, decoding, seeds)
        for row, prompt in enumerate(prompts):
            alone = written(task, [prompt], decoding, [seeds[row]])
            assert together[row] == alone[0]


def test_drawing_follows_the_seed_of_each_row():
    task, _ = make_writer()
    decoding = Decoding(n_tokens=30)
    first, second, third = written(task, [[5]] * 3, decoding, [1, 2, 1])
    assert first == third != second
    assert first == written(task, [[5]], decoding, [1])[0]


def test_neither_filler_nor_special_tokens_are_drawn():
    task, tokenizer = make_writer()
    with torch.no_grad():  # make the rows that only round the table up very likely
        task.head.decoder.weight[tokenizer.vocab_size :] *= 100
    allowed = set(range(tokenizer.vocab_size)) - set(tokenizer.special_ids)
    for row in written(task, [[5]] * 8, Decoding(n_tokens=40), range(8)):
        assert set(row) <= allowed


def test_tokens_are_drawn_as_often_as_their_probability_says():
    task, tokenizer = make_writer("abcdef")
    with torch.no_grad():
        task.head.decoder.weight *= 20
        logits = task(torch.tensor([[5]]))[0, -1]
    allowed = [i for i in range(tokenizer.vocab_size) if i not in tokenizer.special_ids]
    allowed.append(tokenizer.end_id)
    expected = torch.zeros(len(logits))
    expected[allowed] = logits[allowed].softmax(-1)
    n = 2000
    drawn = written(task, [[5]] * n, Decoding(n_tokens=1), range(n))
    tokens = torch.tensor([row[0] if row else tokenizer.end_id for row in drawn])
    shares = tokens.bincount(minlength=len(logits)) / n
    assert ((shares - expected).abs() <= 4 * (expected * (1 - expected) / n).sqrt() + 1e-9).all()


@pytest.mark.parametrize("penalty", [1.0, 1.7])
def test_greedy_texts_equal_those_of_transformers(penalty):
    task, tokenizer, peer = writer_and_peer(likely_end=0.3)
    prompts = torch.randint(5, 90, (6, 4), generator=torch.Generator().manual_seed(2))
    theirs = peer.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        generation_config=transformers.GenerationConfig(
            max_new_tokens=18, do_sample=False, repetition_penalty=penalty, pad_token_id=0,
            eos_token_id=tokenizer.end_id, suppress_tokens=[tokenizer.unk_id],
        ),
    )[:, 4:].tolist()  # fmt: skip
    decoding = Decoding(n_tokens=18, temperature=0, repetition_penalty=penalty)
    ours = written(task, prompts.tolist(), decoding)
    assert ours == [until(tokenizer.end_id, their) for their in theirs]
    assert len(set(map(len, ours))) > 1  # some texts ended early


def scripted(texts, end_at=None):
    """A task that writes ``texts[row]`` letter by letter, and then end tokens."""
    task, tokenizer = make_writer()
    n_tokens = task.head.decoder.out_features
    scripts = [[*tokenizer.encode_prompt(text), tokenizer.end_id] for text in texts]
    step = iter(range(1000))

    def scores(_):
        n = next(step)
        logits = torch.zeros(len(texts), n_tokens)
        for row, script in enumerate(scripts):
            logits[row, script[min(n, len(script) - 1)]] = 9.0
        return logits

    task.head.forward = scores
    return task, tokenizer


def test_each_row_ends_at_its_own_end_token_and_the_text_with_the_last():
    task, _ = scripted(["cat", "", "horse"])
    steps = list(sample(task, [[5], [6, 7], [8]], Decoding(20, temperature=0), [1, 1, 1]))
    assert [row.text for row in steps[-1]] == ["cat", "", "horse"]
    assert all(row.ended for row in steps[-1])
    assert len(steps) == len("horse") + 1
    assert [row.text for row in steps[1]] == ["ca", "", "ho"]


def test_stop_strings_and_stop_tokens_end_a_row_and_are_no_part_of_it():
    task, tokenizer = scripted(["the cat sat", "the dog ran", "a cart"])
    (dot,) = tokenizer.encode_prompt("g")
    decoding = Decoding(20, temperature=0, stop=("at", "art", "never"), stop_tokens=(dot,))
    *_, rows = sample(task, [[5]] * 3, decoding, [1, 1, 1])
    assert [row.text for row in rows] == ["the c", "the do", "a c"]
    assert all(row.ended for row in rows)


def test_the_model_reads_no_more_than_it_was_trained_on():
    for trained_len, network in ((7, {}), (None, {"position": "learned", "max_len": 7})):
        task, _ = make_writer(**network)
        task.trained_len = trained_len
        n_keys = []
        task.transformer.blocks[0].attention.core.register_forward_pre_hook(
            lambda _, args, n_keys=n_keys: n_keys.append(args[1].shape[2])
        )
        lengths = [len(row) for row in written(task, [[5] * 4, [5] * 30], Decoding(30))]
        assert max(lengths) == 30
        assert max(n_keys) == 7


def test_a_full_window_goes_on_with_its_last_half():
    task, tokenizer = make_writer()
    task.trained_len = 8
    ids = tokenizer.encode_prompt("the c")
    start = 0
    for token in written(task, [ids], Decoding(n_tokens=30, temperature=0))[0]:
        if len(ids) - start > 8:
            start = len(ids) - 4
        assert token == without_cache(task, tokenizer, ids[start:], 1)[0]
        ids.append(token)
    assert start > 8


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"n_tokens": 0}, "n_tokens is 0"),
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": 0}, "top_k is 0"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.1}, "top_p is 1.1"),
        ({"min_p": -1.0}, "min_p is -1.0"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
        ({"n_beams": 0}, "n_beams is 0"),
        ({"n_beams": 2, "temperature": 0.7}, "leave out temperature"),
        ({"n_beams": 2, "top_k": 3}, "leave out temperature, top_k"),
        ({"stop": ("a", "")}, "stop string is empty"),
    ],
)
def test_values_without_sense_are_refused_in_one_sentence(values, words):
    with pytest.raises(UserError, match=words) as error:
        Decoding(**values)
    assert str(error.value).count(". ") == 0


def test_a_model_that_computes_nan_is_told_in_one_sentence():
    task, _ = make_writer()
    with torch.no_grad():
        task.head.decoder.weight.fill_(torch.nan)
    with pytest.raises(UserError, match="diverged"):
        written(task, [[5]], GREEDY)


def test_a_compiled_network_is_not_compiled_for_every_length():
    def refuse(*_):
        raise AssertionError("compiled")

    task, _ = make_writer()
    expected = written(task, [[5]], GREEDY)
    task.transformer.compile(backend=refuse)
    assert written(task, [[5]], GREEDY) == expected


def test_a_checkpoint_without_a_tokenizer_writes_no_text():
    task, _ = make_writer()
    task.tokenizer_json = None
    with pytest.raises(UserError, match="no tokenizer"):
        written(task, [[5]], GREEDY)
