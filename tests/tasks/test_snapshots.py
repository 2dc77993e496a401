import pytest
import torch
from torch import nn

from pretrain.tasks.snapshots import Snapshots


@pytest.fixture
def trained():
    """A module and its optimizer, and one training step to call."""
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        module(torch.ones(1, 3)).square().sum().backward()
        optimizer.step()

    return module, optimizer, step


def state_of(module, optimizer):
    states = [value for p in module.parameters() for value in optimizer.state[p].values()]
    return [value.clone() for value in (*module.parameters(), *states)]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(("spike", "expected"), [(6, 3), (8, 3), (9, 6), (10, 6), (11, 6)])
def test_the_latest_that_is_old_enough_comes_back_whole(trained, spike, expected):
    module, optimizer, step = trained
    snapshots, after = Snapshots(3), {}
    for number in range(1, spike + 1):
        step()
        after[number] = state_of(module, optimizer)
        if number < spike:
            snapshots.after_step(number, module, optimizer)
    assert snapshots.restore(spike, module, optimizer) == expected
    assert same(state_of(module, optimizer), after[expected])
    step()  # the optimizer goes on from there, with the states that it then had
    assert same(state_of(module, optimizer), after[expected + 1])


def test_where_none_is_old_enough_nothing_changes(trained):
    module, optimizer, step = trained
    snapshots = Snapshots(3)
    for number in range(1, 6):
        step()
        snapshots.after_step(number, module, optimizer)
    before = state_of(module, optimizer)
    assert snapshots.restore(5, module, optimizer) is None
    assert same(state_of(module, optimizer), before)


def test_two_are_kept_however_long_it_goes(trained):
    module, optimizer, step = trained
    snapshots = Snapshots(2)
    step()
    for number in range(1, 10):
        snapshots.after_step(number, module, optimizer)
    assert [one["step"] for one in snapshots.kept] == [6, 8]


def test_what_came_after_is_not_gone_back_to(trained):
    """Step 4 led to the spike in step 5, so the next one goes back behind it once more."""
    module, optimizer, step = trained
    snapshots = Snapshots(2)
    for number in range(1, 5):
        step()
        snapshots.after_step(number, module, optimizer)
    assert snapshots.restore(5, module, optimizer) == 2
    snapshots.after_step(5, module, optimizer)
    assert snapshots.restore(6, module, optimizer) == 2


def test_a_snapshot_is_plain_enough_for_a_checkpoint(trained, tmp_path):
    module, optimizer, step = trained
    step()
    snapshots = Snapshots(1)
    snapshots.after_step(1, module, optimizer)
    torch.save(snapshots.kept, tmp_path / "kept.pt")
    before = state_of(module, optimizer)
    step()
    again = Snapshots(1)
    again.kept = torch.load(tmp_path / "kept.pt", weights_only=True)
    assert again.restore(2, module, optimizer) == 1
    assert same(state_of(module, optimizer), before)
