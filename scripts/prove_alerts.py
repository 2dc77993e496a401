"""Trainings that are made sick on purpose, each of which must raise its own alert first.

Usage: python scripts/prove_alerts.py --json FILE [--only TEXT] [--steps N]
Every sickness trains a tiny model on made-up text. It is found if the first alert is its own; what
may follow from it is listed beside it, and nothing else may be raised. A healthy training of the
same size raises none. Exits with 1 where one is not found.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn

from pretrain.data import CausalLMDataModule, MaskedLMDataModule
from pretrain.data.tokenizer_training import TokenizerRule
from pretrain.diagnostics import SYMPTOMS, Alerts, ForwardProbe, LossLevel, StepObserver
from pretrain.errors import UserError
from pretrain.tasks import CausalLM, MaskedLM, OptimizerConfig, ScheduleConfig

EVERY = 10  # steps between probes
WORDS = {False: "bpe", True: "wordpiece"}
ADAMW = {"matrices": "adamw"}
PLAIN = {"qk_norm": False, "norm": "layernorm", "norm_gain": True, "linear_bias": True}


@dataclass(frozen=True)
class Sickness:
    """One training.

    Attributes:
        alert: The alert that has to come first; None for a healthy one.
        consequences: Alerts that may follow.
        network, lr, optimizer, warmup: What differs from the healthy training's recipe.
        masked: Whether it is a masked language model.
        harm: What is done to the task once its network is built.
    """

    alert: str | None
    consequences: tuple[str, ...] = ()
    network: dict[str, Any] = field(default_factory=dict)
    lr: float = 0.02
    optimizer: dict[str, Any] = field(default_factory=dict)
    warmup: int = 0
    masked: bool = False
    harm: Callable[[Any], None] = lambda task: None


def without_scaling(task: Any) -> None:
    """softmax(q kᵀ) without 1/√d."""
    for block in task.transformer.blocks:
        block.attention.core.scale = 1.0


def see_the_future(task: Any) -> None:
    """The causal mask is gone; the labels still are the next tokens."""
    task.transformer.causal = False


def freeze_embeddings(task: Any) -> None:
    """Nothing tells the user that they do not learn."""
    task.transformer.embeddings.requires_grad_(False)


@torch.no_grad()
def copy_heads(task: Any) -> None:
    """Every head begins as the first one, which it then stays."""
    for block in task.transformer.blocks:
        attention = block.attention
        for part in attention.qkv.weight.split(task.config.d_model):
            part.copy_(part[: attention.head_dim].repeat(attention.n_heads, 1))
        columns = attention.output.weight[:, : attention.head_dim]
        attention.output.weight.copy_(columns.repeat(1, attention.n_heads))


class HalfPrecisionNorm(nn.LayerNorm):
    """Mean and variance in float16, where an epsilon of 1e-12 is nothing."""

    def forward(self, x: Tensor) -> Tensor:
        """``(..., d_model)`` to the same shape."""
        half = x.half()
        centred = half - half.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return (centred / (variance + self.eps).sqrt()).float()


@torch.no_grad()
def norms_in_float16(task: Any) -> None:
    """Embeddings that are small, and norms whose statistics underflow on them."""
    task.transformer.embeddings.token.weight.mul_(0.02)
    for part in task.modules():
        for name, child in part.named_children():
            if isinstance(child, nn.LayerNorm):
                setattr(part, name, HalfPrecisionNorm(task.config.d_model, eps=1e-12))


@torch.no_grad()
def spread_biases(task: Any) -> None:
    """First biases of the feed-forward layers uniform in ±0.1 instead of 0."""
    for block in task.transformer.blocks:
        block.feed_forward.up.bias.uniform_(-0.1, 0.1)


RELU_LR = 0.1
RELU = {**PLAIN, "qk_norm": True, "activation": "relu", "init": "kaiming", "d_ff": 128}
SICKNESSES = {
    "healthy GPT": Sickness(None),
    "healthy BERT": Sickness(None, masked=True),
    "no 1/√d": Sickness(
        "attention_saturated",
        ("attention_logits_large", "wasted_heads"),
        network={**PLAIN, "d_model": 128, "n_heads": 1},
        harm=without_scaling,
    ),
    "ReLU with zero biases, large learning rate": Sickness(
        "units_dying", ("updates_too_large", "gradient_spikes", "loss_stuck_at_unigram"),
        network=RELU, lr=RELU_LR, optimizer=ADAMW, warmup=10,
    ),
    "Post-LN, warm-up too short": Sickness(
        "loss_stuck_at_unigram", ("units_dying", "heads_alike", "gradient_spikes"),
        network={**PLAIN, "norm_position": "post", "activation": "gelu", "init": "normal",
                 "n_layers": 6},
        lr=1e-2, optimizer=ADAMW, warmup=2, masked=True,
    ),
    "norm in float16, epsilon too small": Sickness(
        "norm_input_vanishing", network={**PLAIN, "init": "normal"}, lr=1e-3, optimizer=ADAMW,
        harm=norms_in_float16,
    ),
    "leaking causal mask": Sickness("loss_implausibly_low", harm=see_the_future),
    "frozen embeddings": Sickness("embeddings_frozen", harm=freeze_embeddings),
    "heads initialised alike": Sickness("heads_alike", harm=copy_heads),
    "learning rate × 100": Sickness(
        "updates_too_large",
        ("gradient_spikes", "units_dying", "loss_stuck_at_unigram", "attention_saturated",
         "attention_uniform", "wasted_heads", "heads_alike", "attention_logits_large"),
        network={**PLAIN, "init": "normal"}, lr=0.1, optimizer=ADAMW,
    ),
}  # fmt: skip


def main() -> None:
    """Train all, write what was raised, exit with 1 where something else was than should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="where the table goes")
    parser.add_argument("--only", default="", help="sicknesses whose name holds this text")
    parser.add_argument("--steps", type=int, default=600, help="optimizer steps of each")
    options = parser.parse_args()
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        text = made_up_text(Path(folder) / "text.txt")
        for name, sickness in SICKNESSES.items():
            if options.only in name:
                raised = train(sickness, text, options.steps)
                table[name] = {"raised": raised, "found": is_found(sickness, raised)}
                print(f"{name}: {table[name]}", flush=True)
        if not options.only:
            table["dead share with biases of 0 and ±0.1"] = compare_biases(text, options.steps)
    options.json.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", "utf-8")
    sys.exit(not all(row.get("found", True) for row in table.values()))


