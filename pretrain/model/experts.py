"""A mixture of experts in the place of one feed-forward layer."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pretrain.model.config import TransformerConfig
from pretrain.model.feed_forward import FeedForward


class MixtureOfExperts(nn.Module):
    """Each token goes to its ``experts_per_token`` best experts.

    The output is the sum over the chosen experts of softmax(their router logits) times
    FeedForward(x) (Jiang et al. 2024, "Mixtral of Experts", section 2.1). A softmax over a single
    one would be 1 and teach the router nothing, so where one is chosen its weight is that of the
    softmax over all (Fedus et al. 2022, "Switch Transformers", equation 2). No token is dropped,
    and with one expert this is that feed-forward layer exactly.

    Attributes:
        load_balance_loss: Of the latest forward pass, a float32 scalar: n_experts · Σ fᵢ Pᵢ
            (Fedus et al. 2022, equations 4 to 6), where fᵢ is the share of the token-to-expert
            assignments that expert i got and Pᵢ the mean of its router probability. It is 1 at
            perfect balance and at most n_experts. Padding counts as any other token does, for the
            layer does not see the mask. As in the paper balance is judged within each micro-batch.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.experts_per_token = config.experts_per_token
        self.router = nn.Linear(config.d_model, config.n_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(config) for _ in range(config.n_experts))
        self.load_balance_loss = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, seq, d_model)`` to the same shape."""
        tokens = x.flatten(0, -2)
        logits = self._router_logits(tokens)
        best, chosen = logits.topk(self.experts_per_token, dim=-1)  # (tokens, experts_per_token)
        self.load_balance_loss = load_balance_loss(logits, chosen)
        if self.experts_per_token == 1:
            weights = logits.softmax(dim=-1).gather(-1, chosen)
        else:
            weights = best.softmax(dim=-1)
        return self._mix(tokens, weights, chosen).view_as(x)

    def _router_logits(self, tokens: Tensor) -> Tensor:
        """``(tokens, n_experts)``, in float32 even under autocast (Fedus et al. 2022, 2.4)."""
        with torch.autocast(tokens.device.type, enabled=False):
            return F.linear(tokens.float(), self.router.weight.float())

    def _mix(self, tokens: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        mixed = torch.zeros_like(tokens, dtype=torch.float32)
        for number, expert in enumerate(self.experts):
            rows, rank = (chosen == number).nonzero(as_tuple=True)
            # An expert that got no token runs all the same: its gradient is then zero and not
            # missing, and ranks that train together stay in step.
            output = expert(tokens[rows])
            # A token is in `rows` once at most, so the sum has one order on every device.
            mixed.index_add_(0, rows, weights[rows, rank, None] * output)
        return mixed.to(output.dtype)

    def __getstate__(self) -> dict[str, Any]:
        """What copies are made of: the loss without its graph, which cannot be copied."""
        return {**self.__dict__, "load_balance_loss": self.load_balance_loss.detach()}


def load_balance_loss(logits: Tensor, chosen: Tensor) -> Tensor:
    """n_experts · Σ fᵢ Pᵢ; the gradient flows through the probabilities only.

    Args:
        logits: Of the router, ``(tokens, n_experts)``.
        chosen: Numbers of each token's experts, ``(tokens, experts_per_token)``.
    """
    n_experts = logits.shape[-1]
    share = chosen.flatten().bincount(minlength=n_experts) / chosen.numel()
    return n_experts * (share * logits.softmax(dim=-1).mean(dim=0)).sum()
