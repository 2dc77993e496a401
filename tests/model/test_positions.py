import torch

from pretrain.model.positions import RotaryPositions, rotate


def test_rotated_scores_depend_on_the_distance_only():
    torch.manual_seed(0)
    query, key = torch.randn(8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    rotary = RotaryPositions(8, 10_000.0)

    def score(i, j):
        cos, sin = rotary(torch.tensor([i, j]))
        turned = rotate(torch.stack([query, key]), (cos.double(), sin.double()))
        return turned[0] @ turned[1]

    for distance in (0, 1, 5):
        scores = torch.stack([score(start + distance, start) for start in (0, 3, 50)])
        torch.testing.assert_close(scores, scores[:1].expand(3), rtol=1e-4, atol=1e-4)
    assert not torch.isclose(score(4, 0), score(0, 4))


def test_pairs_turn_by_the_angles_of_the_paper():
    # Dimension pair i of 4 pairs: position * 10000 ** (-i / 4), computed by complex numbers.
    x = torch.randn(6, 8, dtype=torch.float64)
    pairs = torch.complex(x[:, :4], x[:, 4:])
    angles = torch.arange(6.0)[:, None].double() * 10_000.0 ** (-torch.arange(4).double() / 4)
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    expected = torch.cat([turned.real, turned.imag], dim=-1)
    rotation = RotaryPositions(8, 10_000.0)(torch.arange(6))
    torch.testing.assert_close(rotate(x, rotation), expected, rtol=1e-5, atol=1e-5)


def test_angles_stay_exact_in_a_bf16_model():
    rotary = RotaryPositions(8, 10_000.0).to(torch.bfloat16)
    cos, _ = rotary(torch.arange(1000))
    assert cos.dtype == torch.float32
    torch.testing.assert_close(cos[:, 0], torch.arange(1000.0).cos())
