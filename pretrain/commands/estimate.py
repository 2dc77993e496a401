"""``pretrain estimate``: what a configuration costs, before anything is trained or read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from pretrain.commands.configured import ConfiguredCLI
from pretrain.commands.rehearsal import (
    Data,
    autocast_dtype,
    build,
    example_batch,
    fresh_copy,
    largest_rows,
)
from pretrain.data.classification import ClassificationDataModule
from pretrain.data.text_datamodule import TextDataModule
from pretrain.data.tokenizer import Tokenizer
from pretrain.diagnostics.memory import StepMemory, step_memory
from pretrain.diagnostics.peak_flops import peak_flops
from pretrain.errors import UserError
from pretrain.hardware import device_of, multiplies_bf16_fast, resolve_precision
from pretrain.runs.console import say
from pretrain.runs.folder import RunFolder
from pretrain.tasks import TransformerTask
from pretrain.tasks.optimizer import MuonAdamW

_FEW_CHARACTERS = 256  # the vocabulary of a character tokenizer that is not trained yet


@dataclass(frozen=True)
class Estimate:
    """What training costs.

    Attributes:
        parameters: Their numbers, by part of the network.
        flops_per_token: Of training, forward and backward.
        rows, seq_len: Of a micro-batch.
        accumulate: Micro-batches per optimizer step and process.
        n_processes: How many train together.
        memory: Of one process, in bytes, beyond what Python and its libraries hold.
        precision: Lightning's name of the arithmetic.
        notes: What had to be assumed, a sentence each.
    """

    parameters: dict[str, int]
    flops_per_token: float
    rows: int
    seq_len: int
    accumulate: int
    n_processes: int
    memory: StepMemory
    precision: str
    notes: list[str]

    @property
    def tokens_per_step(self) -> int:
        """Input tokens of one optimizer step, of all processes."""
        return self.rows * self.seq_len * self.accumulate * self.n_processes


def run(argv: list[str]) -> None:
    """Print what training with the options in ``argv`` would cost."""
    cli = EstimateCLI("estimate", argv)
    for line in lines(cli.estimate(), device_of(cli.accelerator)):
        say(line)


class EstimateCLI(ConfiguredCLI):
    """Takes the options of ``fit``, and builds task and DataModule without a Trainer or a folder.

    A Trainer would ask for devices that this machine may not have.
    """

    def before_instantiate_classes(self) -> None:
        """Take the architecture from a checkpoint where there is one; choose the arithmetic."""
        source = self._checkpoint()
        if source is not None:
            self.adopt(source, "warm_start" if self.config.init_from else "continue")
        trainer = self.config.trainer
        self.accelerator = str(trainer.accelerator)
        trainer.precision = resolve_precision(trainer.precision, self.accelerator)

    def instantiate_trainer(self, **kwargs: Any) -> Any:
        """None: nothing is trained."""
        return None

    def _checkpoint(self) -> str | Path | None:
        config = self.config
        if config.ckpt_path == "last" and config.run_name:
            last = RunFolder(Path(config.runs_dir) / config.run_name).last
            return last if last.is_file() else config.init_from
        return config.ckpt_path or config.init_from

    def estimate(self) -> Estimate:
        """The cost of training as the options say.

        Raises:
            UserError: The task or the DataModule is none of this package's.
        """
        task, data = self.model, self.datamodule
        if not isinstance(task, TransformerTask):
            raise UserError(f"{type(task).__name__} is no task of this package: nothing is known.")
        if not isinstance(data, (TextDataModule, ClassificationDataModule)):
            raise UserError(f"The batches of {type(data).__name__} are not known.")
        notes: list[str] = []
        is_open = task.config.vocab_size is None
        vocab_size = vocabulary(data.tokenizer_spec, notes) if is_open else None
        if task.compile_network:
            notes.append("compiled networks need less for activations than this eager estimate.")
        if self.is_divided:
            notes.append("of divided weights the whole of one block at a time comes on top.")
        task, options = fresh_copy(task, data, vocab_size), self.config.trainer
        memory = self._step_memory(task, data)
        return Estimate(
            parameters=_count(task),
            flops_per_token=task.flops_per_token(data.seq_len),
            rows=largest_rows(data),
            seq_len=data.seq_len,
            accumulate=options.accumulate_grad_batches,
            n_processes=n_processes(options),
            memory=memory,
            precision=options.precision,
            notes=notes,
        )

    @property
    def is_divided(self) -> bool:
        """Whether weights, gradients and states are divided over the processes."""
        return str(self.config.trainer.strategy) == "fsdp2"

    def _step_memory(self, task: TransformerTask, data: Data) -> StepMemory:
        """Build ``task`` of tensors without content, and run some steps on them."""
        options, device = self.config.trainer, device_of(self.accelerator)
        multiplies_bf16_fast(device)  # times a product, which needs content, and remembers
        # Metrics make copies of their states, which tensors without content refuse as they are.
        copied = patch.object(
            FakeTensor, "__deepcopy__", lambda self, memo: self.clone(), create=True
        )
        with FakeTensorMode(), copied:
            build(task, self.accelerator, options.precision)
            with torch.device(device):
                batch = example_batch(task, data, largest_rows(data))
            memory = step_memory(
                task,
                batch,
                MuonAdamW(task.parameter_groups()),
                autocast_dtype(options.precision),
                options.accumulate_grad_batches,
                1 if self.is_divided else n_processes(options),
            )
        memory = memory.on_heap() if device.type == "cpu" else memory
        return memory.divided(n_processes(options)) if self.is_divided else memory


def n_processes(options: Any) -> int:
    """How many processes the Trainer's options ask for, on all machines together."""
    devices = options.devices
    on_gpu = device_of(str(options.accelerator)).type == "cuda"
    if devices in ("auto", -1, "-1"):
        each = torch.cuda.device_count() if on_gpu else 1
    elif isinstance(devices, (list, tuple)):
        each = len(devices)
    else:
        text = str(devices)
        each = len([part for part in text.split(",") if part]) if "," in text else int(text)
    return each * int(options.num_nodes)