def is_found(sickness: Sickness, raised: list[tuple[str, int]]) -> bool:
    """Whether its own alert came first, and only its consequences after it."""
    names = [name for name, _ in raised]
    if sickness.alert is None:
        return not names
    return names[:1] == [sickness.alert] and {*names[1:]} <= {*sickness.consequences}


def train(sickness: Sickness, text: Path, n_steps: int) -> list[tuple[str, int]]:
    """The alerts of one training, with their steps."""
    alerts = Alerts(SYMPTOMS)
    fit(sickness, text, n_steps, alerts)
    return [(alert.name, alert.step) for alert in alerts.raised]


def fit(sickness: Sickness, text: Path, n_steps: int, alerts: Alerts) -> pl.Trainer:
    """Train until the last step, or until numbers are not finite any more."""
    pl.seed_everything(1, verbose=False)
    kind, data = (
        (MaskedLM, MaskedLMDataModule) if sickness.masked else (CausalLM, CausalLMDataModule)
    )
    network = {"d_model": 64, "n_layers": 2, "n_heads": 4, **sickness.network}
    task = type("Sick", (_Harmed, kind), {"harm": staticmethod(sickness.harm)})(
        network=network,
        lr=sickness.lr,
        optimizer=OptimizerConfig(**sickness.optimizer),
        schedule=ScheduleConfig(warmup=sickness.warmup),
    )
    trainer = pl.Trainer(
        accelerator="cpu", precision="32-true", max_steps=n_steps, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        log_every_n_steps=EVERY, val_check_interval=5 * EVERY, check_val_every_n_epoch=None,
        limit_val_batches=2, num_sanity_val_steps=0, gradient_clip_val=1.0,
        callbacks=[
            ForwardProbe(EVERY, window=16), StepObserver(EVERY), LossLevel(EVERY), alerts,
        ],
    )  # fmt: skip
    loader = data(
        source=str(text), tokenizer=TokenizerRule(WORDS[sickness.masked], vocab_size=800),
        seq_len=64, batch_size=16, cache_dir=str(text.parent / "cache"),
    )  # fmt: skip
    with suppress(UserError):  # the numbers are not finite any more, and the run ends
        trainer.fit(task, datamodule=loader)
    return trainer


class _Harmed:
    harm: Callable[[Any], None]

    def configure_model(self) -> None:
        """Build the network, then harm it."""
        is_new = self.transformer is None  # type: ignore[attr-defined]
        super().configure_model()  # type: ignore[misc]
        if is_new:
            self.harm(self)


def compare_biases(text: Path, n_steps: int) -> dict[str, float]:
    """The mean dead share at the end of the sick ReLU training, and with biases in ±0.1."""
    shares = {}
    for name, harm in (("0", lambda task: None), ("±0.1", spread_biases)):
        sickness = Sickness(None, network=RELU, lr=RELU_LR, optimizer=ADAMW, warmup=10, harm=harm)
        metrics = fit(sickness, text, n_steps, Alerts(())).callback_metrics
        dead = [float(metrics[f"ffn/dead_share/layer_{layer}"]) for layer in range(2)]
        shares[name] = sum(dead) / len(dead)
    print(f"dead share: {shares}", flush=True)
    return shares


def made_up_text(path: Path, n_sentences: int = 20_000) -> Path:
    """Sentences of ten words, each drawn from the thirty of its place: context halves the loss."""
    draw = random.Random(1)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words = [
        "".join(pair) for pair in draw.sample([(a, b) for a in syllables for b in syllables], 300)
    ]
    sentences = [
        " ".join(draw.choice(words[30 * place : 30 * place + 30]) for place in range(10))
        for _ in range(n_sentences)
    ]
    path.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
