import pytest
import torch

from pretrain.diagnostics import StepObserver


class FixedGradient:
    """Mixed into a task: every parameter's gradient is a constant."""

    def on_after_backward(self):
        for parameter in self.parameters():
            parameter.grad = torch.full_like(parameter, 0.5)


def norm_of_fixed_gradient(task):
    return 0.5 * sum(p.numel() for p in task.parameters()) ** 0.5


@pytest.mark.parametrize("options", [{}, {"gradient_clip_val": 1e-3}])
def test_the_norm_is_that_of_all_gradients_before_clipping(tiny_task, fit, options):
    task = type("Task", (FixedGradient, tiny_task), {})()
    recorder = fit(task, [StepObserver()], 2, **options)
    expected = pytest.approx(norm_of_fixed_gradient(task), rel=1e-5)
    assert recorder.series("grad/norm") == {1: expected, 2: expected}


def test_it_keeps_the_log_rhythm_and_computes_nothing_between(tiny_task, fit, monkeypatch):
    calls = []
    original = torch.nn.utils.get_total_norm
    monkeypatch.setattr(
        torch.nn.utils, "get_total_norm", lambda grads: calls.append(1) or original(grads)
    )
    recorder = fit(tiny_task(), [StepObserver(every_n_steps=6)], 7, log_every_n_steps=3)
    assert sorted(recorder.series("grad/norm")) == [3, 6]
    assert sorted(recorder.series("grad/norm/layer_0")) == [1, 6]
    n_parts = 4  # embeddings, two layers, head; each read before the step and after it
    assert len(calls) == 2 + 2 * 3 * n_parts


def test_accumulated_gradients_are_read_once_and_whole(tiny_task, fit, token_blocks):
    """Equal micro-batches: the mean over two of 4 rows is the mean over one of 8."""
    rows = token_blocks(16)
    whole = fit(tiny_task(), [StepObserver()], 2, dataset=rows, batch_size=8)
    halves = fit(
        tiny_task(), [StepObserver()], 2, dataset=rows, batch_size=4, accumulate_grad_batches=2
    )
    assert sorted(halves.steps) == [1, 2]
    assert halves.series("grad/norm")[1] == pytest.approx(whole.series("grad/norm")[1], rel=1e-5)


def test_a_log_rhythm_of_zero_logs_nothing(tiny_task, fit):
    recorder = fit(tiny_task(), [StepObserver()], 2, log_every_n_steps=0)
    assert not recorder.series("grad/norm")