def lines(estimate: Estimate, device: torch.device) -> list[str]:
    """The figures for the user, a line each."""
    parts = ", ".join(f"{name} {n:,}" for name, n in estimate.parameters.items() if n)
    memory, peak = estimate.memory, peak_flops(device, estimate.precision)
    n_tokens = estimate.tokens_per_step
    seconds = estimate.flops_per_token * n_tokens / (peak * estimate.n_processes)
    shape = (
        f"{estimate.rows} rows x {estimate.seq_len} tokens x {estimate.accumulate} micro-batches "
        f"x {estimate.n_processes} processes"
    )
    shown = [
        f"Parameters         {sum(estimate.parameters.values()):,}: {parts}",
        f"FLOPs per token    {estimate.flops_per_token:,.0f}",
        f"Tokens per step    {n_tokens:,}: {shape}",
        f"Time per step      {seconds:.3g} s at the least, at the {peak / 1e9:,.0f} GFLOP/s of one "
        f"{device.type} in {estimate.precision}",
        f"Peak memory        {in_mib(memory.peak)} per process in the {memory.moment}, beyond "
        "what Python and its libraries hold:",
    ]
    shown += [f"  {name:<16} {in_mib(n)}" for name, n in by_size(memory.parts)]
    shown.append(f"Checkpoint         {in_mib(memory.kept)}")
    return [*shown, *(f"Note: {note}" for note in estimate.notes)]


def by_size(parts: dict[str, int]) -> list[tuple[str, int]]:
    """The parts that are there, the largest first."""
    return sorted(((name, n) for name, n in parts.items() if n), key=lambda part: -part[1])


def in_mib(n_bytes: float) -> str:
    """Bytes as MiB, or GiB where there are many."""
    mib = n_bytes / 2**20
    return f"{mib / 1024:,.2f} GiB" if mib >= 1024 else f"{mib:,.1f} MiB"


def vocabulary(spec: Any, notes: list[str]) -> int:
    """The size that a tokenizer's path or rule gives; ``notes`` is told what had to be assumed.

    Raises:
        UserError: There is no tokenizer.
    """
    if isinstance(spec, str):
        return Tokenizer.load(spec).vocab_size
    if spec is None:
        raise UserError("No tokenizer is known: give --data.tokenizer PATH or --init_from.")
    if spec.kind != "char":
        return int(spec.vocab_size)
    notes.append(
        f"a vocabulary of {_FEW_CHARACTERS} characters is assumed, since the text is not read; "
        "--model.network.vocab_size says another."
    )
    return _FEW_CHARACTERS


def _count(task: TransformerTask) -> dict[str, int]:
    counts = {"embeddings": 0, "blocks": 0, "head": 0}
    for name, parameter in task.named_parameters():
        part = "embeddings" if "embeddings." in name else "blocks" if "blocks." in name else "head"
        counts[part] += parameter.numel()
    return counts
