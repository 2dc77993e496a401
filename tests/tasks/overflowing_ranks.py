"""Run by a test: two gloo ranks, one of which overflows; writes what each of them says of it.

Lightning starts the second rank by running this file again.
"""

import math
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tiny import causal_rows, fit, make_task

from pretrain.errors import UserError

if __name__ == "__main__":
    rank = int(os.environ.get("LOCAL_RANK", 0))
    task = make_task("clm")

    def overflow(module, inputs, output):
        return output * math.inf if rank == 1 and task.trainer.global_step == 1 else output

    task.transformer.blocks[1].attention.register_forward_hook(overflow)
    batches = [causal_rows([9, 12])] * 3
    try:
        fit(task, batches, devices=2, strategy="ddp", use_distributed_sampler=False)
    except UserError as error:
        Path(sys.argv[1], f"{rank}.txt").write_text(str(error))
