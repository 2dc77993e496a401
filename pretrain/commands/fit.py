"""``pretrain fit``: train a model from a recipe, in a run folder of its own."""

import os
import signal
from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities.exceptions import SIGTERMException

from pretrain.commands.configured import ConfiguredCLI, RunTrainer
from pretrain.commands.seeds import fit_seeds, split_seeds
from pretrain.data.classification import ClassificationDataModule
from pretrain.data.resumable import ResumableDataModule
from pretrain.errors import UserError
from pretrain.hardware import device_of, resolve_precision, slow_precision_warning
from pretrain.runs import samples_file
from pretrain.runs.callbacks import run_callbacks, run_loggers
from pretrain.runs.card import RunCard
from pretrain.runs.card_reader import read_card
from pretrain.runs.checkpoint_io import AtomicCheckpointIO
from pretrain.runs.console import say
from pretrain.runs.environment import is_first_rank
from pretrain.runs.folder import make_folder, plan_run, recipe_name, release_folder
from pretrain.runs.log_rhythm import LogRhythm, log_interval
from pretrain.runs.loggers import SafeWandbLogger
from pretrain.runs.metrics_file import cut_back
from pretrain.runs.predictions import show_confusion, write_predictions
from pretrain.runs.ranks import one_voice
from pretrain.runs.run_files import RunFiles
from pretrain.runs.stop_signals import StopSignalError
from pretrain.runs.summary import closing_lines
from pretrain.runs.trackio_logger import TrackioLogger
from pretrain.runs.validation_schedule import (
    BATCHES,
    TIMES_PER_RUN,
    ValidationSchedule,
    whole_split,
)
from pretrain.tasks import Classification, TransformerTask
from pretrain.tasks.checks import check_fit, check_objective

# Set for every process that something else has started, Lightning's own launcher included.
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "SLURM_PROCID")


def run(argv: list[str]) -> None:
    """Train as the options in ``argv`` say; with ``--seeds`` once for each of them."""
    seeds, rest = split_seeds(argv)
    if seeds is None:
        FitCLI(argv).train()
        return
    for name, figure in fit_seeds(seeds, rest, _fit).items():
        values = ", ".join(f"{value:.4f}" for value in figure["values"])
        say(f"{name:<20} {figure['mean']:.4f} ± {figure['std']:.4f}   ({values})")


def _fit(argv: list[str]) -> tuple[Path, dict[str, Any]]:
    cli = FitCLI(argv)
    cli.train()
    return cli.plan.folder.path, read_card(cli.plan.folder.path)


