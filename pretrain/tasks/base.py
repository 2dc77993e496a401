"""The LightningModule that every task shares: the network, steps that follow the mean over the
global batch, the optimizer, and a checkpoint that is complete.
"""

import os
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, ClassVar

import torch
from lightning.pytorch import Callback
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from pretrain.errors import UserError
from pretrain.model import Transformer, TransformerConfig
from pretrain.model.cost import blocks_flops_per_token
from pretrain.model.transformer import check_direction
from pretrain.tasks.bad_numbers import BadNumbers
from pretrain.tasks.checkpoint_file import PlainlyLoaded
from pretrain.tasks.checks import check_fit, check_objective
from pretrain.tasks.epoch_progress import count_as_done
from pretrain.tasks.gradients import GlobalTargetMean
from pretrain.tasks.losses import LossSums
from pretrain.tasks.optimizer import MuonAdamW, OptimizerConfig
from pretrain.tasks.parameter_groups import parameter_groups
from pretrain.tasks.schedule import ScheduleConfig, rate_factor
from pretrain.tasks.sharding import shard
from pretrain.tasks.warm_start import load_weights

Batch = dict[str, Any]


class TransformerTask(PlainlyLoaded):
    """One block stack, what a subclass puts on top of it, and the recipe that trains them.

    Args:
        network: Shape and parts of the Transformer. Its ``vocab_size`` may be left open: the
            tokenizer of the DataModule decides it.
        lr: Peak learning rate of the blocks' matrices; all other rates are ratios to it.
        optimizer: Algorithms, ratios, decay.
        schedule: How the rate moves over the optimizer steps.
        compile: Compile the block stack with ``torch.compile``.
        activation_checkpointing: Keep of each block its input alone, and compute the rest again in
            the backward pass: less memory, about a third more work.

    Raises:
        ValueError: One sentence, for a configuration that cannot work.
    """

    objective: ClassVar[str]
    causal: bool

    def __init__(
        self,
        network: TransformerConfig = TransformerConfig(),  # noqa: B008  frozen
        lr: float = 0.02,
        optimizer: OptimizerConfig = OptimizerConfig(),  # noqa: B008
        schedule: ScheduleConfig = ScheduleConfig(),  # noqa: B008
        compile: bool = False,
        activation_checkpointing: bool = False,
    ) -> None:
        super().__init__()
        if lr <= 0:
            raise ValueError(f"lr is {lr}; it must be greater than 0.")
        # A checkpoint gives plain dictionaries back: only plain types load with weights_only.
        self.config = as_config(TransformerConfig, network)
        check_direction(self.config, self.causal)
        self.optimizer_config = as_config(OptimizerConfig, optimizer)
        self.schedule_config = as_config(ScheduleConfig, schedule)
        self.lr = lr
        self.compile_network = compile
        self.activation_checkpointing = activation_checkpointing
        self.tokenizer_json: str | None = None
        self.trained_len: int | None = None  # tokens in a row of the training data
        self.transformer: Transformer = None  # type: ignore[assignment]  # see configure_model
        self.target_mean = GlobalTargetMean()
        self._init_from: str | None = None
        self.window: list[Batch] = []  # micro-batches since the last optimizer step
        self._loss_period: tuple[float, float] = (0.0, 0.0)  # of a checkpoint
        self.save_hyperparameters(
            {
                "network": asdict(self.config),
                "lr": lr,
                "optimizer": asdict(self.optimizer_config),
                "schedule": asdict(self.schedule_config),
                "compile": compile,
                "activation_checkpointing": activation_checkpointing,
            }
        )

    # Building ----------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Take tokenizer and vocabulary from the DataModule, and check that all fit together."""
        data = getattr(self.trainer, "datamodule", None)
        if data is None or not hasattr(data, "tokenizer"):
            return
        check_fit(self.objective, self.config, data)
        self.tokenizer_json = data.tokenizer.to_json()
        if stage == "fit":
            self.trained_len = data.seq_len
        if self.config.vocab_size is None:
            self._set_vocab_size(data.tokenizer.vocab_size)

    def configure_model(self) -> None:
        """Build the network once; Lightning calls this before fit, validation and loading."""
        if self.transformer is not None:
            return
        self.transformer = Transformer(self.config, self.causal)
        self.build_heads()
        if self._init_from is not None:
            load_weights(self, self._init_from)
        for block in self.transformer.blocks:
            block.recomputes = self.activation_checkpointing
        if self.compile_network:
            self.transformer.compile()  # in place, so that no key gets a prefix
        if self.device_mesh is not None:
            shard(self, self.device_mesh)

    @abstractmethod
    def build_heads(self) -> None:
        """Put on top of ``self.transformer`` what this task needs, and set all initial weights."""

    def init_weights_from(self, checkpoint: str) -> None:
        """Start from the weights in ``checkpoint`` (a path) when the network is built."""
        self._init_from = checkpoint

    def _set_vocab_size(self, vocab_size: int) -> None:
        self.config = replace(self.config, vocab_size=vocab_size)
        self.hparams["network"] = asdict(self.config)

    # The network on a batch --------------------------------------------------------------------

    def hidden_states(self, batch: Batch) -> Tensor:
        """The block stack's output ``(batch, seq, d_model)``; observers call this too."""
        names = ("attention_mask", "segment_ids", "document_ids")
        return self.transformer(batch["input_ids"], **{n: batch[n] for n in names if n in batch})

    @abstractmethod
    def losses(self, batch: Batch) -> LossSums:
        """Sums over the targets of ``batch``."""

    # Training ----------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """Switch dropout on: a model that was loaded is in evaluation mode, and would stay so."""
        self.train()

    def on_train_start(self) -> None:
        """Count from this step on, whatever was trained on trial or before a checkpoint."""
        period = self._loss_period if self.trainer.is_global_zero else (0.0, 0.0)
        self._loss_period = (0.0, 0.0)
        self.target_mean = GlobalTargetMean(period)
        self.window.clear()
        if self.trainer.global_step:
            count_as_done(self.trainer)
            self._take_up_schedule()

    def _take_up_schedule(self) -> None:
        """Let the next step use this run's schedule: a checkpoint brings the rate of its own."""
        for config in self.trainer.lr_scheduler_configs:
            schedule: Any = config.scheduler
            groups, factors = schedule.optimizer.param_groups, schedule.lr_lambdas
            for group, peak, factor in zip(groups, schedule.base_lrs, factors, strict=True):
                group["lr"] = peak * factor(schedule.last_epoch)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed dropout from what is being trained on, so that no hidden state must be saved."""
        self.seed_dropout(batch_idx)

    def seed_dropout(self, batch_idx: int) -> None:
        """Make what is dropped a function of the run's seed and of this micro-batch's place."""
        if self.has_dropout:
            seed = int(os.environ.get("PL_GLOBAL_SEED", 0))
            place = (seed, self.current_epoch, batch_idx, self.global_rank)
            torch.manual_seed(hash(place) % 2**63)

    @property
    def has_dropout(self) -> bool:
        """Whether anything is dropped in training."""
        return bool(self.config.dropout or self.config.attention_dropout)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Loss of one micro-batch, scaled so that the step follows the global mean."""
        self.window.append(batch)
        sums = self._with_load_balance(self.losses(batch))
        return self.target_mean.scale(sums, self.nominal_targets(batch), self.trainer)

    def nominal_targets(self, batch: Batch) -> int:
        """A number of targets that is the same for all micro-batches of a run."""
        return int(batch["labels"].numel())

    def _with_load_balance(self, sums: LossSums) -> LossSums:
        """Add what the routers of experts pay, per target, to the objective."""
        paid = self.transformer.load_balance_loss()
        if paid is None:
            return sums
        extra = self.config.load_balance_weight * paid * sums.n_targets
        return sums._replace(objective=sums.objective + extra)

    def on_after_backward(self) -> None:
        """Turn the window's gradient into that of the mean over all its target tokens."""
        self.target_mean.correct(self.parameters(), self.trainer)

    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, *args: Any) -> None:
        """Take the step, then tell the DataModule which micro-batches were trained on.

        Lightning fetches one batch ahead, so the loader's own position is not the training's.
        """
        lr = optimizer.param_groups[0]["lr"]
        optimizer.optimizer.gate = (
            None  # a gradient scaler may have left out the step that it was for
        )
        super().optimizer_step(epoch, batch_idx, optimizer, *args)
        trained_on = getattr(getattr(self.trainer, "datamodule", None), "trained_on", None)
        if trained_on is not None:
            for batch in self.window:
                trained_on(batch)
        self.window.clear()
        self.target_mean.close_window()
        self._log_step(self.trainer.global_step + 1, lr)  # it is counted after this

    def _log_step(self, step: int, lr: float) -> None:
        """Log the mean loss since the last log, at the trainer's rhythm.

        Before callbacks save what the step left: a checkpoint must not hold the sums that the run
        that wrote it has logged already.
        """
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if every and (step % every == 0 or step == self.trainer.max_steps):
            self.log("train/loss", self.target_mean.pop_mean_nll(self.trainer), prog_bar=True)
            self.log_dict({"lr": lr, "step": float(step)})

    def configure_callbacks(self) -> list[Callback]:
        """The guard against updates that are not finite, unless the Trainer has one."""
        callbacks = self.trainer.callbacks  # type: ignore[attr-defined]
        return [] if any(isinstance(c, BadNumbers) for c in callbacks) else [BadNumbers()]

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """AdamW, with Muon for the matrices where asked for, under the step-wise schedule."""
        optimizer = MuonAdamW(self.parameter_groups())
        factor = rate_factor(self.schedule_config, self._max_steps(), self.config.d_model)
        schedule = LambdaLR(optimizer, [self._rate(g, factor) for g in optimizer.param_groups])
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What the optimizer is given: see ``tasks/parameter_groups.py``."""
        return parameter_groups(self, self.optimizer_config, self.lr)

    def _rate(
        self, group: dict[str, Any], factor: Callable[[int], float]
    ) -> Callable[[int], float]:
        # LambdaLR counts the steps taken; the next one is one more.
        return lambda taken: self.group_factor(group, taken + 1) * factor(taken + 1)

    def group_factor(self, group: dict[str, Any], step: int) -> float:
        """What the rate of one parameter group is multiplied by at optimizer step ``step``."""
        return 1.0

    def _max_steps(self) -> int:
        if self.trainer.max_steps > 0:
            return self.trainer.max_steps
        steps = self.trainer.estimated_stepping_batches
        if not 0 < steps < float("inf"):  # -1 where the loader has no length
            raise UserError(
                "The length of this corpus is not known, so the schedule has no end: "
                "set trainer.max_steps."
            )
        return int(steps)

    # Cost --------------------------------------------------------------------------------------

    def flops_per_token(self, seq_len: int) -> float:
        """Useful floating-point operations of training per input token (forward and backward)."""
        blocks = blocks_flops_per_token(self.transformer, seq_len)
        return blocks + self.head_flops_per_token()

    def head_flops_per_token(self) -> float:
        """The head's share: 6 per weight, on the tokens that enter the loss."""
        return 0.0

    # Checkpoint --------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what makes the file complete: objective, tokenizer, length of the rows, loss sums."""
        checkpoint["objective"] = self.objective
        checkpoint["tokenizer"] = self.tokenizer_json
        checkpoint["trained_len"] = self.trained_len
        if self._trainer is not None:
            checkpoint["loss_period"] = self.target_mean.period(self.trainer)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the tokenizer back.

        Raises:
            UserError: The checkpoint was trained for another objective, though its weights may fit.
        """
        check_objective(self.objective, checkpoint.get("objective", self.objective))
        self.tokenizer_json = checkpoint.get("tokenizer")
        self.trained_len = checkpoint.get("trained_len")
        self._loss_period = checkpoint.get("loss_period", (0.0, 0.0))


def as_config(kind: type, value: Any) -> Any:
    """``value`` as an instance of ``kind``; a checkpoint gives plain dictionaries back."""
    return value if isinstance(value, kind) else kind(**value)
