"""How several processes train together, beside what Lightning has of its own."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.strategies import ModelParallelStrategy, StrategyRegistry
from torch import Tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map_only

from pretrain.model.sharded import whole
from pretrain.tasks.checkpoint_file import read_checkpoint
from pretrain.tasks.sharding import sharded_like


class FSDP2Strategy(ModelParallelStrategy):
    """Weights, gradients and optimizer states divided over all processes (FSDP2).

    A checkpoint is one whole file, the same that one process or plain DDP writes: any number of
    processes reads it. ``tasks/sharding.py`` does the dividing.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            data_parallel_size=1,
            tensor_parallel_size=1,
            save_distributed_checkpoint=False,
            **kwargs,
        )

    def setup_environment(self) -> None:
        """Divide over all processes of all nodes; Lightning's own default is one part a node."""
        # On CPUs torch says that it gathers where it could exchange, which nobody can change.
        logging.getLogger("torch.distributed.tensor._collective_utils").setLevel(logging.ERROR)
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    @property
    def lightning_restore_optimizer(self) -> bool:
        """Yes: the whole state is read, and each rank takes its part."""
        return True

    # Writing: all ranks gather, in the same order, and rank 0 keeps the result -------------------

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Whole weights on the CPU of rank 0, elsewhere nothing."""
        assert self.lightning_module is not None
        return self._gathered(self.lightning_module.state_dict())

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """Whole optimizer state on the CPU of rank 0, elsewhere nothing.

        torch's own function would take a step to make a state before the first one, and would
        count it.
        """
        plain = optimizer._optimizer if isinstance(optimizer, LightningOptimizer) else optimizer
        return self._gathered(plain.state_dict())

    def _gathered(self, state: dict[str, Any]) -> dict[str, Any]:
        def gather(tensor: Tensor) -> Tensor | None:
            full = whole(tensor.detach())
            return full.cpu() if self.is_global_zero else None

        gathered: dict[str, Any] = tree_map_only(Tensor, gather, state)
        return gathered if self.is_global_zero else {}

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: str | Path, storage_options: Any | None = None
    ) -> None:
        """Write one file on rank 0, as without this strategy."""
        if self.is_global_zero:
            self.checkpoint_io.save_checkpoint(checkpoint, filepath, storage_options)

    # Reading: all ranks read, and each takes its part --------------------------------------------

    def load_checkpoint(
        self, checkpoint_path: str | Path, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """The whole content, by memory map."""
        return read_checkpoint(self.broadcast(str(checkpoint_path)))

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        """Take this rank's part of the weights."""
        assert self.lightning_module is not None
        own = self.lightning_module.state_dict()
        weights = {
            name: sharded_like(value, own[name]) if name in own else value
            for name, value in checkpoint["state_dict"].items()
        }
        self.lightning_module.load_state_dict(weights, strict=strict)

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Take this rank's part of each parameter's state."""
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            parts = {
                number: {
                    key: sharded_like(value, parameters[number])
                    if isinstance(value, Tensor)
                    else value
                    for key, value in values.items()
                }
                for number, values in state["state"].items()
            }
            optimizer.load_state_dict({**state, "state": parts})


StrategyRegistry.register(
    "fsdp2", FSDP2Strategy, description="Weights divided over all processes (FSDP2), one file saved"
)
