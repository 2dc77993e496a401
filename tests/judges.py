"""Tiny language models that judge texts, and the plainest way to ask them."""

import torch
from tiny import make_task

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer

TEXT = "abcdefghijklmnopqrstuvwxyz the cat sat on the mat. a dog ran in the sun. "
SENTENCES = [
    "the cat sat on the mat.",
    "a dog ran.",
    "the dog sat in the sun.",
    "cat",
    "the mat ran on the cat, on the dog.",
    "a dog ran.",
]


def make_judge(kind, rule=None, **network):
    """A "clm" or "mlm" task with random weights, its tokenizer, and filler rows in its table."""
    rule = rule or (TokenizerRule("wordpiece", 60) if kind == "mlm" else TokenizerRule("bpe", 300))
    tokenizer = train_tokenizer([TEXT] * 3, rule)
    task = make_task(kind, network={"vocab_size": tokenizer.vocab_size + 3, **network})
    task.tokenizer_json = tokenizer.to_json()
    return task.eval(), tokenizer


def ids_of(tokenizer, text):
    return tokenizer.encode_documents([text])[0].tolist()


@torch.no_grad()
def log_softmax(task, row):
    """Of one row alone, ``(length, vocab)`` in float64."""
    return task(torch.tensor([row]))[0].double().log_softmax(-1)


def slow_causal(task, row, first):
    """Log-probabilities of the tokens of ``row`` from ``first`` on."""
    table = log_softmax(task, row[:-1])
    return [float(table[place - 1, row[place]]) for place in range(first, len(row))]


def slow_masked(task, tokenizer, row, first, last, hides_rest=False):
    """The same for a masked model, one mask (or all to the right of it) at a time."""
    found = []
    for place in range(first, last):
        hidden = list(row)
        for masked in range(place, last if hides_rest else place + 1):
            hidden[masked] = tokenizer.mask_id
        found.append(float(log_softmax(task, hidden)[place, row[place]]))
    return found
