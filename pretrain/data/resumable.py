"""What every data module keeps: the place in the training data, so that a run can be continued."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any, Protocol

import torch
from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader

from pretrain.data.loaders import Share
from pretrain.data.sampler import MicroBatchSampler
from pretrain.data.streaming import StreamLoader
from pretrain.errors import UserError


class Order(Protocol):
    """What decides which rows come next: a dataclass of plain values."""

    def check_continues(self, state: dict[str, Any]) -> None:
        """Refuse to go on from a DataModule's state where other rows would come next."""


class ResumableDataModule(LightningDataModule):
    """Keeps the position behind the last micro-batch that was trained on.

    Attributes:
        batch_size: rows in a micro-batch of one device.
        num_workers: processes that prepare batches.
        seed: of the order of the data.

    Raises UserError for a number that can't be meant.
    """

    objective: str

    def __init__(self, batch_size: int, num_workers: int, seed: int | None) -> None:
        super().__init__()
        if batch_size < 1:
            raise UserError(f"batch_size is {batch_size}: a micro-batch needs at least 1 row.")
        if num_workers < 0:
            raise UserError(f"num_workers is {num_workers}: 0 prepares batches in this process.")
        self.batch_size, self.num_workers = batch_size, num_workers
        self.seed = int(os.environ.get("PL_GLOBAL_SEED", 0)) if seed is None else seed
        self._position: dict[str, Any] | None = None
        self._loaded_state: dict[str, Any] = {}
        self._passes: Any = None  # of the training loader: where its next pass starts

    def train_dataloader(self) -> DataLoader | StreamLoader:
        """Shuffled micro-batches, from the position in the data on.

        Raises:
            UserError: the loaded checkpoint's run read the data in another way.
        """
        state, self._loaded_state = self._loaded_state, {}
        self.check_continues(state)
        loader = self._train_loader()
        self._passes = loader.sampler if isinstance(loader, DataLoader) else loader
        return loader

    def batches_done(self) -> int | None:
        """Micro-batches of this epoch on each rank that count as done at the loaded position.

        The fit loop counts them too, as the run of the checkpoint did: with another batch size or
        number of devices its count must become this one, or the epoch would end too early or too
        late. Between two epochs it is the number of all; None on a stream, whose end isn't counted.

        Raises:
            UserError: the loaded checkpoint's run read the data in another way.
        """
        self.check_continues(self._loaded_state)
        sampler = getattr(self._train_loader(), "sampler", None)
        if not isinstance(sampler, MicroBatchSampler):
            return None
        return sampler.n_done(self._position or self._start)

    def trained_on(self, batch: dict[str, Any]) -> None:
        """Remember that this micro-batch was trained on: a checkpoint continues behind it."""
        after = batch.get("position")
        if after is None:  # with overfit_batches: its few rows are no epoch
            return
        self._position = self._moved(after)
        # The fit loop may leave a pass in the middle (it does once when it is continued at the end
        # of an epoch): the next pass goes on there
        self._passes.next_start = self._position

    def state_dict(self) -> dict[str, Any]:
        """The position behind the last micro-batch that was trained on; ask on every rank.

        None before the first: Lightning's finders train on trial, and go back to there.
        """
        order = self._order()
        return {} if order is None else {"position": self._saved_position(), **asdict(order)}  # type: ignore[call-overload]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next `train_dataloader` go on from there, if this run reads the data alike."""
        self._position = state_dict.get("position")
        self._loaded_state = state_dict
        if self._passes is not None:  # the loader of a trial is used again
            self._passes.next_start = self._position or self._start

    def check_continues(self, state: dict[str, Any]) -> None:
        """Refuse to go on from a checkpoint's `state` where other rows would come next.

        Raises:
            UserError: the run of the checkpoint read the data in another way; with both values.
        """
        order = self._order()
        assert order is not None
        order.check_continues(state)

    @property
    def _start(self) -> dict[str, Any]:
        """The position of a run that begins."""
        return {"epoch": 0, "block": 0}

    def _moved(self, after: dict[str, Any]) -> dict[str, Any]:
        """The position, given what the batch just trained on says of it."""
        return after

    def _saved_position(self) -> dict[str, Any] | None:
        return self._position

    def _train_loader(self) -> DataLoader | StreamLoader:
        """The loader of the training split, from the position on."""
        raise NotImplementedError

    def _order(self) -> Order | None:
        """How this run reads its data; None before `setup`."""
        raise NotImplementedError

    def _world(self) -> tuple[int, int]:
        """Number of processes, and this one's."""
        if self.trainer is not None:
            return self.trainer.world_size, self.trainer.global_rank
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_world_size(), torch.distributed.get_rank()
        return 1, 0

    def _gathered(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensors of all ranks (ranks, ...), on the CPU."""
        if self._world()[0] == 1:
            return tensor[None]
        device = torch.device("cpu") if self.trainer is None else self.trainer.strategy.root_device
        local = tensor.to(device)
        parts = [torch.empty_like(local) for _ in range(self._world()[0])]
        torch.distributed.all_gather(parts, local)
        return torch.stack(parts).cpu()

    def _share(self, batch_size: int | None = None) -> Share:
        n_ranks, rank = self._world()
        limit = 1.0 if self.trainer is None else self.trainer.limit_train_batches
        return Share(
            batch_size or self.batch_size, self.num_workers, self.seed, n_ranks, rank, limit
        )