class FitCLI(ConfiguredCLI):
    """Plans the run, builds everything, trains, and measures the final model."""

    def __init__(self, argv: list[str]) -> None:
        self._warnings: list[str] = []
        self._trained_for: str | None = None
        self._data_state: dict[str, Any] = {}
        super().__init__("fit", argv)

    # Before anything is built -------------------------------------------------------------------

    def before_instantiate_classes(self) -> None:
        """Choose the folder, the architecture and the arithmetic."""
        config = self.config
        if config.trainer.max_steps == 0:
            raise UserError("trainer.max_steps is 0: train for at least 1 step.")
        if config.keep_every is not None and config.keep_every < 1:
            raise UserError(f"--keep_every is {config.keep_every}: it must be 1 step or more.")
        if config.init_from is not None and config.ckpt_path not in (None, "last"):
            raise UserError(
                f"--init_from {config.init_from} starts a new run and --ckpt_path "
                f"{config.ckpt_path} goes on with one: give one of them."
            )
        self.recipe = recipe_name([str(file) for file in config.get("config") or ()])
        self.plan = plan_run(config.run_name, config.runs_dir, self.recipe, config.ckpt_path)
        self._tokenizer_spec = config.data.init_args.get("tokenizer")
        self.start_step = 0
        self.init_from = None if self.plan.checkpoint else config.init_from
        source = self.plan.checkpoint or self.init_from
        if source is not None:
            checkpoint = self.adopt(source, "warm_start" if self.init_from else "continue")
            self.start_step = 0 if self.init_from else checkpoint["global_step"]
            self._trained_for = None if self.init_from else checkpoint["objective"]
            if self.plan.checkpoint:  # Lightning keeps it under the class's name
                data_class = str(config.data.class_path).rpartition(".")[2]
                self._data_state = checkpoint.get(data_class, {})
        if self.init_from is not None:
            self._tokenizer_spec = str(self.plan.folder.tokenizer)
            say(f"Weights, architecture and tokenizer come from {self.init_from}.")
        self._resolve_precision()

    def _resolve_precision(self) -> None:
        trainer = self.config.trainer
        asked, accelerator = trainer.precision, str(trainer.accelerator)
        earlier = self.plan.folder.config
        if asked == "auto" and self.plan.continues and earlier.is_file():
            # A run keeps the arithmetic that it has, on another machine too.
            asked = yaml.safe_load(earlier.read_text("utf-8"))["trainer"]["precision"]
        trainer.precision = resolve_precision(asked, accelerator)
        if trainer.precision == "16-mixed" and device_of(accelerator).type == "cpu":
            raise UserError(
                "trainer.precision 16-mixed needs a GPU, and there is none: use auto or bf16-mixed."
            )
        warning = slow_precision_warning(trainer.precision, accelerator)
        if warning is not None:
            self._warn(warning)

    def _warn(self, line: str) -> None:
        say(line)
        self._warnings.append(line)

    # Building -----------------------------------------------------------------------------------

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """A Trainer with the run's callbacks and loggers; nothing is written yet."""
        options = dict(self.config_init.trainer)
        given = options["callbacks"] or []
        given = list(given) if isinstance(given, (list, tuple)) else [given]
        if options["log_every_n_steps"] is None:
            if options["max_steps"] > 0:
                options["log_every_n_steps"] = log_interval(options["max_steps"])
            else:
                given.append(LogRhythm())
        folder = self.plan.folder
        facts = {
            "recipe": self.recipe,
            "run_name": folder.name,
            "precision": options["precision"],
            "init_from": self.config.init_from,
            "warnings": self._warnings,
        }
        self.card = RunCard(folder.card, facts)
        options["callbacks"] = run_callbacks(
            folder,
            RunFiles(folder, self.config_text, self.settings()),
            self.card,
            self._validation_schedule(options),
            given,
            show_progress=options["enable_progress_bar"] is not False,
            keep_checkpoints=options["enable_checkpointing"] is not False,
            keep_every=self.config.keep_every,
        )
        logger = options["logger"]
        loggers = [logger] if isinstance(logger, Logger) else logger
        options["logger"] = run_loggers(folder, loggers, note=self._warn)
        options["enable_model_summary"] = bool(options["enable_model_summary"])
        options["default_root_dir"] = options["default_root_dir"] or folder.path
        options["plugins"] = [*_as_list(options["plugins"]), AtomicCheckpointIO()]
        return RunTrainer(**options)

    @staticmethod
    def _validation_schedule(options: dict[str, Any]) -> ValidationSchedule:
        """Ours, as far as the user has not said otherwise."""
        own_interval = (
            options["val_check_interval"] is None
            and options["check_val_every_n_epoch"] == 1
            and not options["fast_dev_run"]
        )
        return ValidationSchedule(
            times_per_run=TIMES_PER_RUN if own_interval else None,
            batches=BATCHES if options["limit_val_batches"] is None else None,
        )

    def config_text(self, uses_cache: bool | None) -> str:
        """The complete configuration, free of what would keep the run from being repeated."""
        config = self.config.clone()
        config.pop("config", None)
        config.run_name = config.ckpt_path = None
        if self.vocabulary_is_open:
            config.model.init_args.network.vocab_size = None
        init_args = config.data.init_args
        if "tokenizer" in init_args:
            init_args.tokenizer = self._tokenizer_spec
        if "cache" in init_args and uses_cache is not None:
            init_args.cache = uses_cache
        return self.dump(config)

    # Training -----------------------------------------------------------------------------------

    def train(self) -> None:
        """Check, make the folder, fit, measure the final model on the whole split, say what was."""
        plan, folder = self.plan, self.plan.folder
        if self._has_nothing_to_do():
            return
        if self._trained_for is not None and isinstance(self.model, TransformerTask):
            check_objective(self.model.objective, self._trained_for)
        say("Reading the data (what is cached already is used again) ...")
        self._check_data()
        make_folder(folder, plan.is_new)
        if plan.note is not None:
            say(plan.note)
        self._cut_back()
        self.card.write()
        say(f"Run {folder.path}, precision {self.config.trainer.precision}.")
        try:
            with one_voice():
                self._fit_and_measure()
        except BaseException as error:
            if self.card.values["status"] == "running":
                self.card.write(status="failed")
            say(
                f"Run {folder.path} is {self.card.values['status']}. The same command with "
                f"--run_name {folder.name} --ckpt_path last goes on with it."
            )
            if isinstance(error, StopSignalError):
                # Of the ranks the first one speaks: Lightning's launcher kills it at once where
                # another one ends with a status.
                status = 128 + error.signum if is_first_rank() else 0
                raise SystemExit(status) from error
            if isinstance(error, SIGTERMException):  # which would exit with status 0
                raise SystemExit(128 + signal.SIGTERM) from error
            if isinstance(error.__context__, KeyboardInterrupt):  # which would exit with status 1
                raise SystemExit(128 + signal.SIGINT) from error
            raise
        finally:
            release_folder()
            self._close_loggers()
        for line in closing_lines(folder, self.card.values, self._wandb() is not None):
            say(line)

    def _cut_back(self) -> None:
        """Drop what an earlier start logged after the checkpoint: those steps come anew."""
        cut_back(self.plan.folder.metrics, self.start_step)
        samples_file.cut_back(self.plan.folder.samples, self.start_step)
        for logger in self.trainer.loggers:
            if isinstance(logger, TrackioLogger):
                logger.cut_back(self.start_step)

    def _has_nothing_to_do(self) -> bool:
        """Whether the run of this name has come to its end, so that a repeated command is done."""
        folder, trainer = self.plan.folder, self.config.trainer
        if not self.plan.continues or read_card(folder.card).get("status") != "finished":
            return False
        if trainer.max_steps > 0:
            more, is_done = "max_steps", trainer.max_steps <= self.start_step
        else:
            before = yaml.safe_load(folder.config.read_text("utf-8"))["trainer"]
            kept = [trainer[name] == before[name] for name in ("max_steps", "max_epochs")]
            more, is_done = "max_epochs", all(kept)
        if is_done:
            say(
                f"Run {folder.path} is finished at step {self.start_step}: nothing to do. "
                f"A larger --trainer.{more} would go on with it."
            )
        return is_done

    def _check_data(self) -> None:
        """Read the corpus and compare it with the model, before anything is written.

        Where several processes were started from outside, Lightning's own hooks do it: there one
        process prepares the data while the others wait.
        """
        if any(name in os.environ for name in _RANK_VARIABLES):
            return
        if not isinstance(self.datamodule, ResumableDataModule):
            return
        self.datamodule.trainer = self.trainer
        self.datamodule.prepare_data()
        self.datamodule.setup("fit")
        self.datamodule.check_continues(self._data_state)
        if isinstance(self.model, TransformerTask):
            check_fit(self.model.objective, self.model.config, self.datamodule)
        data = self.datamodule
        if isinstance(self.model, Classification) and isinstance(data, ClassificationDataModule):
            self.model.finetuning.weights_of(data.labels.kind, data.class_counts)

    def _fit_and_measure(self) -> None:
        trainer, data = self.trainer, self.datamodule
        if self.init_from is not None:
            self.model.init_weights_from(self.init_from)
        trainer.fit(self.model, datamodule=data, ckpt_path=self.plan.checkpoint)
        measured: dict[str, Any] = {}
        if trainer.limit_val_batches:
            with whole_split(trainer):
                measured = dict(trainer.validate(self.model, datamodule=data, verbose=False)[0])
                if isinstance(self.model, Classification):
                    write_predictions(self.plan.folder, trainer, self.model, data)
                    show_confusion(self.plan.folder, self.model, self._wandb())
        self.card.finish(trainer, measured)
        final = {f"final/{key}": value for key, value in measured.items() if "/" in key}
        for logger in trainer.loggers if final and trainer.is_global_zero else ():
            logger.log_metrics(final, step=trainer.global_step)

    def _wandb(self) -> SafeWandbLogger | None:
        loggers = self.trainer.loggers
        return next((one for one in loggers if isinstance(one, SafeWandbLogger)), None)

    def _close_loggers(self) -> None:
        for logger in self.trainer.loggers:
            if isinstance(logger, (SafeWandbLogger, TrackioLogger)):
                logger.close()


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]
