"""Our side of the benches of the training step: under Lightning's Trainer, and in a plain loop."""

from __future__ import annotations

import io
import tempfile
import warnings
from contextlib import nullcontext, redirect_stderr
from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import CSVLogger
from step_workers import Job, Turns, train_in_a_loop
from step_workloads import Workload, batches, loader

from pretrain.diagnostics import Throughput
from pretrain.hardware import device_of
from pretrain.model import TransformerConfig
from pretrain.runs.console import hush_libraries
from pretrain.runs.progress import RunProgress
from pretrain.tasks import CausalLM, LanguageModel, MaskedLM, MuonAdamW, OptimizerConfig

CONFIGS = Path(__file__).parents[1] / "configs"
CLASSIC = {"bert": "bert_mini_classic.yaml", "gpt": "gpt2_124m.yaml"}


def train(
    job: Job,
    turns: Turns,
    *,
    is_bare: bool = False,
    has_progress_bar: bool = False,
    **options: Any,
) -> None:
    """Train as the job says, in a plain loop or (else) under the Trainer.

    ``options`` are those of ``build``.
    """
    task = build(job.workload, **options)
    given = loader(batches(job.workload), job.total_steps * job.workload.accumulate)
    if is_bare:
        train_bare(job, turns, task, given)
    else:
        train_in_lightning(job, turns, task, given, has_progress_bar)


def build(
    workload: Workload, dropout: float = 0.0, is_modern: bool = False, **options: Any
) -> LanguageModel:
    """The task at this shape: the peer's architecture with AdamW, or our own recipe's defaults.

    ``options`` are the task's, such as ``compile``.
    """
    shape: dict[str, Any] = {**shape_of(workload), "dropout": dropout}
    kind = MaskedLM if workload.kind == "bert" else CausalLM
    if is_modern:
        return kind(TransformerConfig(**shape), **options)
    text = (CONFIGS / CLASSIC[workload.kind]).read_text(encoding="utf-8")
    recipe = yaml.safe_load(text)["model"]["init_args"]
    return kind(
        TransformerConfig(**{**recipe["network"], **shape}),
        lr=recipe["lr"],
        optimizer=OptimizerConfig(**recipe["optimizer"]),
        **options,
    )


def shape_of(workload: Workload) -> dict[str, int]:
    """The fields of the network's configuration that the workload decides."""
    same = ("vocab_size", "d_model", "n_layers", "n_heads")
    return {**{name: getattr(workload, name) for name in same}, "max_len": workload.seq_len}


def train_bare(job: Job, turns: Turns, task: LanguageModel, given: Any) -> None:
    """The same network, loss and optimizer without Lightning."""
    task.configure_model()
    task.to(device_of()).train()

    def loss_of(batch: Any) -> Any:
        sums = task.losses(batch)
        return sums.objective / sums.n_targets.clamp(min=1)

    train_in_a_loop(job, turns, loss_of, MuonAdamW(task.parameter_groups()), given)


def train_in_lightning(
    job: Job, turns: Turns, task: LanguageModel, given: Any, has_progress_bar: bool
) -> None:
    """As `pretrain fit` trains between probes and checkpoints: logging, speed, perhaps the bar."""
    hush_libraries()
    warnings.filterwarnings("ignore", message=".*have no `val_dataloader`.*")
    shown = redirect_stderr(_Terminal()) if has_progress_bar else nullcontext()
    with tempfile.TemporaryDirectory() as folder, shown:
        progress = [RunProgress()] if has_progress_bar else []
        trainer = Trainer(
            max_steps=job.total_steps,
            accumulate_grad_batches=job.workload.accumulate,
            precision=job.precision,  # type: ignore[arg-type]
            devices=1,
            logger=CSVLogger(folder),
            log_every_n_steps=50,
            callbacks=[Throughput(), *progress, _Pace(turns)],
            enable_progress_bar=has_progress_bar,
            enable_checkpointing=False,
            enable_model_summary=False,
        )
        trainer.fit(task, given)


class _Pace(Callback):
    """Takes turns at the end of a step, so that a turn holds all that Lightning does in a step.

    It comes last in the list: the others' work belongs to the step that they follow.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns, self._step = turns, 0

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step != self._step:  # else a micro-batch of several
            self._step = trainer.global_step
            self._turns.step_done()


class _Terminal(io.StringIO):
    """Takes the live bar and shows it to nobody."""

    def isatty(self) -> bool:
        return True
