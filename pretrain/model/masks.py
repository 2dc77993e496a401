"""Which keys each query may see: the one place where mask rules are combined."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class AttentionMask:
    """Causal order and padding, for queries that are the last ``n_queries`` of ``n_keys`` tokens.

    The full matrix exists only where a kernel needs it; observers ask for a few rows at a time.

    Attributes:
        n_queries: Number of query positions.
        n_keys: Number of key positions, at least ``n_queries``.
        causal: Whether a query sees only keys at its own position and before.
        padding: ``(batch, n_keys)`` bool, True at real tokens; None where all are real.
        device: Where masks are built.
    """

    n_queries: int
    n_keys: int
    causal: bool
    padding: Tensor | None
    device: torch.device

    def rows(self, start: int, stop: int) -> Tensor:
        """Visible keys of the queries ``start`` to ``stop``.

        Returns:
            ``(batch or 1, 1, stop - start, n_keys)`` bool, True = visible.
        """
        keys = torch.arange(self.n_keys, device=self.device)
        if self.causal:
            offset = self.n_keys - self.n_queries
            queries = torch.arange(start + offset, stop + offset, device=self.device)
            visible = (keys <= queries[:, None])[None, None]
        else:
            visible = torch.ones(1, 1, stop - start, self.n_keys, dtype=torch.bool).to(self.device)
        if self.padding is not None:
            visible = visible & self.padding[:, None, None, :]
        return visible

    def for_kernel(self) -> tuple[Tensor | None, bool]:
        """The pair ``(attn_mask, is_causal)`` of torch's attention kernels."""
        if self.padding is None:
            if not self.causal or self.n_queries == 1:
                return None, False
            if self.n_queries == self.n_keys:
                return None, True
        return self.rows(0, self.n_queries), False
