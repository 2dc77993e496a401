import pytest
import torch

from pretrain.model.resizing import interpolate_positions


def test_the_ends_are_kept_exactly_and_the_middle_lies_between():
    table = torch.tensor([[1.0, -4.0], [3.0, 0.0], [0.1, 0.7]])
    longer = interpolate_positions(table, 5)
    assert torch.equal(longer[::2], table)
    torch.testing.assert_close(longer[1], torch.tensor([2.0, -2.0]))
    torch.testing.assert_close(longer[3], torch.tensor([1.55, 0.35]))


def test_rows_are_those_of_torchs_interpolation():
    table = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
    for new_len in (65, 100, 256):
        longer = interpolate_positions(table, new_len)
        peer = torch.nn.functional.interpolate(
            table.T[None], size=new_len, mode="linear", align_corners=True
        )[0].T
        torch.testing.assert_close(longer, peer, rtol=1e-5, atol=1e-5)
        assert torch.equal(longer[0], table[0])
        assert torch.equal(longer[-1], table[-1])


def test_a_shorter_table_is_cut_and_one_of_the_same_length_stays():
    table = torch.randn(6, 3)
    assert torch.equal(interpolate_positions(table, 4), table[:4])
    assert torch.equal(interpolate_positions(table, 6), table)


def test_one_row_is_repeated_and_the_type_is_kept():
    table = torch.randn(1, 3, dtype=torch.bfloat16)
    assert torch.equal(interpolate_positions(table, 3), table.expand(3, 3))
    with pytest.raises(ValueError, match="new_len is 0"):
        interpolate_positions(table, 0)
