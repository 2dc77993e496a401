"""How fast a loader gives batches and a network takes them, each by itself, in a moment."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch

from pretrain.diagnostics.reporting import now

_BUDGET_S = 2.0
_CPU = torch.device("cpu")


def loader_tokens_per_s(loader: Iterable[dict[str, Any]]) -> float:
    """Input tokens per second of a loader, without its first batch, for about two seconds.

    Passes are repeated where one is short. A loader of a single batch counts that one.
    """
    n_tokens, seconds = 0, 0.0
    while seconds < _BUDGET_S:
        start, n_before = now(_CPU), n_tokens
        for number, batch in enumerate(loader):
            if number == 0 and n_tokens == 0:  # pays for the start of the workers
                first, start = batch["input_ids"].numel(), now(_CPU)
                continue
            n_tokens += batch["input_ids"].numel()
            if seconds + now(_CPU) - start > _BUDGET_S:
                break
        seconds += max(now(_CPU) - start, 1e-9)
        if n_tokens == n_before:
            return first / seconds
    return n_tokens / seconds


def training_tokens_per_s(
    module: Any, batch: dict[str, Any], optimizer: Any, autocast: torch.dtype | None = None
) -> float:
    """Input tokens per second of training steps on one batch, without the first one.

    Args:
        module: A task whose network is built and on its device.
        batch: A micro-batch on the same device.
        optimizer: Of the module's parameters.
        autocast: What matrix products are computed in under mixed precision.
    """
    device = next(module.parameters()).device
    context = partial(torch.autocast, device.type, autocast, enabled=autocast is not None)
    module.train()
    seconds, n_steps = 0.0, -1
    while n_steps < 1 or seconds < _BUDGET_S:
        start = now(device)
        with context():
            sums = module.losses(batch)
        optimizer.zero_grad()
        (sums.objective / sums.n_targets.clamp(min=1)).backward()
        optimizer.step()
        n_steps += 1
        if n_steps:  # the first one pays for memory and kernels
            seconds += now(device) - start
    return n_steps * batch["input_ids"].numel() / seconds
