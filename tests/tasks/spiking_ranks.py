"""Run by a test: two gloo ranks, one of which sees a loss spike; writes what both made of it.

Lightning starts the second rank by running this file again.
"""

import os
import sys
from pathlib import Path

import torch
from test_loss_spikes import Spike, run, spikes_of

if __name__ == "__main__":
    rank = int(os.environ.get("LOCAL_RANK", 0))
    spike = Spike((7, 0)) if rank == 1 else Spike()
    watch = spikes_of("roll_back")
    run([watch, spike], devices=2, strategy="ddp", use_distributed_sampler=False)
    content = {"n_spikes": int(watch.state_dict()["n_spikes"]), "after": spike.after}
    torch.save(content, Path(sys.argv[1]) / f"{rank}.pt")
