import itertools

import pytest
import torch
import transformers
from writers import make_writer, until, writer_and_peer

from pretrain.tasks import beam_search as module
from pretrain.tasks.beam_search import beam_search, length_penalty
from pretrain.tasks.sampling import Decoding, sample


def sharp_writer(letters):
    """A writer whose scores differ enough for the order of texts to matter."""
    task, tokenizer = make_writer(letters)
    with torch.no_grad():
        task.head.decoder.weight *= 12
    return task, tokenizer


def every_text(task, tokenizer, prompt, n_tokens):
    """(score, ids) of every possible text, judged by full passes; the best first."""
    letters = [i for i in range(tokenizer.vocab_size) if i not in tokenizer.special_ids]
    choices = [*letters, tokenizer.end_id]
    found = []
    for length in range(n_tokens + 1):
        texts = list(itertools.product(letters, repeat=length))
        end = () if length == n_tokens else (tokenizer.end_id,)
        targets = torch.tensor([text + end for text in texts])
        prompts = torch.tensor(prompt).expand(len(texts), -1)
        logits = task(torch.cat([prompts, targets], dim=1))[:, len(prompt) - 1 : -1].double()
        taken = logits.gather(-1, targets[:, :, None]).squeeze(-1)
        totals = (taken - logits[:, :, choices].logsumexp(-1)).sum(-1)
        penalty = ((5 + targets.shape[1]) / 6) ** 0.6
        found += zip((totals / penalty).tolist(), texts, strict=True)
    return sorted(found, reverse=True)


def test_the_length_penalty_is_that_of_the_paper():
    assert length_penalty(1) == 1.0
    assert length_penalty(7) == pytest.approx(2.0**0.6)


def test_a_wide_search_finds_what_an_exhaustive_one_finds():
    task, tokenizer = sharp_writer("abc")
    for prompt in ([3], [4, 3, 3]):
        expected = every_text(task, tokenizer, prompt, 3)[:10]
        found = beam_search(task, prompt, Decoding(n_tokens=3, n_beams=40))[:10]
        assert [hypothesis.row.ids for hypothesis in found] == [ids for _, ids in expected]
        for hypothesis, (score, _) in zip(found, expected, strict=True):
            assert hypothesis.score == pytest.approx(score, abs=1e-4)


def test_one_beam_is_greedy_and_more_beams_find_likelier_texts():
    task, tokenizer = sharp_writer("abcdefghij")
    prompt = tokenizer.encode_prompt("ab")
    *_, (greedy,) = sample(task, [prompt], Decoding(12, temperature=0), [1])
    scores = []
    for n_beams in (1, 8, 64):
        found = beam_search(task, prompt, Decoding(n_tokens=12, n_beams=n_beams))
        assert len(found) == n_beams
        assert sorted((f.score for f in found), reverse=True) == [f.score for f in found]
        assert len({f.row.ids for f in found if not f.row.ended}) <= n_beams
        scores.append(found[0].score)
        if n_beams == 1:
            assert found[0].row.ids == greedy.ids
    assert scores[0] < scores[-1]


def test_texts_equal_those_of_transformers(monkeypatch):
    # Length penalties differ in form; without one the search is the same.
    monkeypatch.setattr(module, "LENGTH_EXPONENT", 0.0)
    task, tokenizer, peer = writer_and_peer(likely_end=0.2)
    n_ended = 0
    for prompt in torch.randint(5, 90, (6, 5), generator=torch.Generator().manual_seed(2)):
        theirs = peer.generate(
            prompt[None],
            attention_mask=torch.ones_like(prompt[None]),
            generation_config=transformers.GenerationConfig(
                max_new_tokens=8, do_sample=False, num_beams=4, length_penalty=0.0,
                num_return_sequences=4, pad_token_id=0, eos_token_id=tokenizer.end_id,
                suppress_tokens=[tokenizer.unk_id],
            ),
        )[:, 5:].tolist()  # fmt: skip
        found = beam_search(task, prompt.tolist(), Decoding(n_tokens=8, n_beams=4))
        for hypothesis, their in zip(found, theirs, strict=True):
            assert list(hypothesis.row.ids) == until(tokenizer.end_id, their)
        n_ended += sum(hypothesis.row.ended for hypothesis in found)
    assert 0 < n_ended < 24


def test_a_text_that_comes_to_a_stop_string_ends_there():
    task, tokenizer = sharp_writer("abcdefghij")
    prompt = tokenizer.encode_prompt("ab")
    (free,) = beam_search(task, prompt, Decoding(n_tokens=12, n_beams=1))
    stop = free.row.text[3:5]
    (stopped,) = beam_search(task, prompt, Decoding(n_tokens=12, n_beams=1, stop=(stop,)))
    assert stopped.row.text == free.row.text[: free.row.text.index(stop)]
    assert stopped.row.ended


def test_a_search_goes_on_when_the_window_is_full():
    task, tokenizer = sharp_writer("abcdefghij")
    task.trained_len = 6
    found = beam_search(task, tokenizer.encode_prompt("abc"), Decoding(n_tokens=20, n_beams=3))
    assert len(found) == 3
    assert max(len(hypothesis.row.ids) for hypothesis in found) <= 20
