"""Run by a test: a training with samples on two ranks.

Lightning starts the second rank by running this file again.
"""

import sys
from pathlib import Path

import torch
from tiny import causal_rows, fit, make_task

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.runs.folder import RunFolder
from pretrain.runs.run_files import RunFiles
from pretrain.runs.samples import Samples
from pretrain.tasks import CausalLM

if __name__ == "__main__":
    folder, strategy = Path(sys.argv[1]), sys.argv[2]
    tokenizer = train_tokenizer(["the cat sat on the mat. " * 3], TokenizerRule("bpe", 280))
    task = make_task("clm", network={"vocab_size": tokenizer.vocab_size})
    if strategy == "fsdp2":
        import pretrain.runs.strategies  # noqa: F401  names it

        task = CausalLM(network=task.config)
    task.tokenizer_json = tokenizer.to_json()
    rows = [causal_rows([6, 6])] * 4
    fit(
        task, rows, rows[:1], callbacks=[Samples(), RunFiles(RunFolder(folder), lambda _: "", {})],
        limit_val_batches=1, val_check_interval=2, devices=2, strategy=strategy,
        default_root_dir=folder, use_distributed_sampler=False,
    )  # fmt: skip
    torch.distributed.destroy_process_group()
