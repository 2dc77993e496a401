"""What each position scheme is worth beyond the length that it was trained at.

Usage: python scripts/context_extension.py [--source TEXT] [--json FILE]

One small causal model per scheme is trained at one length on characters. Then the last characters
of every held-out window are predicted from contexts of one, two and four times that length: the
same targets each time, so that the losses compare. A scheme that extends gets better with context.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer, seed_everything

from pretrain.data import CausalLMDataModule
from pretrain.data.tokenizer_training import TokenizerRule
from pretrain.hardware import resolve_precision
from pretrain.model import TransformerConfig
from pretrain.runs.console import hush_libraries, say
from pretrain.runs.environment import describe_machine
from pretrain.tasks import CausalLM

MULTIPLES = (1, 2, 4)
MAX_BATCHES = 32  # of held-out windows
IGNORED = -100  # label of what is no target


@dataclass(frozen=True)
class Plan:
    """What is trained: sizes that end within ten minutes on two CPU cores."""

    length: int = 64
    steps: int = 500
    batch_size: int = 16
    network: dict[str, Any] = field(
        default_factory=lambda: {"n_layers": 4, "n_heads": 4, "d_model": 128}
    )


@dataclass(frozen=True)
class Scheme:
    """A row of the report.

    Attributes:
        name: What it is called.
        trained: The ``position`` of the model whose weights are used.
        reach: From the multiple and the length in tokens, how the network is changed to read that
            far; None where nothing has to be.
    """

    name: str
    trained: str
    reach: Callable[[int, int], dict[str, Any]] = lambda multiple, length: {}


SCHEMES = (
    Scheme("learned, interpolated", "learned", lambda k, length: {"max_len": k * length}),
    Scheme("sinusoidal", "sinusoidal"),
    Scheme("rotary", "rotary"),
    Scheme("rotary, linear scaling", "rotary", lambda k, length: {"rotary_factor": float(k)}),
    Scheme(
        "rotary, ntk scaling",
        "rotary",
        lambda k, length: {"rotary_factor": float(k), "rotary_scaling": "ntk"},
    ),
    # At the trained length the window hides nothing, so these weights serve here too.
    Scheme("rotary, sliding window", "rotary", lambda k, length: {"sliding_window": length}),
    Scheme("xpos", "xpos"),
    Scheme("alibi", "alibi"),
    Scheme("none", "none"),
)


def main() -> None:
    """Train, measure, print the table and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", default="builtin", help="a corpus: builtin, a file, a name")
    parser.add_argument("--json", type=Path, help="where the figures go")
    options = parser.parse_args()
    hush_libraries()
    report = measure(options.source, Plan())
    say(table(report))
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def measure(source: str, plan: Plan) -> dict[str, Any]:
    """The report: what was trained where, and nats per token by scheme and multiple."""
    windows = data_of(source, plan, MULTIPLES[-1] * plan.length)
    windows.prepare_data()
    windows.setup("validate")
    nats: dict[str, dict[int, float]] = {}
    n_targets = 0
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "model.ckpt"
        for position in dict.fromkeys(scheme.trained for scheme in SCHEMES):
            config = train(source, plan, position, checkpoint)
            for scheme in (one for one in SCHEMES if one.trained == position):
                losses = nats[scheme.name] = {}
                for multiple in MULTIPLES:
                    changes = scheme.reach(multiple, plan.length)
                    task = read_further(checkpoint, replace(config, **changes))
                    context = multiple * plan.length
                    losses[multiple], n_targets = evaluate(task, windows, context, plan.length)
                say(f"{scheme.name}: {', '.join(f'{loss:.3f}' for loss in losses.values())}")
    return {
        "machine": describe_machine(),
        "precision": resolve_precision("auto"),
        "source": source,
        "plan": asdict(plan),
        "targets": n_targets,
        "nats": nats,
    }


def data_of(source: str, plan: Plan, seq_len: int) -> CausalLMDataModule:
    """Characters of the source in rows of ``seq_len``; of a file the last tenth is held out."""
    whole = {"document": "file", "split": "tail", "split_share": 0.1}
    return CausalLMDataModule(
        source=source,
        tokenizer=TokenizerRule("char", end_token=False),
        seq_len=seq_len,
        batch_size=plan.batch_size,
        **({} if source == "builtin" else whole),
    )


def train(source: str, plan: Plan, position: str, checkpoint: Path) -> TransformerConfig:
    """Train one model at the plan's length and save it; returns what its network is."""
    seed_everything(1, verbose=False)
    shape = {**plan.network, "position": position, "max_len": plan.length}
    task = CausalLM(network=TransformerConfig(**shape))
    trainer = Trainer(
        max_steps=plan.steps,
        precision=resolve_precision("auto"),
        gradient_clip_val=1.0,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, datamodule=data_of(source, plan, plan.length))
    trainer.save_checkpoint(checkpoint)
    return task.config


def read_further(checkpoint: Path, config: TransformerConfig) -> CausalLM:
    """The trained weights in a network that reads as ``config`` says."""
    task = CausalLM(network=config)
    task.init_weights_from(str(checkpoint))
    task.configure_model()
    return task.eval()


def evaluate(
    task: CausalLM, windows: CausalLMDataModule, context: int, n_targets: int
) -> tuple[float, int]:
    """Nats per token of the last ``n_targets`` of each window, seen with ``context`` tokens.

    The first of them sees ``context - n_targets`` tokens before its own input, the last all.
    """
    nll, count = 0.0, 0
    for batch in islice(windows.val_dataloader(), MAX_BATCHES):
        labels = batch["labels"][:, -context:].clone()
        labels[:, :-n_targets] = IGNORED
        sums = task.scores({"input_ids": batch["input_ids"][:, -context:], "labels": labels})
        nll += float(sums.nll)
        count += int(sums.n_targets)
    return nll / count, count


def table(report: dict[str, Any]) -> str:
    """The figures as a Markdown table, with what they were measured on."""
    plan = report["plan"]
    head = " | ".join(f"{k} × {plan['length']}" for k in MULTIPLES)
    source = Path(report["source"]).name
    lines = [
        f"Trained {plan['steps']} steps at length {plan['length']} on {source}; nats per character "
        f"(perplexity) of the same {report['targets']:,} held-out characters; "
        f"{report['machine']['device']}, {report['precision']}.",
        "",
        f"| positions | {head} |",
        f"|---|{'---|' * len(MULTIPLES)}",
    ]
    for name, losses in report["nats"].items():
        cells = " | ".join(f"{nats:.3f} ({math.exp(nats):.2f})" for nats in losses.values())
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
