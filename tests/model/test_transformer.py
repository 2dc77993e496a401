import itertools

import pytest
import torch

from pretrain.model import (
    AttentionMask,
    LanguageModelHead,
    Transformer,
    TransformerConfig,
    initialize,
)
from pretrain.model.dropout import Dropout

VOCAB = 31


def build(causal, **changes):
    """A small model with weights that do something: the zero matrices of our own init do not."""
    torch.manual_seed(0)
    options = {"vocab_size": VOCAB, "d_model": 16, "n_layers": 2, "n_heads": 2, "max_len": 16}
    options = {**options, "init": "normal", **changes}
    transformer = Transformer(TransformerConfig(**options), causal)
    initialize(transformer)
    for parameter in transformer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return transformer.eval()


def tokens(batch=2, seq=9):
    return torch.randint(0, VOCAB, (batch, seq), generator=torch.Generator().manual_seed(1))


VARIANTS = [
    dict(zip(("norm", "norm_position", "activation", "position"), values, strict=True))
    for values in itertools.product(
        ("layernorm", "rmsnorm"),
        ("pre", "post"),
        ("relu", "relu2", "gelu", "gelu_tanh", "swiglu"),
        ("learned", "rotary", "alibi", "sinusoidal", "none"),
    )
]


@pytest.mark.parametrize("causal", [True, False])
def test_every_variant_keeps_the_shape_and_has_finite_gradients(causal):
    for variant in VARIANTS:
        gain = variant["norm_position"] == "post"
        bias = gain and variant["norm"] == "layernorm"
        model = build(causal, **variant, norm_gain=gain, norm_bias=bias, linear_bias=bias)
        hidden = model(tokens())
        assert hidden.shape == (2, 9, 16), variant
        hidden.square().sum().backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        assert all(g is None or torch.isfinite(g).all() for g in gradients), variant


@pytest.mark.parametrize(
    "options",
    [
        *({"position": p} for p in ("learned", "rotary", "xpos", "alibi", "sinusoidal", "none")),
        {"norm_position": "post"},
        {"n_kv_heads": 1},
        {"sliding_window": 3},
        {"parallel_blocks": True},
        {"n_experts": 3, "experts_per_token": 2},
    ],
    ids=str,
)
def test_causality_to_the_bit(options):
    model = build(True, **options)
    ids = tokens()
    for t in range(ids.shape[1]):
        changed = ids.clone()
        changed[:, t] = (changed[:, t] + 1) % VOCAB
        before, after = model(ids), model(changed)
        assert torch.equal(before[:, :t], after[:, :t])
        assert not torch.equal(before[:, t], after[:, t])


def test_without_a_causal_mask_every_token_matters_everywhere():
    model = build(False)
    ids = tokens(batch=1)
    changed = ids.clone()
    changed[0, -1] = (changed[0, -1] + 1) % VOCAB
    assert ((model(ids) - model(changed)).abs().amax(-1) > 1e-6).all()


def test_without_positions_a_permutation_of_the_input_permutes_the_output():
    model = build(False, position="none").double()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(2))
    ids = tokens()
    torch.testing.assert_close(model(ids[:, order]), model(ids)[:, order])


@pytest.mark.parametrize("position", ["learned", "rotary", "sinusoidal"])
def test_with_positions_it_does_not(position):
    model = build(False, position=position)
    order = torch.arange(8, -1, -1)
    assert not torch.allclose(model(tokens()[:, order]), model(tokens())[:, order], atol=1e-3)


