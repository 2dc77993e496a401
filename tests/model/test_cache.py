"""Incremental decoding gives the states of one pass over everything."""

import pytest
import torch

from pretrain.model import KeyValueCache, Transformer, TransformerConfig

SHAPE = {"vocab_size": 31, "d_model": 32, "n_layers": 3, "n_heads": 4, "max_len": 24}
SHAPE |= {"init": "normal"}
SEQ = 20
VARIANTS = {
    "rotary": {},
    "rotary_linear": {"rotary_factor": 4.0},
    "rotary_ntk": {"rotary_factor": 4.0, "rotary_scaling": "ntk"},
    "xpos": {"position": "xpos"},
    "learned": {"position": "learned"},
    "sinusoidal": {"position": "sinusoidal"},
    "alibi": {"position": "alibi"},
    "none": {"position": "none"},
    "grouped_queries": {"n_kv_heads": 2},
    "one_key_head": {"n_kv_heads": 1, "position": "alibi"},
    "sliding_window": {"sliding_window": 6},
    "window_of_one": {"sliding_window": 1, "position": "learned"},
    "parallel_blocks": {"parallel_blocks": True},
    "post_norm": {"norm_position": "post", "norm": "layernorm", "position": "learned"},
    "experts": {"n_experts": 4},
    "all_at_once": {"n_kv_heads": 2, "sliding_window": 7, "position": "alibi"},
}


@pytest.fixture(params=VARIANTS)
def transformer(request):
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(**{**SHAPE, **VARIANTS[request.param]}), causal=True)
    with torch.no_grad():
        for parameter in network.parameters():  # large enough for every rule to matter
            parameter.copy_(0.3 * torch.randn_like(parameter) + (parameter.ndim == 1))
    return network.eval()


def tokens(rows):
    return torch.randint(0, 31, (rows, SEQ), generator=torch.Generator().manual_seed(1))


def in_parts(transformer, ids, sizes, mask=None):
    """States from a cache that reads ``sizes`` tokens at a time."""
    cache, states, start = KeyValueCache(transformer.config.n_layers), [], 0
    for size in sizes:
        stop = start + size
        seen = None if mask is None else mask[:, :stop]
        states.append(transformer(ids[:, start:stop], seen, cache=cache))
        assert cache.length == stop
        start = stop
    return torch.cat(states, dim=1)


@torch.no_grad()
@pytest.mark.parametrize("sizes", [[1] * SEQ, [9] + [1] * 11, [6, 1, 8, 5]], ids=str)
def test_reading_in_parts_equals_reading_at_once(transformer, sizes):
    ids = tokens(2)
    parts = in_parts(transformer, ids, sizes)
    assert float((parts - transformer(ids)).abs().max()) < 1e-5


@torch.no_grad()
def test_rows_padded_on_the_left_equal_rows_alone(transformer):
    ids, lengths = tokens(3), [SEQ, 13, 5]
    mask = torch.arange(SEQ) >= SEQ - torch.tensor(lengths)[:, None]
    together = in_parts(transformer, ids, [SEQ - 4, 1, 1, 1, 1], mask)
    for row, length in enumerate(lengths):
        alone = transformer(ids[row : row + 1, -length:])
        assert float((together[row, -length:] - alone[0]).abs().max()) < 1e-5


@torch.no_grad()
def test_reordered_rows_go_on_as_if_they_had_been_read(transformer):
    ids, order = tokens(3), torch.tensor([2, 0, 2, 1])
    cache = KeyValueCache(transformer.config.n_layers)
    transformer(ids[:, :12], cache=cache)
    cache.reorder(order)
    states = transformer(ids[order, 12:], cache=cache)
    assert float((states - transformer(ids[order])[:, 12:]).abs().max()) < 1e-5


def test_a_cache_holds_one_set_of_heads_for_a_group():
    config = TransformerConfig(**SHAPE, n_kv_heads=2)
    cache = KeyValueCache(config.n_layers)
    Transformer(config, causal=True)(tokens(2), cache=cache)
    assert cache.layers[0].key.shape == (2, 2, SEQ, 8)


def test_learned_positions_end_for_a_cache_too():
    config = TransformerConfig(**SHAPE, position="learned")
    network, cache = Transformer(config, causal=True), KeyValueCache(config.n_layers)
    network(tokens(1), cache=cache)
    network(tokens(1)[:, :4], cache=cache)
    with pytest.raises(ValueError, match="25 tokens is longer than the 24"):
        network(tokens(1)[:, :1], cache=cache)
