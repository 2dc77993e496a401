import math

import pytest
import torch

from pretrain.model import LanguageModelHead, Transformer, TransformerConfig, initialize

D, LAYERS = 128, 3


def initialized(init, **changes):
    torch.manual_seed(0)
    defaults = {"n_layers": LAYERS, "linear_bias": True, "head_bias": True}
    config = TransformerConfig(vocab_size=500, d_model=D, init=init, **{**defaults, **changes})
    transformer = Transformer(config, True)
    head = LanguageModelHead(config, transformer.embeddings.token)
    initialize(transformer, head)
    return transformer, head


def spread(weight):
    return float(weight.detach().std())


@pytest.mark.parametrize(
    ("init", "embedding", "inner", "output", "head"),
    [
        ("normal", 0.02, 0.02, 0.02, 0.02),
        ("scaled_residual", 0.02, 0.02, 0.02 / math.sqrt(2 * LAYERS), 0.02),
        ("zero_output", 1.0, 1 / math.sqrt(D), 0.0, 0.0),
    ],
)
def test_standard_deviations_are_those_of_the_table(init, embedding, inner, output, head):
    transformer, decoder_head = initialized(init)
    close = {"rel": 0.03, "abs": 1e-9}
    assert spread(transformer.embeddings.token.weight) == pytest.approx(embedding, **close)
    for block in transformer.blocks:
        assert spread(block.attention.qkv.weight) == pytest.approx(inner, **close)
        assert spread(block.feed_forward.up.weight) == pytest.approx(inner, **close)
        assert spread(block.attention.output.weight) == pytest.approx(output, **close)
        assert spread(block.feed_forward.down.weight) == pytest.approx(output, **close)
    assert spread(decoder_head.decoder.weight) == pytest.approx(head, **close)
    biases = [p for n, p in transformer.named_parameters() if n.endswith("bias")]
    assert all((bias == 0).all() for bias in [*biases, decoder_head.decoder.bias])


def test_our_scheme_draws_uniformly_within_its_bound():
    transformer, _ = initialized("zero_output")
    weight = transformer.blocks[0].attention.qkv.weight
    assert float(weight.detach().abs().max()) == pytest.approx(math.sqrt(3 / D), rel=0.01)


def test_a_tied_head_keeps_the_embedding():
    transformer, head = initialized("normal", tie_embeddings=True)
    assert spread(head.decoder.weight) == pytest.approx(0.02, rel=0.03)
    assert head.decoder.weight is transformer.embeddings.token.weight


def test_at_the_start_our_model_passes_the_embedding_through():
    transformer, _ = initialized("zero_output")
    ids = torch.randint(0, 500, (1, 7))
    normed = torch.nn.functional.rms_norm(transformer.embeddings.token(ids), (D,), eps=1e-6)
    torch.testing.assert_close(transformer(ids), normed, rtol=1e-4, atol=1e-4)


GROUPED = {"n_heads": 4, "n_kv_heads": 1, "d_ff": 320, "activation": "swiglu"}
"""Queries of 128 rows, keys and values of 32 each, so that they differ in shape."""


def matrices_of(transformer):
    """Every matrix of the first block by its name, q, k and v apart."""
    block = transformer.blocks[0]
    query, key, value = block.attention.qkv.weight.split([D, D // 4, D // 4])
    feed_forward = block.feed_forward
    named = {"gate": feed_forward.gate, "up": feed_forward.up, "down": feed_forward.down}
    return {
        **{name: linear.weight for name, linear in named.items()},
        "query": query,
        "key": key,
        "value": value,
        "output": block.attention.output.weight,
    }


def test_xavier_is_uniform_by_inputs_and_outputs_with_query_key_and_value_apart():
    transformer, head = initialized("xavier", **GROUPED)
    for name, matrix in {**matrices_of(transformer), "head": head.decoder.weight}.items():
        n_out, n_in = matrix.shape
        bound = math.sqrt(6 / (n_in + n_out))
        assert float(matrix.detach().abs().max()) == pytest.approx(bound, rel=0.01), name
        assert spread(matrix) == pytest.approx(math.sqrt(2 / (n_in + n_out)), rel=0.03), name


def test_kaiming_has_twice_the_variance_in_the_feed_forward_layer_only():
    transformer, head = initialized("kaiming", **GROUPED)
    for name, matrix in {**matrices_of(transformer), "head": head.decoder.weight}.items():
        gain = 2 if name in ("gate", "up", "down") else 1
        assert spread(matrix) == pytest.approx(math.sqrt(gain / matrix.shape[1]), rel=0.03), name


def test_kaiming_keeps_the_variance_through_many_relu_layers():
    """He et al. 2015, figure 3: thirty layers deep, neither gone nor exploded."""
    transformer, _ = initialized("kaiming", n_layers=15, activation="relu")
    x = torch.randn(200, D)
    for block in transformer.blocks:
        x = block.feed_forward.down(block.feed_forward.up(x).relu()).relu()
    assert 0.2 < float(x.detach().square().mean()) < 5


def test_orthogonal_matrices_have_singular_values_of_one():
    transformer, head = initialized("orthogonal", **GROUPED)
    for name, matrix in {**matrices_of(transformer), "head": head.decoder.weight}.items():
        values = torch.linalg.svdvals(matrix.detach())
        torch.testing.assert_close(values, torch.ones_like(values), rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.parametrize("init", ["xavier", "kaiming", "orthogonal", "normal", "zero_output"])
def test_embeddings_are_alike_and_a_tied_head_keeps_them(init):
    tied = init != "zero_output"
    transformer, head = initialized(init, position="learned", n_segments=40, tie_embeddings=tied)
    std = 0.02 if tied else 1.0
    embeddings = transformer.embeddings
    for table in (embeddings.token, embeddings.position, embeddings.segment):
        assert spread(table.weight) == pytest.approx(std, rel=0.05)
    assert embeddings.token.weight.detach().std().item() == pytest.approx(
        transformer.config.embedding_std, rel=0.05
    )
    assert (head.decoder.weight is embeddings.token.weight) == tied


@pytest.mark.parametrize("init", ["scaled_residual", "zero_output", "kaiming", "orthogonal"])
def test_every_expert_and_the_router_are_set_like_the_dense_layer(init):
    transformer, _ = initialized(init, n_experts=3, d_ff=256, activation="relu")
    down = {"scaled_residual": 0.02 / math.sqrt(2 * LAYERS), "zero_output": 0.0,
            "kaiming": math.sqrt(2 / 256), "orthogonal": 1 / math.sqrt(256)}  # fmt: skip
    up = {"scaled_residual": 0.02, "zero_output": 1 / math.sqrt(D),
          "kaiming": math.sqrt(2 / D), "orthogonal": 1 / math.sqrt(256)}  # fmt: skip
    router = {"scaled_residual": 0.02}.get(init, 1 / math.sqrt(D))
    mixture = transformer.blocks[1].feed_forward
    assert spread(mixture.router.weight) == pytest.approx(router, rel=0.15)
    for expert in mixture.experts:
        assert spread(expert.up.weight) == pytest.approx(up[init], rel=0.03)
        assert spread(expert.down.weight) == pytest.approx(down[init], rel=0.03, abs=1e-9)
    drawn = [expert.up.weight for expert in mixture.experts]
    assert not torch.equal(drawn[0], drawn[1])


def test_the_heads_transform_is_an_inner_matrix():
    for init, std in (("xavier", 1 / math.sqrt(D)), ("scaled_residual", 0.02)):
        _, head = initialized(init, head_transform=True)
        assert spread(head.transform[0].weight) == pytest.approx(std, rel=0.03)