@pytest.mark.parametrize("causal", [True, False])
def test_padding_changes_no_real_token_of_any_row(causal):
    model = build(causal)
    ids = tokens(batch=3)
    mask = torch.ones(3, 9, dtype=torch.bool)
    mask[1, 6:] = False
    padded = model(ids, mask)
    alone = model(ids[1:2, :6])
    torch.testing.assert_close(padded[1, :6], alone[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(padded[[0, 2]], model(ids)[[0, 2]], rtol=1e-5, atol=1e-5)
    changed = ids.clone()
    changed[1, 6:] = 0
    assert torch.equal(model(changed, mask)[mask], padded[mask])


@pytest.mark.parametrize("position", ["learned", "rotary", "xpos", "alibi", "sinusoidal", "none"])
def test_filler_on_the_left_is_as_good_as_filler_on_the_right(position):
    model = build(True, position=position)
    ids = tokens(batch=1)
    alone = model(ids[:, :6])
    left = torch.cat([ids[:, 6:], ids[:, :6]], dim=1)
    mask = torch.tensor([[False] * 3 + [True] * 6])
    torch.testing.assert_close(model(left, mask)[:, 3:], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_heads_that_share_keys_equal_heads_that_have_equal_keys(norm_position):
    few = build(True, n_heads=4, n_kv_heads=2, norm_position=norm_position)
    many = build(True, n_heads=4, norm_position=norm_position)
    weights = few.state_dict()
    for layer in range(2):
        name = f"blocks.{layer}.attention.qkv.weight"
        query, key, value = weights[name].split((16, 8, 8))
        twice = (part.view(2, 4, 16).repeat_interleave(2, 0).view(16, 16) for part in (key, value))
        weights[name] = torch.cat([query, *twice])
    many.load_state_dict(weights)
    torch.testing.assert_close(few(tokens()), many(tokens()), rtol=1e-5, atol=1e-5)


def test_parallel_blocks_read_one_norm_and_add_both_results():
    model = build(False, parallel_blocks=True, n_layers=1, embedding_norm=False, position="none")
    block, x = model.blocks[0], model.embeddings.token(tokens())
    mask = AttentionMask(9, 9, False, None, x.device)
    normed = block.attention_norm(x)
    expected = x + block.attention(normed, mask, None) + block.feed_forward(normed)
    torch.testing.assert_close(block(x, mask, None), expected)


def test_a_window_as_long_as_the_sequence_changes_nothing():
    ids = tokens()
    for causal in (True, False):
        whole, windowed = build(causal), build(causal, sliding_window=9)
        assert torch.equal(whole(ids), windowed(ids))
        assert not torch.allclose(whole(ids), build(causal, sliding_window=2)(ids))


def test_the_routers_of_all_blocks_pay_together():
    model = build(True, n_experts=3)
    model(tokens())
    expected = sum(float(block.feed_forward.load_balance_loss) for block in model.blocks)
    assert float(model.load_balance_loss()) == pytest.approx(expected)
    assert build(True).load_balance_loss() is None


def test_a_row_of_nothing_but_padding_stays_finite():
    model = build(False)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0] = False
    hidden = model(tokens(), mask)
    hidden.sum().backward()
    assert torch.isfinite(hidden).all()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_learned_positions_end_where_their_table_ends():
    model = build(True, position="learned", max_len=8)
    assert model(tokens(seq=7)).shape[1] == 7
    assert model(tokens(seq=8)).shape[1] == 8
    with pytest.raises(ValueError, match=r"9 tokens .* 8 learned positions"):
        model(tokens(seq=9))


def test_segments_default_to_the_first():
    model = build(False, n_segments=2)
    ids = tokens()
    zeros = torch.zeros_like(ids)
    torch.testing.assert_close(model(ids), model(ids, segment_ids=zeros))
    assert not torch.allclose(model(ids), model(ids, segment_ids=zeros + 1))


def test_dropout_acts_at_its_three_places_in_training_only():
    for places in ({"dropout": 0.5, "attention_dropout": 0.0}, {"attention_dropout": 0.5}):
        model = build(True, **places)
        assert torch.equal(model(tokens()), model(tokens()))
        model.train()
        assert not torch.equal(model(tokens()), model(tokens()))
    model = build(True, dropout=0.25)
    rates = {m.rate for m in model.modules() if isinstance(m, Dropout)}
    assert rates == {0.25}
    assert {block.attention.core.dropout for block in model.blocks} == {0.25}


@pytest.mark.parametrize("tie", [True, False])
def test_a_tied_head_is_the_embedding(tie):
    config = TransformerConfig(vocab_size=VOCAB, d_model=16, tie_embeddings=tie, init="normal")
    transformer = Transformer(config, True)
    head = LanguageModelHead(config, transformer.embeddings.token)
    initialize(transformer, head)
    embedding = transformer.embeddings.token.weight
    assert (head.decoder.weight is embedding) == tie
    assert head(transformer(tokens())).shape == (2, 9, VOCAB)


def test_an_open_vocabulary_cannot_be_built():
    with pytest.raises(ValueError, match="vocab_size is not known"):
        Transformer(TransformerConfig(), True)
