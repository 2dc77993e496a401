"""What befalls one rank of several: given to ``pretrain fit`` as a callback."""

import os
import signal

from lightning.pytorch import Callback


class Fault(Callback):
    """At the given micro-batch of one rank: an exception, or a signal by its name."""

    def __init__(self, how: str, rank: int = 1, batch: int = 3) -> None:
        self.how, self.rank, self.batch = how, rank, batch

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_rank != self.rank or batch_idx != self.batch:
            return
        if self.how == "exception":
            raise ValueError("a fault of rank one alone")
        os.kill(os.getpid(), getattr(signal, self.how))
