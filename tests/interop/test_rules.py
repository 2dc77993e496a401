import pytest
import torch

from pretrain.interop.rules import (
    SAME,
    TRANSPOSED,
    Copied,
    Filler,
    HeadRows,
    Rule,
    names,
    to_ours,
    to_theirs,
)

LAYOUTS = {
    "same": (SAME, 1, (6, 5)),
    "transposed": (TRANSPOSED, 1, (6, 5)),
    "copied": (Copied(2), 2, (6,)),
    "rows": (HeadRows((8, 4, 4)), 3, (16, 5)),
    "rows of a bias": (HeadRows((8, 4, 4), 4), 3, (16,)),
    "swapped rows": (HeadRows((8, 4, 4), 4), 3, (16, 5)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_there_and_back_again(name):
    layout, n_theirs, shape = LAYOUTS[name]
    ours = torch.randn(shape)
    rules = [Rule("ours", tuple("abc"[:n_theirs]), layout), Filler("d", (3,), 1.0)]
    theirs = to_theirs(rules, {"ours": ours})
    assert set(theirs) == names(rules)
    assert torch.equal(to_ours(rules, theirs)["ours"], ours)
    assert torch.equal(theirs["d"], torch.ones(3))


def test_what_is_exported_shares_no_memory_and_is_float32():
    ours = torch.randn(4, 3, dtype=torch.bfloat16)
    theirs = to_theirs([Rule("ours", ("a", "b"), Copied(2))], {"ours": ours})
    assert {tensor.dtype for tensor in theirs.values()} == {torch.float32}
    theirs["a"].zero_()
    assert torch.equal(theirs["b"], ours.float())


def test_a_turn_the_other_way_is_a_turn_of_the_swapped_halves():
    # As complex numbers: pair i of a head is x[i] + j x[i + half], turned by exp(j angle).
    head = torch.randn(8, dtype=torch.float64)
    angles = torch.randn(4, dtype=torch.float64)

    def turned(x, angle):
        pairs = torch.complex(x[:4], x[4:]) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat((pairs.real, pairs.imag))

    query, _, value = HeadRows((8, 8, 8), 8).split(torch.cat((head, head, head)))
    assert torch.equal(value, head)
    back = turned(query, -angles)
    torch.testing.assert_close(torch.cat((back[4:], back[:4])), turned(head, angles))
