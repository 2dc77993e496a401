"""Run by a test: observed training on two ranks, then on one; writes what the loggers were given.

Lightning starts the second rank by running this file again.
"""

import json
import sys
from pathlib import Path

import torch
from conftest import TinyTask, TokenBlocks, train

from pretrain.diagnostics import ForwardProbe, StepObserver, Throughput


class StillTask(TinyTask):
    """Does not move, so that any number of ranks sees the same weights."""

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def observed(dataset, batch_size, **options):
    """Two steps, each on the whole dataset, however the ranks share it."""
    callbacks = [ForwardProbe(every_n_steps=2), StepObserver(), Throughput()]
    return train(StillTask(), callbacks, 2, batch_size=batch_size, dataset=dataset, **options)


def write(name, recorder):
    """One file of ``{step: {name: value}}``."""
    (Path(sys.argv[1]) / f"{name}.json").write_text(json.dumps(recorder.steps))


if __name__ == "__main__":
    rows = TokenBlocks(8, n_filler=1)
    two_ranks = observed(rows, 4, devices=2, strategy="ddp")
    rank = torch.distributed.get_rank()
    write(f"rank_{rank}", two_ranks)
    torch.distributed.destroy_process_group()
    if rank == 0:
        write("one_process", observed(rows, 8, devices=1))
