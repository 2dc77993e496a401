"""All observers together change nothing, whatever the training is like."""

import pytest
import torch
from tiny import KINDS, ROWS, fit, make_task

from pretrain.diagnostics import (
    SYMPTOMS,
    Alerts,
    ForwardProbe,
    LossLevel,
    StepObserver,
    Throughput,
)


def observers():
    return [ForwardProbe(5), StepObserver(5), LossLevel(5), Alerts(SYMPTOMS), Throughput()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [{}, {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5}, {"precision": "bf16-mixed"}],
)
def test_weights_after_a_hundred_steps_are_bit_equal(kind, options):
    batches = [ROWS[kind]([20, 13, 7])] * 100
    weights = []
    for callbacks in ([], observers()):
        task = make_task(kind, network={"dropout": 0.1, "position": "learned", "max_len": 32})
        torch.manual_seed(3)
        fit(task, batches, callbacks=callbacks, **options)
        weights.append(task.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_activation_checkpointing_hides_no_dead_unit():
    """Blocks whose forward pass runs twice are counted once, since a probe takes no gradient."""
    network = {"d_ff": 16, "linear_bias": True, "activation": "relu"}
    task = make_task("clm", network=network, activation_checkpointing=True)
    for block in task.transformer.blocks:
        up = block.feed_forward.up
        torch.nn.init.zeros_(up.weight)
        torch.nn.init.ones_(up.bias)
        with torch.no_grad():
            up.bias[:3] = -1.0
        up.requires_grad_(False)
    trainer = fit(task, [ROWS["clm"]([9, 6])] * 3, callbacks=[ForwardProbe(1)])
    for layer in range(2):
        assert float(trainer.callback_metrics[f"ffn/dead_share/layer_{layer}"]) == 3 / 16
    # Labels of the last place of each row are ignored, so 8 and 5 tokens are known to be real.
    assert int(trainer.callback_metrics["ffn/dead_window_tokens"]) == 3 * (8 + 5)
