import math

import pytest
import torch

from pretrain.model import LanguageModelHead, Transformer, TransformerConfig, initialize

D, LAYERS = 128, 3


def initialized(init, **changes):
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=500, d_model=D, n_layers=LAYERS, init=init, linear_bias=True, head_bias=True,
        **changes,
    )  # fmt: skip
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
