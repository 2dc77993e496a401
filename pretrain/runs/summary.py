"""What is said at the end of a run: figures, and where things are."""

from collections.abc import Mapping
from typing import Any

from pretrain.runs.folder import RunFolder


def closing_lines(folder: RunFolder, card: Mapping[str, Any], has_wandb: bool) -> list[str]:
    """A few lines with the run's figures and where to look next."""
    lines = [f"Run {folder.path} is {card['status']}: {_effort(card)}."]
    if card.get("val_loss_nats") is not None:
        lines.append(f"Validation, whole split: {_quality(card)}.")
    alerts = card.get("alerts") or []
    lines += [f"Alert at step {one['step']:,}, {one['name']}: {one['text']}" for one in alerts]
    lines.append(
        f"Kept: {folder.last} and {folder.best.name}, {folder.metrics.name}, "
        f"{folder.card.name}, {folder.config.name}."
    )
    if has_wandb:
        wandb = folder.path / "wandb"
        lines.append(
            f"See the curves: wandb leet {wandb}   (after wandb login: wandb sync "
            f"{wandb}/offline-run-*)"
        )
    runs = folder.path.parent
    lines.append(
        f"Beside other runs: pretrain runs {runs}; in the browser: pretrain dashboard {runs}"
    )
    return lines


def _effort(card: Mapping[str, Any]) -> str:
    parts = [f"{card['steps']:,} steps"]
    if card.get("tokens_seen"):
        parts.append(f"{card['tokens_seen']:,} tokens")
    if card.get("wall_time_s") is not None:
        minutes, seconds = divmod(round(card["wall_time_s"]), 60)
        parts.append(f"{minutes}:{seconds:02d} min")
    if card.get("tokens_per_s"):
        parts.append(f"{card['tokens_per_s']:,.0f} tokens/s")
    if card.get("peak_memory_mib"):
        parts.append(f"peak memory {card['peak_memory_mib']:,.0f} MiB")
    return ", ".join(parts)


def _quality(card: Mapping[str, Any]) -> str:
    parts = []
    if card.get("val_target_tokens") is not None:
        parts.append(f"{card['val_loss_nats']:.4f} nats a token")
    else:
        parts.append(f"loss {card['val_loss_nats']:.4f}")
    if card.get("val_perplexity") is not None:
        parts.append(f"perplexity {card['val_perplexity']:.2f}")
    if card.get("val_bits_per_byte") is not None:
        parts.append(f"{card['val_bits_per_byte']:.4f} bits per byte")
    if card.get("val_masked_accuracy") is not None:
        parts.append(f"{card['val_masked_accuracy']:.1%} of the masked tokens right")
    for name in ("accuracy", "f1", "matthews", "pearson", "spearman"):
        if card.get(f"val_{name}") is not None:
            parts.append(f"{name} {card[f'val_{name}']:.4f}")
    if card.get("val_target_tokens") is not None:
        parts.append(f"over {card['val_target_tokens']:,} target tokens")
    return ", ".join(parts)
