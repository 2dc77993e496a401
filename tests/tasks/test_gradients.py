"""The gradient follows the mean over the target tokens of the global batch."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tiny import KINDS, ROWS, fit, make_task, one_row

LENGTHS = [11, 101]
RUNNER = Path(__file__).with_name("two_ranks.py")


class KeepGradients(torch.optim.SGD):
    """Moves nothing, and remembers the gradients that it was given."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.0)
        self.kept = None

    def step(self, closure=None):
        loss = closure()
        self.kept = [p.grad.clone() for group in self.param_groups for p in group["params"]]
        return loss


def gradients_of(kind, batches, accumulate=1, **options):
    task = make_task(kind)
    optimizer = KeepGradients(task.parameters())
    task.configure_optimizers = lambda: optimizer
    trainer = fit(task, batches, max_steps=1, accumulate_grad_batches=accumulate, **options)
    return optimizer.kept, trainer.callback_metrics["train/loss"]


def reference(kind, batch):
    """Sum of all losses over the number of targets, from logits of the plain forward pass."""
    task = make_task(kind)
    hidden, labels = task.target_states(batch)
    logits = task.head(hidden)
    loss = F.cross_entropy(logits, labels, ignore_index=-100, reduction="sum")
    loss = loss / (labels != -100).sum()
    loss.backward()
    return [p.grad for p in task.parameters()], loss.detach()


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_one_batch_and_accumulated_rows_give_the_same_gradient(kind):
    batch = ROWS[kind](LENGTHS)
    expected, loss = reference(kind, batch)
    whole, logged = gradients_of(kind, [batch])
    assert_same(whole, expected)
    torch.testing.assert_close(logged, loss, rtol=1e-5, atol=0)
    split, logged = gradients_of(kind, [one_row(batch, 0), one_row(batch, 1)], accumulate=2)
    assert_same(split, expected)
    torch.testing.assert_close(logged, loss, rtol=1e-5, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_partial_window_at_the_end_of_an_epoch_is_not_a_smaller_step(kind):
    batch = ROWS[kind](LENGTHS)
    found, _ = gradients_of(kind, [one_row(batch, 1)], accumulate=3)
    assert_same(found, reference(kind, one_row(batch, 1))[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_without_targets_gives_loss_zero_and_no_gradient(kind):
    nothing = ROWS[kind]([0, 0], seq=8)
    found, logged = gradients_of(kind, [nothing])
    assert float(logged) == 0.0
    assert all((gradient == 0).all() for gradient in found)
    # Beside a batch with targets it changes nothing.
    batch = ROWS[kind]([8, 8], seq=8)
    found, _ = gradients_of(kind, [batch, nothing], accumulate=2)
    assert_same(found, reference(kind, batch)[0])


def test_two_ranks_give_the_gradient_of_one_process(tmp_path):
    subprocess.run([sys.executable, str(RUNNER), str(tmp_path)], check=True, timeout=180)
    for kind in KINDS:
        expected, loss = reference(kind, ROWS[kind](LENGTHS))
        for rank in range(2):
            found = torch.load(tmp_path / f"{kind}_{rank}.pt", weights_only=True)
            assert_same(found["gradients"], expected)
            torch.testing.assert_close(found["loss"], loss, rtol=1e-5, atol=0)
