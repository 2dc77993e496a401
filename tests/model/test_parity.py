"""The block stack against ``transformers`` on the same weights, in float32."""

import peers
import pytest
import torch

from pretrain.model import LanguageModelHead, Transformer

PAIRS = {
    "bert": (peers.bert_config, peers.peer_bert, peers.weights_of_bert, False),
    "gpt2": (peers.gpt2_config, peers.peer_gpt2, peers.weights_of_gpt2, True),
}


@pytest.fixture(params=PAIRS)
def pair(request):
    """(our transformer and head, the peer), with equal weights."""
    make_config, make_peer, weights_of, causal = PAIRS[request.param]
    peer = make_peer().eval()
    config = make_config()
    transformer = Transformer(config, causal)
    ours = torch.nn.ModuleDict(
        {
            "transformer": transformer,
            "head": LanguageModelHead(config, transformer.embeddings.token),
        }
    )
    ours.load_state_dict(weights_of(peer), strict=True)
    return ours.eval(), peer


def padded_batch():
    ids = torch.randint(0, peers.VOCAB, (3, 20), generator=torch.Generator().manual_seed(5))
    mask = torch.ones(3, 20, dtype=torch.bool)
    mask[1, 13:] = False
    return ids, mask


def test_hidden_states_and_logits_agree_on_a_padded_batch(pair):
    ours, peer = pair
    ids, mask = padded_batch()
    with torch.no_grad():
        theirs = peer(ids, attention_mask=mask.long(), output_hidden_states=True)
        hidden = ours["transformer"](ids, mask)
        logits = ours["head"](hidden)
    assert float((hidden - theirs.hidden_states[-1])[mask].abs().max()) < 1e-5
    assert float((logits - theirs.logits)[mask].abs().max()) < 1e-5


def test_gradients_agree(pair):
    ours, peer = pair
    ids, mask = padded_batch()
    peer(ids, attention_mask=mask.long()).logits[mask].square().mean().backward()
    ours["head"](ours["transformer"](ids, mask))[mask].square().mean().backward()
    here = ours["transformer"].embeddings.token.weight.grad
    there = peer.get_input_embeddings().weight.grad
    assert float((here - there).abs().max()) < 1e-4
