"""Run by a test: the gradients of two gloo ranks, one row each, written to a folder.

Lightning starts the second rank by running this file again.
"""

import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from test_gradients import LENGTHS, gradients_of
from tiny import KINDS, ROWS, one_row

if __name__ == "__main__":
    for kind in KINDS:
        rank = int(os.environ.get("LOCAL_RANK", 0))
        row = one_row(ROWS[kind](LENGTHS), rank)
        gradients, loss = gradients_of(
            kind, [row], devices=2, strategy="ddp", use_distributed_sampler=False
        )
        content = {"gradients": gradients, "loss": loss}
        torch.save(content, Path(sys.argv[1]) / f"{kind}_{rank}.pt")
