"""Which keys each query may see, and how much farther ones count: the one place where the rules
for attention scores are combined.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class AttentionMask:
    """Causal order, window, padding, documents and ALiBi; queries are the last of the keys' tokens.

    The full matrix exists only where a kernel needs it; observers ask for a few rows at a time.

    Attributes:
        n_queries: Number of query positions: the last ``n_queries`` of the ``n_keys`` tokens.
        n_keys: Number of key positions, at least ``n_queries``.
        causal: Whether a query sees only keys at its own position and before.
        padding: ``(batch, n_keys)`` bool, True at real tokens; None where all are real.
        device: Where masks are built.
        window: A query sees keys nearer than this only; None means all.
        slopes: ``(n_heads,)`` of ALiBi; None means no bias.
        documents: ``(batch, n_keys)`` int64; a query sees only keys of its own document. None where
            each row is one.
    """

    n_queries: int
    n_keys: int
    causal: bool
    padding: Tensor | None
    device: torch.device
    window: int | None = None
    slopes: Tensor | None = None
    documents: Tensor | None = None
    _made: dict[Any, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

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
        if self.documents is not None:
            past = self.n_keys - self.n_queries
            queries = self.documents[:, None, start + past : stop + past, None]
            visible = visible & (queries == self.documents[:, None, None, first:last])
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

    def for_kernel(self, dtype: torch.dtype) -> tuple[Tensor | None, bool]:
        """The pair ``(attn_mask, is_causal)`` of attention kernels, for scores in ``dtype``."""
        rows_are_alike = self.padding is None and self.documents is None and self.slopes is None
        if rows_are_alike and not self.is_narrow:
            if not self.causal or self.n_queries == 1:
                return None, False
            if self.n_queries == self.n_keys:
                return None, True
        return self.for_rows(dtype, 0, self.n_queries), False

    def for_rows(
        self, dtype: torch.dtype, start: int, stop: int, first: int = 0, last: int | None = None
    ) -> Tensor:
        """What is added to the scores of some queries and keys: a bias, or -inf where not visible.

        Made once for all layers: kernels would turn a boolean mask into this one in every call.
        """
        key = (dtype, start, stop, first, last)
        if key not in self._made:
            bias = self.bias(start, stop, first, last)
            visible = self.rows(start, stop, first, last)
            added = torch.where(visible, 0.0 if bias is None else bias, -torch.inf)
            self._made[key] = added.to(dtype)
        return self._made[key]

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
