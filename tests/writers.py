"""Tiny causal models that read and write letters."""

import peers
import torch
from tiny import make_task

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.tasks import CausalLM

TEXT = "abcdefghijklmnopqrstuvwxyz the cat sat on the mat. a dog ran in the sun. "


def make_writer(text=TEXT, **network):
    """A causal task with random weights, its character tokenizer, and filler rows in its table."""
    tokenizer = train_tokenizer([text], TokenizerRule("char"))
    task = make_task("clm", network={"vocab_size": tokenizer.vocab_size + 3, **network})
    task.tokenizer_json = tokenizer.to_json()
    return task.eval(), tokenizer


def writer_and_peer(likely_end):
    """GPT-2 as a task of ours with a tokenizer, and in ``transformers`` with the same weights.

    The end token's embedding is ``likely_end`` times the mean state, so that some texts end.
    """
    alphabet = "".join(chr(ord("!") + n) for n in range(peers.VOCAB - 2))
    tokenizer = train_tokenizer([alphabet], TokenizerRule("char"))
    peer = peers.peer_gpt2().eval()
    with torch.no_grad():
        states = peer.transformer(torch.arange(5, 90)[:, None]).last_hidden_state
        peer.transformer.wte.weight[tokenizer.end_id] = likely_end * states.mean(dim=(0, 1))
    task = CausalLM(peers.gpt2_config())
    task.configure_model()
    task.load_state_dict(peers.weights_of_gpt2(peer), strict=True)
    task.tokenizer_json = tokenizer.to_json()
    return task.eval(), tokenizer, peer


def until(end, ids):
    """``ids`` up to the first ``end``."""
    return ids[: [*ids, end].index(end)]
