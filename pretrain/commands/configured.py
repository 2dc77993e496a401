"""A command that takes a configuration: recipe files and options, checked, into objects."""

import tempfile
import warnings
from pathlib import Path
from typing import Any, Literal

import jsonargparse
import yaml
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.utilities.exceptions import MisconfigurationException

import pretrain.data.classification
import pretrain.data.datamodule
import pretrain.runs.strategies  # fsdp2 is found among what is imported
import pretrain.tasks  # noqa: F401  short class names are found among what is imported
from pretrain.commands.adoption import Use, refuse_contradictions, write_base_layer
from pretrain.commands.complaints import explain, refuse_abbreviations
from pretrain.data.classification import ClassificationDataModule
from pretrain.data.labels import Labels
from pretrain.errors import UserError
from pretrain.hardware import resolve_precision, use_tensor_cores
from pretrain.runs.console import hush_libraries, say
from pretrain.runs.ranks import watch_over_ranks
from pretrain.tasks.checkpoint_file import read_checkpoint

DEFAULT_SEED = 1
Precision = Literal["auto", "bf16-mixed", "16-mixed", "32-true", "bf16-true", "16-true", "64-true"]


class RunTrainer(Trainer):
    """Lightning's Trainer, whose precision may be ``auto``: what this machine is fast in.

    Args:
        precision: arithmetic of the training; ``auto`` asks the device.
        kwargs: those of ``lightning.Trainer``.
    """

    def __init__(self, *, precision: Precision = "auto", **kwargs: Any) -> None:
        accelerator = kwargs.get("accelerator", "auto")
        name = accelerator if isinstance(accelerator, str) else "auto"
        resolved = resolve_precision(precision, name)
        use_tensor_cores(resolved, name)
        super().__init__(precision=resolved, **kwargs)  # type: ignore[arg-type]
        watch_over_ranks(self)


class ConfiguredCLI(LightningCLI):
    """Parses ``argv`` into a task, a DataModule and a Trainer.

    One parser without subcommands, so that an abbreviated or unknown key is always refused, and a
    configuration file holds the same keys for every command.

    Args:
        command: the command's name, for the help text.
        argv: its options.
    """

    def __init__(self, command: str, argv: list[str]) -> None:
        hush_libraries()
        self.argv = argv
        self.vocabulary_is_open = False
        self._labels: dict[str, Any] | None = None  # of a classifier that was trained already
        self._scratch = tempfile.TemporaryDirectory(prefix="pretrain-")
        super().__init__(
            LightningModule,
            LightningDataModule,
            save_config_callback=None,
            trainer_class=RunTrainer,
            seed_everything_default=DEFAULT_SEED,
            parser_kwargs={
                "prog": f"pretrain {command}",
                "description": "Keys may stand in YAML files (--config FILE, the last one wins) "
                "and on the command line.",
                "allow_abbrev": False,
                "exit_on_error": False,
            },
            subclass_mode_model=True,
            subclass_mode_data=True,
            args=argv,
            run=False,
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Options about the run itself, beside model, data and trainer."""
        parser.add_argument("--run_name", type=str | None, help="The run's folder in runs_dir.")
        parser.add_argument("--runs_dir", type=str, default="runs", help="Where runs live.")
        parser.add_argument(
            "--ckpt_path", type=str | None, help="A checkpoint, or 'last' of the run of this name."
        )
        parser.add_argument(
            "--keep_every",
            type=int | None,
            help="Keep a checkpoint of every N-th step, beside last.ckpt and best.ckpt.",
        )
        parser.add_argument(  # of fit alone, but a run's config.yaml serves every command
            "--init_from",
            type=str | None,
            help="Start a new run with this checkpoint's weights, architecture and tokenizer.",
        )

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse, and say in one sentence what is wrong."""
        self.config = self._parse(args)

    def instantiate_classes(self) -> None:
        """Build task, DataModule and Trainer; what cannot work together is a user's mistake."""
        try:
            super().instantiate_classes()
            if self._labels is not None and isinstance(self.datamodule, ClassificationDataModule):
                self.datamodule.use_labels(Labels.from_dict(self._labels))
        except (ValueError, TypeError, MisconfigurationException) as error:
            raise UserError(explain(str(error), self.parser)) from error

    def adopt(self, checkpoint_path: str | Path, use: Use) -> dict[str, Any]:
        """Take architecture and tokenizer from a checkpoint, and return the checkpoint.

        What may differ from it depends on ``use``. Raises ``UserError`` where the configuration
        contradicts the checkpoint's architecture.
        """
        checkpoint = read_checkpoint(str(checkpoint_path))
        network = checkpoint["hyper_parameters"]["network"]
        self.vocabulary_is_open = self.config.model.init_args.network.get("vocab_size") is None
        scratch = Path(self._scratch.name)
        layer = scratch / "architecture.yaml"
        classes = self.config.model.class_path, self.config.data.class_path
        write_base_layer(checkpoint, *classes, layer)
        files = self.config.get("config")
        self.config = self._parse(["--config", str(layer), *self.argv])
        self.config["config"] = files
        asked = self.config.model.init_args.network
        if asked.get("vocab_size") is None:  # open: the tokenizer decides it
            asked.vocab_size = network["vocab_size"]
        change = refuse_contradictions(vars(asked), network, checkpoint_path, use)
        if change is not None:
            say(change)
        if use != "warm_start":  # what starts from it may tell other things apart
            self._labels = checkpoint["hyper_parameters"].get("labels")
        if checkpoint.get("tokenizer") is not None:
            tokenizer = scratch / "tokenizer.json"
            tokenizer.write_text(checkpoint["tokenizer"], encoding="utf-8")
            self.config.data.init_args.tokenizer = str(tokenizer)
        return checkpoint

    def _parse(self, arguments: list[str]) -> jsonargparse.Namespace:
        try:
            config = self.parser.parse_args(arguments)
        except jsonargparse.ArgumentError as error:
            raise UserError(explain(str(error), self.parser)) from error
        except UnicodeDecodeError as error:
            raise UserError(f"A --config file is no UTF-8 text ({error.reason}).") from error
        for key in ("trainer", "model", "data"):
            if not isinstance(config.get(key), jsonargparse.Namespace):
                raise UserError(f"{key} is {config.get(key)!r}, but must hold keys of its own.")
        model = config.model.get("init_args") or {}
        if "network" in model and model["network"] is None:
            raise UserError("model.network is null: leave it out, and the defaults are used.")
        refuse_abbreviations(arguments, config)
        return config

    def dump(self, config: jsonargparse.Namespace) -> str:
        """``config`` as YAML text that ``--config`` reads back."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.parser.dump(config, skip_none=False)

    def settings(self) -> dict[str, Any]:
        """The configuration as nested plain values."""
        settings: dict[str, Any] = yaml.safe_load(self.dump(self.config))
        return settings
