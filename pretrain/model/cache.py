"""Keys and values of the tokens read so far, so that each new token costs one token's work."""

import torch
from torch import Tensor


class LayerCache:
    """One layer's keys and values ``(batch, n_kv_heads, seq, head_dim)``, as they enter attention.

    Keys are normed and rotated to their own position already.
    """

    key: Tensor | None = None
    value: Tensor | None = None

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append those of the next tokens, and return all so far."""
        if self.key is not None and self.value is not None:
            key, value = torch.cat((self.key, key), 2), torch.cat((self.value, value), 2)
        self.key, self.value = key, value
        return key, value


class KeyValueCache:
    """What incremental decoding keeps between calls of a Transformer with ``n_layers`` blocks."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [LayerCache() for _ in range(n_layers)]

    @property
    def length(self) -> int:
        """Number of tokens held."""
        key = self.layers[0].key
        return 0 if key is None else key.shape[2]

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; ``rows`` is ``(n,)`` int64."""
        for layer in self.layers:
            if layer.key is not None and layer.value is not None:
                layer.key, layer.value = layer.key[rows], layer.value[rows]
