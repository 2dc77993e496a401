"""Which keys each query may see, and how much farther ones count: the one place where the rules
for attention scores are combined.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class AttentionMask:
    """Causal order, window, padding and ALiBi, for queries that are the last of the keys' tokens.

    The full matrix exists only where a kernel needs it; observers ask for a few rows at a time.

    Attributes:
        n_queries: Number of query positions: the last ``n_queries`` of the ``n_keys`` tokens.
        n_keys: Number of key positions, at least ``n_queries``.
        causal: Whether a query sees only keys at its own position and before.
        padding: ``(batch, n_keys)`` bool, True at real tokens; None where all are real.
        device: Where masks are built.
        window: A query sees keys nearer than this only; None means all.
        slopes: ``(n_heads,)`` of ALiBi; None means no bias.
    """

    n_queries: int
    n_keys: int
    causal: bool
    padding: Tensor | None
    device: torch.device
    window: int | None = None
    slopes: Tensor | None = None

    def rows(self, start: int, stop: int, first: int = 0, last: int | None = None) -> Tensor:
        """Visible keys of the queries ``start`` to ``stop``, of the keys ``first`` to ``last``.

        Returns:
            ``(batch or 1, 1, stop - start, last - first)`` bool, True = visible.
        """
        distance = self._distance(start, stop, first, last)
        visible = distance >= 0 if self.causal else torch.ones_like(distance, dtype=torch.bool)
        if self.window is not None:
            visible = visible & (distance.abs() < self.window)
        visible = visible[None, None]
        if self.padding is not None:
            visible = visible & self.padding[:, None, None, first:last]
        return visible

    def bias(self, start: int, stop: int, first: int = 0, last: int | None = None) -> Tensor | None:
        """What is added to the scores of those queries and keys: -slope × distance.

        Returns:
            ``(1, n_heads, stop - start, last - first)`` float32, or None without ALiBi.
        """
        if self.slopes is None:
            return None
        distance = self._distance(start, stop, first, last).abs()
        return -self.slopes[:, None, None] * distance[None, None]

    def for_kernel(self) -> tuple[Tensor | None, bool]:
        """The pair ``(attn_mask, is_causal)`` of torch's attention kernels."""
        if self.padding is None and self.slopes is None and not self.is_narrow:
            if not self.causal or self.n_queries == 1:
                return None, False
            if self.n_queries == self.n_keys:
                return None, True
        return self.for_rows(0, self.n_queries), False

    def for_rows(self, start: int, stop: int, first: int = 0, last: int | None = None) -> Tensor:
        """The kernels' ``attn_mask`` of some queries and keys: bool, or float with the bias."""
        visible = self.rows(start, stop, first, last)
        bias = self.bias(start, stop, first, last)
        return visible if bias is None else bias.masked_fill(~visible, -torch.inf)

    @property
    def is_narrow(self) -> bool:
        """Whether the window keeps any key out of sight."""
        return self.window is not None and self.window < self.n_keys

    def keys_in_reach(self, start: int, stop: int) -> tuple[int, int]:
        """First and last + 1 of the keys that any of the queries ``start`` to ``stop`` may see."""
        if self.window is None:
            return 0, self.n_keys
        past = self.n_keys - self.n_queries
        last = stop + past if self.causal else stop + past + self.window - 1
        return max(0, start + past - self.window + 1), min(last, self.n_keys)

    def _distance(self, start: int, stop: int, first: int, last: int | None) -> Tensor:
        """``(stop - start, last - first)``: how far each key stands before each query."""
        past = self.n_keys - self.n_queries
        queries = torch.arange(start + past, stop + past, device=self.device)
        last = self.n_keys if last is None else last
        return queries[:, None] - torch.arange(first, last, device=self.device)
