"""Tensors that are divided among processes, and tensors that are not, asked alike."""

from torch import Tensor
from torch.distributed.tensor import DTensor


def local(tensor: Tensor) -> Tensor:
    """This process's part of a sharded tensor; any other tensor itself."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """All of a sharded tensor; every rank must ask. Any other tensor itself."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
