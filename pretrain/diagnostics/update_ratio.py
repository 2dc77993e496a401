"""How far one optimizer step moves the weights, compared with their size."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pretrain.model.sharded import local

_SAMPLE = 2**18  # weights of a tensor that are compared; evenly spaced where there are more


def sample(tensor: Tensor) -> Tensor:
    """At most 262,144 evenly spaced elements of (this process's part of) a tensor, copied."""
    flat = local(tensor.detach()).reshape(-1)
    return flat[:: max(1, -(-len(flat) // _SAMPLE))].clone()


class UpdateRatio:
    """‖w_after − w_before‖ / ‖w_before‖ of each part, from a sample of each of its tensors.

    Args:
        parts: The parameters of each part; their values before the step are kept.
    """

    def __init__(self, parts: Mapping[str, Sequence[Tensor]]) -> None:
        self.parts = parts
        self._before = {name: [sample(p) for p in tensors] for name, tensors in parts.items()}

    def squares(self) -> Tensor:
        """After the step: ``(n_parts, 2)`` sums of squares, of the change and of the weights.

        Where weights are sharded, the sums over the ranks are those of the whole.
        """
        rows = []
        for name, tensors in self.parts.items():
            before = self._before[name]
            changes = [sample(p) - b for p, b in zip(tensors, before, strict=True)]
            norms = [torch.nn.utils.get_total_norm(group) for group in (changes, before)]
            rows.append(torch.stack([norm.double().square() for norm in norms]))
        return torch.stack(rows)
