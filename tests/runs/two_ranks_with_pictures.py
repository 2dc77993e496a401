"""Run by a test: a training with pictures on two ranks; writes which pictures there are.

Lightning starts the second rank by running this file again.
"""

import sys
from pathlib import Path

import torch
from tiny import causal_rows, fit, make_task

from pretrain.diagnostics import ForwardProbe
from pretrain.runs.probe_pictures import ProbePictures
from pretrain.tasks import CausalLM

if __name__ == "__main__":
    folder, strategy = Path(sys.argv[1]), sys.argv[2]
    if strategy == "fsdp2":
        import pretrain.runs.strategies  # noqa: F401  names it

        task = CausalLM(network=make_task("clm").config)
    else:
        task = make_task("clm")
    rows = [causal_rows([6, 6])] * 4
    fit(
        task, rows, rows[:1], callbacks=[ForwardProbe(every_n_steps=2), ProbePictures()],
        limit_val_batches=1, val_check_interval=2, devices=2, strategy=strategy,
        default_root_dir=folder, use_distributed_sampler=False,
    )  # fmt: skip
    torch.distributed.destroy_process_group()
