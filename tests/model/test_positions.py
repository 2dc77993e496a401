import math

import pytest
import torch

from pretrain.model import Transformer, TransformerConfig, initialize
from pretrain.model.positions import RotaryPositions, alibi_slopes, rotate, sinusoids


def rotary(**options):
    return RotaryPositions(TransformerConfig(d_model=8, n_heads=1, **options))


def score(positions, i, j, seed=0):
    """The score between one query at position i and one key at position j, in float64."""
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64, generator=generator)
    turned_query, _ = rotate(query, key, positions(torch.tensor([i])))
    _, turned_key = rotate(query, key, positions(torch.tensor([j])))
    return (turned_query @ turned_key.mT).item()


@pytest.mark.parametrize(
    "options",
    [{}, {"rotary_factor": 4.0}, {"rotary_factor": 4.0, "rotary_scaling": "ntk"},
     {"position": "xpos"}],
)  # fmt: skip
def test_rotated_scores_depend_on_the_distance_only(options):
    positions = rotary(**options)
    for distance in (0, 1, 5):
        scores = [score(positions, start + distance, start) for start in (0, 3, 50)]
        assert scores == pytest.approx(scores[:1] * 3, rel=1e-4, abs=1e-4)
    assert score(positions, 4, 0) != pytest.approx(score(positions, 0, 4), abs=1e-3)


def angles_of(positions, at):
    return torch.atan2(positions(at).sin.double(), positions(at).cos.double())


def test_pairs_turn_by_the_angles_of_the_paper():
    # Dimension pair i of 4 pairs: position * 10000 ** (-i / 4), computed by complex numbers.
    x = torch.randn(1, 1, 6, 8, dtype=torch.float64)
    pairs = torch.complex(x[..., :4], x[..., 4:])
    angles = torch.arange(6.0)[:, None].double() * 10_000.0 ** (-torch.arange(4).double() / 4)
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    expected = torch.cat([turned.real, turned.imag], dim=-1)
    query, key = rotate(x, x, rotary()(torch.arange(6)))
    torch.testing.assert_close(query, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(key, expected, rtol=1e-5, atol=1e-5)


def test_linear_scaling_reads_a_longer_text_as_if_it_were_short():
    torch.testing.assert_close(
        rotary(rotary_factor=4.0)(torch.tensor([4, 12])).sin, rotary()(torch.tensor([1, 3])).sin
    )


def test_ntk_scaling_keeps_the_fastest_pair_and_stretches_the_slowest_by_the_factor():
    at = torch.tensor([3])
    plain, scaled = rotary(), rotary(rotary_factor=4.0, rotary_scaling="ntk")
    before, after = angles_of(plain, at)[0], angles_of(scaled, at)[0]
    assert after[0] == pytest.approx(before[0].item())
    assert after[-1] == pytest.approx(before[-1].item() / 4)


def test_xpos_scores_of_equal_vectors_fade_with_the_distance_as_in_the_paper():
    positions = rotary(position="xpos")
    ones = torch.ones(1, 1, 1, 8, dtype=torch.float64)
    for i, j in ((700, 0), (900, 388)):
        query, _ = rotate(ones, ones, positions(torch.tensor([i])))
        _, key = rotate(ones, ones, positions(torch.tensor([j])))
        expected = sum(
            2 * ((2 * pair / 8 + 0.4) / 1.4) ** ((i - j) / 512)
            * math.cos((i - j) * 10_000 ** (-2 * pair / 8))
            for pair in range(4)
        )  # fmt: skip
        assert (query @ key.mT).item() == pytest.approx(expected, rel=1e-4)


def test_xpos_is_refused_where_attention_looks_ahead():
    with pytest.raises(ValueError, match="causal models only"):
        Transformer(TransformerConfig(vocab_size=9, position="xpos"), causal=False)


def test_angles_stay_exact_in_a_bf16_model():
    rotation = rotary().to(torch.bfloat16)(torch.arange(1000))
    assert rotation.cos.dtype == torch.float32
    torch.testing.assert_close(rotation.cos[:, 0], torch.arange(1000.0).cos())


def test_sinusoids_have_the_values_of_the_paper():
    table = sinusoids(torch.arange(7), 6)
    for position in range(7):
        for pair in range(3):
            angle = position / 10_000 ** (2 * pair / 6)
            assert table[position, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("offset", [1, 5, 40])
def test_sinusoids_at_an_offset_are_one_fixed_rotation_of_those_before(offset):
    # PE(pos + k) = R_k PE(pos): one matrix, fitted on a quarter of the positions, serves all.
    table = sinusoids(torch.arange(200), 8).double()
    before, after = table[: 200 - offset], table[offset:]
    rotation = torch.linalg.lstsq(before[::4], after[::4]).solution
    torch.testing.assert_close(before @ rotation, after, rtol=1e-4, atol=1e-4)
    identity = torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(rotation @ rotation.mT, identity, rtol=1e-4, atol=1e-4)


def test_alibi_slopes_are_those_of_the_paper():
    # Section 3: for 8 heads 1/2, 1/4, ..., 1/256; for 16 heads 1/2^0.5, 1/2^1, ..., 1/2^8.
    assert alibi_slopes(8).tolist() == [2**-i for i in range(1, 9)]
    assert alibi_slopes(16).tolist() == pytest.approx([2 ** (-i / 2) for i in range(1, 17)])
    # Not a power of two: those of 8 heads, then every other one of 16 heads.
    expected = [2.0**-i for i in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    assert alibi_slopes(12).tolist() == pytest.approx(expected)


def test_sinusoids_come_in_the_size_of_fresh_token_embeddings():
    for init in ("normal", "zero_output"):
        config = TransformerConfig(
            vocab_size=500, d_model=64, position="sinusoidal", embedding_norm=False, init=init
        )
        transformer = Transformer(config, causal=True)
        initialize(transformer)
        ids = torch.arange(400)[None]
        tokens = transformer.embeddings.token(ids)
        both = transformer.embeddings(ids, torch.arange(400), None)
        ratio = (both - tokens).square().mean() / tokens.square().mean()
        assert ratio.item() == pytest.approx(1.0, abs=0.1)


def test_the_scale_of_positions_can_be_set():
    config = TransformerConfig(
        vocab_size=9, d_model=8, n_heads=1, position="sinusoidal", position_scale=1.0,
        embedding_norm=False,
    )  # fmt: skip
    transformer = Transformer(config, causal=True)
    ids = torch.arange(5)[None]
    added = transformer.embeddings(ids, torch.arange(5), None) - transformer.embeddings.token(ids)
    torch.testing.assert_close(added[0], sinusoids(torch.arange(5), 8))
