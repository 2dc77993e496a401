"""What ``pretrain doctor`` says of a configuration on this machine."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pretrain.commands.configured import RunTrainer
from pretrain.commands.estimate import Estimate, EstimateCLI, in_mib, vocabulary
from pretrain.commands.machine_checks import Finding, checked, disk, free_memory
from pretrain.commands.speeds import loader_speed, model_speed
from pretrain.data.classification import ClassificationDataModule
from pretrain.data.labelled import Example, ExampleSource
from pretrain.data.prepared import MAX_CACHED_BYTES
from pretrain.data.source import TextSource
from pretrain.data.streaming import check_workers
from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError
from pretrain.hardware import device_of, slow_precision_warning
from pretrain.runs.folder import plan_run, recipe_name
from pretrain.tasks.checks import check_fit

_SAMPLE_DOCUMENTS = {"train": 2000}  # of other splits a tenth
_SAMPLE_CHARACTERS = 2_000_000
_KEPT_FILES = 3  # last, best, and the one that is being written
_ESTIMATE_ERROR = 0.15
_MOST_UNKNOWN = 0.01


class ConfigurationChecks:
    """All checks of one configuration; a later one uses what an earlier one has found out.

    Args:
        cli: The configuration, with task and DataModule built.
    """

    def __init__(self, cli: EstimateCLI) -> None:
        self.cli, self.task, self.data = cli, cli.model, cli.datamodule
        self.device = device_of(cli.accelerator)
        self._sample: list[Example | Any] = []
        self._streams = False
        self._text_bytes: int | None = None
        self._estimate: Estimate | None = None
        self._fits_in_memory = False

    def findings(self) -> list[Finding]:
        """Every check, in order."""
        return [
            *checked("run", self._run),
            *checked("trainer", self._trainer),
            *checked("corpus", self._corpus),
            *checked("tokenizer", self._tokenizer),
            *checked("memory", self._memory),
            *checked("disk", self._disk),
            *checked("speed", self._speed),
        ]

    def _run(self) -> Iterator[Finding]:
        config = self.cli.config
        recipe = recipe_name([str(file) for file in config.get("config") or ()])
        plan = plan_run(config.run_name, config.runs_dir, recipe, config.ckpt_path)
        start = f"goes on from {plan.checkpoint}" if plan.checkpoint else "starts at step 0"
        yield Finding("ok", "run", f"{plan.folder.path} {start}")

    def _trainer(self) -> Iterator[Finding]:
        options = self.cli.config.trainer
        if options.precision == "16-mixed" and self.device.type == "cpu":
            raise UserError("precision 16-mixed needs a GPU: use auto or bf16-mixed.")
        slow = slow_precision_warning(options.precision, self.cli.accelerator)
        if slow is not None:
            yield Finding("warning", "trainer", slow)
        names = ("accelerator", "devices", "num_nodes", "strategy", "precision", "max_steps")
        try:
            RunTrainer(
                **{name: options[name] for name in names},
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
            )
        # Lightning raises errors of many kinds for devices and strategies that are not there.
        except Exception as error:
            raise UserError(str(error).strip().splitlines()[0]) from error
        yield Finding(
            "ok", "trainer", f"{options.devices} x {options.accelerator} in {options.precision}"
        )

    # The text ------------------------------------------------------------------------------------

    def _corpus(self) -> Iterator[Finding]:
        data = self.data
        names = list(data.source) if isinstance(data.source, dict) else [data.source]
        kind = ExampleSource if isinstance(data, ClassificationDataModule) else TextSource
        sizes: list[int | None] = []
        for name in names:
            source = kind(name, data.val_source, data.options, data.cache_dir)
            sizes.append(source.local_bytes)
            for split in source.splits:
                yield from self._read(source, split)
        self._text_bytes = None if None in sizes else sum(size or 0 for size in sizes)
        if not isinstance(data, ClassificationDataModule):
            self._check_stream(is_mixture=len(names) > 1)

    def _read(self, source: TextSource, split: str) -> Iterator[Finding]:
        documents: list[Any] = []
        n_characters = 0
        most = _SAMPLE_DOCUMENTS.get(split, _SAMPLE_DOCUMENTS["train"] // 10)
        members = (one for side, one in source._stream((split,)) if side == split)
        for document in islice(members, most):
            documents.append(document)
            n_characters += len(document.text)
            if n_characters > _SAMPLE_CHARACTERS:
                break
        if split == "train":
            self._sample += documents
        skipped = Counter(source.bad_records)
        about, text = "corpus", f"{source.name}: {len(documents):,} documents of {split} read"
        if skipped:
            reasons = ", ".join(f"{reason} ({n:,})" for reason, n in skipped.items())
            yield Finding(
                "warning", about, f"{text}, {skipped.total():,} records skipped: {reasons}"
            )
        else:
            yield Finding("ok", about, text)

    def _check_stream(self, is_mixture: bool) -> None:
        data, n_bytes = self.data, self._text_bytes
        is_small = n_bytes is not None and n_bytes <= MAX_CACHED_BYTES
        self._streams = not (is_small if data.cache is None else data.cache)
        if (self._streams or is_mixture) and self.cli.config.trainer.max_steps == -1:
            endless = "a mixture of sources" if is_mixture else "a stream"
            raise UserError(f"the length of {endless} is not known: set trainer.max_steps.")
        if self._streams:
            check_workers(data.num_workers, self._n_processes)

    def _tokenizer(self) -> Iterator[Finding]:
        data, task = self.data, self.task
        size = task.config.vocab_size or vocabulary(data.tokenizer_spec, [])
        spec = data.tokenizer_spec
        tokenizer = Tokenizer.load(spec) if isinstance(spec, str) else None
        if tokenizer is not None:
            size = tokenizer.vocab_size
            if not isinstance(data, ClassificationDataModule):
                data._check_tokenizer(tokenizer)
        elif spec is not None and spec.kind != "char":
            size = spec.vocab_size
        facts = {"objective": data.objective, "seq_len": data.seq_len}
        known = SimpleNamespace(vocab_size=size)
        # What the DataModule will be, under its own name: its tokenizer may not be trained yet.
        view = type(type(data).__name__, (), {**facts, "tokenizer": known})()
        check_fit(task.objective, task.config, view)
        if tokenizer is None:
            yield Finding(
                "ok", "tokenizer", f"will be trained ({spec.kind}), up to {size:,} tokens"
            )
        else:
            yield self._unknown_share(tokenizer)

    def _unknown_share(self, tokenizer: Tokenizer) -> Finding:
        ids = [
            index
            for document in tokenizer.encode_documents([one.text for one in self._sample[:200]])
            for index in document
        ]
        share = sum(index == tokenizer.unk_id for index in ids) / max(1, len(ids))
        text = f"{tokenizer.vocab_size:,} tokens, {100 * share:.1f} % of the text unknown to it"
        if share > _MOST_UNKNOWN:
            return Finding(
                "warning", "tokenizer", f"{text}: train one on this text (--data.tokenizer.kind)"
            )
        return Finding("ok", "tokenizer", text)

    # Room ----------------------------------------------------------------------------------------

    def _memory(self) -> Iterator[Finding]:
        self._estimate = estimate = self.cli.estimate()
        peak, free = estimate.memory.peak, free_memory(self.device)
        on_cpu = self.device.type == "cpu"  # where the processes share it
        needed = peak * (
            self._n_processes // int(self.cli.config.trainer.num_nodes) if on_cpu else 1
        )
        remedy = "lower data.batch_size and raise trainer.accumulate_grad_batches"
        if free is None:
            yield Finding("warning", "memory", f"{in_mib(needed)} needed; what is free is unknown")
            return
        text = f"{in_mib(needed)} needed at the peak, {in_mib(free)} free"
        self._fits_in_memory = needed < free
        if needed >= free:
            yield Finding("fault", "memory", f"{text}: {remedy}")
        elif needed * (1 + _ESTIMATE_ERROR) >= free:
            yield Finding("warning", "memory", f"{text}, which is close: {remedy}")
        else:
            yield Finding("ok", "memory", text)

    def _disk(self) -> Iterator[Finding]:
        if self._estimate is not None:
            needed = _KEPT_FILES * self._estimate.memory.kept
            yield disk("disk of runs_dir", Path(self.cli.config.runs_dir), needed)
        if not self._streams and self._text_bytes is not None:
            # Two bytes a token, and no more tokens than bytes.
            yield disk("disk of cache_dir", self.data.cache_dir, 2 * self._text_bytes)

    @property
    def _n_processes(self) -> int:
        return 1 if self._estimate is None else self._estimate.n_processes

    # Speed ---------------------------------------------------------------------------------------

    def _speed(self) -> Iterator[Finding]:
        if not self._sample or self._estimate is None or not self._fits_in_memory:
            yield Finding("warning", "speed", "not measured, for what is said above")
            return
        loader = loader_speed(self.data, self._sample, self._streams)
        text = f"the loader gives {loader:,.0f} tokens/s"
        model = model_speed(self.cli, self._estimate)
        if model is None:
            yield Finding("warning", "speed", f"{text}; one row takes the network too long here")
            return
        text += f", the network takes {model:,.0f} in each process"
        in_turns = self.data.num_workers == 0  # the loader's time adds to the network's
        waits = model / (loader + model) if in_turns else 1 - loader / model
        if waits > 0.1:
            more = max(2, 2 * self.data.num_workers)
            remedy = f"it waits {100 * waits:.0f} % of the time: try --data.num_workers {more}"
            yield Finding("warning", "speed", f"{text}: {remedy}")
        else:
            yield Finding("ok", "speed", text)
