"""Muon for the matrices and AdamW for the rest, in one optimizer.

Two optimizers would force Lightning's manual optimization, which loses accumulation and clipping.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard
from torch.optim import AdamW, Optimizer

from pretrain.hardware import multiplies_bf16_fast

# Coefficients of the quintic iteration and its number of steps: Jordan et al. 2024,
# "Muon: An optimizer for hidden layers in neural networks".
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


@dataclass(frozen=True)
class OptimizerConfig:
    """How weights are updated; the default is our modern recipe's.

    The module's ``lr`` is the rate of the blocks' matrices; the other rates are ratios to it, so
    that one number scales all.

    Attributes:
        matrices: ``muon`` or ``adamw``, for the 2-D weights inside the blocks.
        embedding_lr_ratio: Rate of all embeddings, relative to ``lr``.
        head_lr_ratio: Rate of the head and of every gain and bias, relative to ``lr``.
        betas: AdamW's decay rates of the two moments.
        eps: AdamW's epsilon.
        momentum: Muon's (Nesterov) momentum.
        weight_decay: Decoupled decay of every 2-D weight, embeddings included; gains and biases
            never decay.
    """

    matrices: Literal["muon", "adamw"] = "muon"
    embedding_lr_ratio: float = 1.0
    head_lr_ratio: float = 0.2
    betas: tuple[float, float] = (0.8, 0.95)
    eps: float = 1e-8
    momentum: float = 0.95
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if not all(0 <= beta < 1 for beta in (*self.betas, self.momentum)):
            raise ValueError(f"betas {self.betas} and momentum {self.momentum} lie in [0, 1).")
        if self.eps <= 0 or self.weight_decay < 0:
            raise ValueError(
                f"eps ({self.eps}) must be greater than 0 and weight_decay ({self.weight_decay}) "
                "at least 0."
            )


class MuonAdamW(Optimizer):
    """One optimizer whose groups choose ``algorithm: muon`` or ``algorithm: adamw``.

    A group's rate is its ``lr * lr_ratio``: schedulers and the learning-rate finder move ``lr``,
    the same number in every group. AdamW is torch's fused one, working on the same groups and
    states. It declares no support for scaled gradients, so that a gradient scaler unscales them
    before anything clips or observes them.

    Args:
        groups: Parameter groups, each with ``params, algorithm, lr, lr_ratio, weight_decay`` and
            ``betas, eps`` or ``momentum``.

    Attributes:
        gate: Whether the next step may change anything, a scalar bool on the parameters' device;
            None is yes. Where it is False, weights and states stay as they are, and the host need
            not know. It holds for one step.
        is_updating: Whether a step has begun and not come to its end: weights may be in between.
    """

    def __init__(self, groups: Iterable[dict[str, Any]]) -> None:
        super().__init__(groups, {})
        self.gate: Tensor | None = None
        self.is_updating = False
        self._wire()

    def _wire(self) -> None:
        groups = [group for group in self.param_groups if group["algorithm"] == "adamw"]
        self._adamw = AdamW(groups, fused=True) if groups else None
        if self._adamw is not None:
            self._adamw.state = self.state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # load_state_dict replaces groups and states: AdamW must see the new ones.
        super().__setstate__(state)
        self._wire()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; returns the closure's loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        gate, self.gate = self.gate, None  # set by hooks of the closure
        self.is_updating = True
        for group in self.param_groups:
            if group["algorithm"] == "muon":
                self._muon_step(group, gate)
        if self._adamw is not None:
            self._adamw_step(self._adamw, gate)
        self.is_updating = False
        return loss

    @staticmethod
    def _adamw_step(adamw: AdamW, gate: Tensor | None) -> None:
        # What torch's gradient scaler sets where a gradient is infinite: the fused kernel does
        # nothing then, on the device.
        adamw.found_inf = None if gate is None else (~gate).float()  # type: ignore[attr-defined]
        shared = [group["lr"] for group in adamw.param_groups]
        for group in adamw.param_groups:
            group["lr"] = group["lr"] * group["lr_ratio"]
        adamw.step()
        for group, lr in zip(adamw.param_groups, shared, strict=True):
            group["lr"] = lr

    def _muon_step(self, group: dict[str, Any], gate: Tensor | None) -> None:
        lr: float | Tensor = group["lr"] * group["lr_ratio"]
        if gate is not None:
            lr = lr * gate
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for weight in group["params"]:
            if weight.grad is not None:
                ahead = self._look_ahead(weight, weight.grad, group["momentum"], gate)
                by_shape[weight.shape].append((weight, ahead))
        for (rows, columns), pairs in by_shape.items():
            # Matrices of one shape are orthogonalised together: fewer and larger products.
            updates = _orthogonalized(torch.stack([ahead for _, ahead in pairs]))
            rate = lr * math.sqrt(max(1, rows / columns))
            for (weight, _), update in zip(pairs, updates, strict=True):
                weight.mul_(1 - lr * group["weight_decay"]).sub_(rate * update.to(weight.dtype))

    def _look_ahead(
        self, weight: Tensor, gradient: Tensor, momentum: float, gate: Tensor | None
    ) -> Tensor:
        """Update the running gradient of ``weight``; return it one Nesterov step ahead."""
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        buffer = state["momentum_buffer"]
        if gate is not None:  # moving towards itself, a buffer stays as it is
            gradient = torch.where(gate, gradient, buffer)
        buffer.lerp_(gradient, 1 - momentum)
        return gradient.lerp(buffer, momentum)


def _orthogonalized(matrices: Tensor) -> Tensor:
    """``orthogonalize(matrices)``, sharded as they are where they are sharded."""
    if not isinstance(matrices, DTensor):
        return orthogonalize(matrices)
    # Each rank gets some of the matrices whole, instead of a part of each, and works on those.
    mesh, dealt = matrices.device_mesh, [Shard(0)]
    own = matrices.redistribute(placements=dealt).to_local()
    done = DTensor.from_local(
        orthogonalize(own), mesh, dealt, shape=matrices.shape, stride=matrices.stride()
    )
    return done.redistribute(placements=matrices.placements)


def orthogonalize(matrices: Tensor) -> Tensor:
    """Push every singular value of ``matrices`` ``(n, rows, columns)`` towards 1.

    Five Newton-Schulz steps, in bf16 where the device multiplies it fast and else in float32:
    torch's own Muon always takes bf16, which some processors do a hundred times slower.
    """
    fast_bf16 = multiplies_bf16_fast(matrices.device)
    x = matrices.to(torch.bfloat16 if fast_bf16 else torch.float32)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    a, b, c = NEWTON_SCHULZ
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
