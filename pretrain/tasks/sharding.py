"""A task whose weights are divided among processes: FSDP2, that is torch's ``fully_shard``.

Each block is gathered when it runs and given back afterwards; what stands around the blocks
(embeddings, final norm, heads) is gathered once a step. The rest of the package sees parameters of
the type ``DTensor``, whose local part alone lies in this process.
"""

from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

# What runs the network; FSDP2 by itself gathers weights for `forward` only.
_ENTRANCES = (
    "training_step", "validation_step", "test_step", "predict_step", "losses", "hidden_states",
)  # fmt: skip


def shard(task: Any, mesh: DeviceMesh) -> None:
    """Divide the weights of ``task`` over the processes of ``mesh``, as rank 0 has them.

    Args:
        task: A LightningModule with ``transformer.blocks``, complete and on the CPU.
        mesh: That of Lightning's ``ModelParallelStrategy``; of its two dimensions
            ``data_parallel`` is used.
    """
    mesh = mesh["data_parallel"]
    for part in (*task.transformer.blocks, task):
        _copy_from_rank_0(part, mesh)
        fully_shard(part, mesh=mesh)
    is_inside: list[str] = []
    for name in _ENTRANCES:
        _gather_around(task, name, is_inside)


def sharded_like(tensor: Tensor, model: Tensor) -> Tensor:
    """``tensor``, which every rank has whole, divided as ``model`` is; without communication."""
    if not isinstance(model, DTensor) or tensor.shape != model.shape:
        return tensor
    tensor = tensor.to(model.device)
    return distribute_tensor(tensor, model.device_mesh, model.placements, src_data_rank=None)


@torch.no_grad()
def _copy_from_rank_0(part: nn.Module, mesh: DeviceMesh) -> None:
    """Give every rank the same start, block by block, so that no device holds all of them."""
    tensors = [p for p in (*part.parameters(), *part.buffers()) if not isinstance(p, DTensor)]
    for tensor in tensors:
        on_device = tensor.to(mesh.device_type)
        dist.broadcast(on_device, src=0, group=dist.group.WORLD)
        tensor.copy_(on_device)


def _gather_around(task: Any, name: str, is_inside: list[str]) -> None:
    """Let the method ``name`` gather and give back, unless another one has gathered already."""
    plain = getattr(task, name, None)
    if plain is None:
        return
    register_fsdp_forward_method(task, name)
    gathering = getattr(task, name)

    @wraps(plain)
    def method(*args: Any, **kwargs: Any) -> Any:
        if is_inside:
            return plain(*args, **kwargs)
        is_inside.append(name)
        try:
            return gathering(*args, **kwargs)
        finally:
            is_inside.clear()

    setattr(task, name, method)
