"""Feed-forward units that no longer take part."""

import torch
from torch import Tensor
from torchmetrics import Metric


def count_active(pre_activation: Tensor, real: Tensor) -> Tensor:
    """On how many real tokens each unit's pre-activation was positive.

    Args:
        pre_activation: ``(batch, seq, d_ff)``.
        real: ``(batch, seq)`` bool, False at padding, which does not count.

    Returns:
        ``(d_ff,)`` int64.
    """
    return ((pre_activation > 0) & real[..., None]).sum((0, 1))


class DeadUnits(Metric):
    """Share of dead units per layer, over the last ``window`` probes and all ranks.

    A unit is dead when its pre-activation was not positive for any real token of the window on
    any rank. This is judged by the sign for every activation: exact for ReLU and ReLU², where
    such a unit gives zeros and gets no gradient; for GELU and SwiGLU's gate it says that the unit
    stays in the flat part. Each ``update`` is one probe, and pushes the oldest one out.

    ``compute()`` gives ``share`` ``(n_layers,)``, NaN before the first real token; ``n_tokens``,
    the number of real tokens in the window, without which the share means little; and ``activity``
    ``(n_layers, 3)``: of the share of tokens on which a unit is active, the ``QUANTILES`` over the
    units of a layer.
    """

    QUANTILES = (0.1, 0.5, 0.9)
    full_state_update = False
    active: Tensor
    n_tokens: Tensor

    def __init__(self, n_layers: int, d_ff: int, window: int = 10) -> None:
        super().__init__()
        active = torch.zeros(window, n_layers, d_ff, dtype=torch.int64)
        self.add_state("active", active, dist_reduce_fx="sum")
        self.add_state("n_tokens", torch.zeros(window, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, active: Tensor, n_tokens: Tensor) -> None:
        """Add one probe.

        Args:
            active: ``(n_layers, d_ff)``, :func:`count_active` of every layer.
            n_tokens: Number of real tokens in the probe, a scalar.
        """
        self.active = torch.cat([self.active[1:], active[None]])
        self.n_tokens = torch.cat([self.n_tokens[1:], n_tokens[None]])

    def compute(self) -> dict[str, Tensor]:
        """The share of each layer and the tokens behind it."""
        n_tokens = self.n_tokens.sum()
        counts = self.active.sum(0).float()
        share = (counts == 0).float().mean(-1)
        quantiles = torch.tensor(self.QUANTILES, device=counts.device)
        return {
            "share": torch.where(n_tokens > 0, share, torch.nan),
            "n_tokens": n_tokens,
            "activity": (counts / n_tokens).quantile(quantiles, dim=-1).T,
        }
