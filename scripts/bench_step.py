"""The training step, ours against transformers', in one interleaved run.

Usage: python scripts/bench_step.py --json FILE [--workloads A,B] [--variants ours,...] [--rounds N]
       [--steps K]

Every variant is a process of its own; in every round each takes K optimizer steps while the others
wait. All train on the same random tokens, with the same arithmetic, without dropout (but one) and
without clipping: forward, backward, AdamW. `ours` is the LightningModule under Lightning's Trainer
with logging on, of the peer's own architecture. Figures are medians over the rounds; MFU is against
the best matrix product of this run; net memory is a process's peak without what its imports hold.
The workload `lightning` is a tiny network, which shows what the Trainer costs a step.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from step_rounds import Measurement, measure
from step_workers import VARIANTS, check_precision
from step_workloads import TINY, WORKLOADS

from pretrain.errors import UserError
from pretrain.hardware import device_of, resolve_precision

LIGHTNING = "lightning"
LIGHTNING_VARIANTS = ("ours_bare", "ours", "ours_progress_bar")
LIGHTNING_ROUNDS, LIGHTNING_STEPS = 7, 200
OTHER_QUESTIONS = ("ours_progress_bar", "ours_recomputing")
UNCOMPILED_PEERS = ("transformers_sdpa", "transformers_eager")
GEMM_SIZES = (2048, 4096)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the tables, and write the figures after each workload."""
    options = parse(arguments)
    try:
        precision = check_precision(resolve_precision("auto"))
    except UserError as error:
        raise SystemExit(str(error)) from None
    gemm = gemm_flops(precision)
    found: dict[str, Measurement] = {}
    for name in options.workloads:
        print(f"{name} in {precision}", flush=True)
        found[name] = take_turns(name, options, precision)
        gemm = max(gemm, gemm_flops(precision))
        report = {**machine(precision, gemm), **figures(found, gemm)}
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"\n{report['cpu']} ({report['capability']}), {report['n_threads']} threads, torch "
          f"{report['torch']}, {precision}, best product {gemm / 1e9:,.0f} GFLOP/s")  # fmt: skip
    for name, one in found.items():
        print()
        print(table(name, one, gemm) if name != LIGHTNING else json.dumps(report[LIGHTNING]))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options, lists split at their commas."""

    def names(known: Any) -> Any:
        def split(text: str) -> list[str]:
            chosen = text.split(",")
            if unknown := [name for name in chosen if name not in known]:
                raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(known)}")
            return chosen

        return split

    workloads = [*WORKLOADS, LIGHTNING]
    variants = [variant for variant in VARIANTS if variant not in OTHER_QUESTIONS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    parser.add_argument("--workloads", type=names(workloads), default=workloads, metavar="A,B")
    parser.add_argument("--variants", type=names(variants), default=variants, metavar="V,W")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="of each variant in a round")
    options = parser.parse_args(arguments)
    if min(options.rounds, options.steps) < 1:
        parser.error("--rounds and --steps must be at least 1")
    return options


def take_turns(name: str, options: argparse.Namespace, precision: str) -> Measurement:
    """Measure one workload by its name."""

    def tell(line: str) -> None:
        print(f"  {line}", flush=True)

    if name == LIGHTNING:
        return measure(TINY, LIGHTNING_VARIANTS, precision, LIGHTNING_ROUNDS, LIGHTNING_STEPS, tell)
    return measure(
        WORKLOADS[name], options.variants, precision, options.rounds, options.steps, tell
    )


def gemm_flops(precision: str) -> float:
    """The best rate of large square products here and now, in FLOP/s."""
    from pretrain.diagnostics.peak_flops import product_dtype, product_flops

    dtype = product_dtype(precision)
    return max(product_flops(device_of(), dtype, size) for size in GEMM_SIZES)


def machine(precision: str, gemm: float) -> dict[str, Any]:
    """What the figures were measured on."""
    # Imported here: a process that is started imports this file too, and the peer's has no use
    # for Lightning.
    from pretrain.runs.environment import describe_machine

    return {
        "cpu": describe_machine()["device"],
        "capability": torch.backends.cpu.get_cpu_capability(),
        "n_threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "precision": precision,
        "gemm_gflops": round(gemm / 1e9, 1),
    }


def figures(found: dict[str, Measurement], gemm: float) -> dict[str, Any]:
    """The part of the report that was measured: workloads, and the Trainer's share."""
    workloads = {name: compare(one, gemm) for name, one in found.items() if name != LIGHTNING}
    share = {LIGHTNING: lightning_share(found[LIGHTNING])} if LIGHTNING in found else {}
    return {"workloads": workloads, **share}


def compare(found: Measurement, gemm: float) -> dict[str, Any]:
    """Ours against the faster of the uncompiled peers; None where a variant was not measured."""
    variants = list(found.seconds_per_step)
    speed = {variant: found.tokens_per_s(variant) for variant in variants}
    peer = faster_peer(found)
    net = {variant: found.memory[variant]["net_peak_mib"] for variant in variants}
    its = peer or ""  # nothing was measured under no name
    dropout = ratio(found.step_s("ours_dropout"), found.step_s("ours"))
    return {
        "ratio": ratio(speed.get("ours"), speed.get(its)),
        "ratio_compiled": ratio(speed.get("ours"), speed.get("transformers_compiled")),
        "mfu": mfu(found, "ours", gemm),
        "memory_ratio": ratio(net.get("ours"), net.get(its)),
        "dropout_cost": None if dropout is None else dropout - 1,
        "faster_peer": peer,
        "tokens_per_s": speed,
        "peak_mib": {variant: found.memory[variant]["peak_mib"] for variant in variants},
        "net_peak_mib": net,
        "seconds_per_step": found.seconds_per_step,
        "left_out": found.left_out,
    }


def faster_peer(found: Measurement) -> str | None:
    """The uncompiled peer with the most tokens per second."""
    measured = [peer for peer in UNCOMPILED_PEERS if peer in found.seconds_per_step]
    return min(measured, key=lambda peer: found.step_s(peer) or 0.0, default=None)


def mfu(found: Measurement, variant: str, gemm: float) -> float | None:
    """Useful FLOPs of a variant over what the machine can do."""
    speed = found.tokens_per_s(variant)
    return None if speed is None else speed * found.workload.flops_per_token / gemm


def ratio(one: float | None, other: float | None) -> float | None:
    """One over the other; None where either is missing."""
    return one / other if one is not None and other else None


def lightning_share(found: Measurement) -> dict[str, float | None]:
    """Milliseconds a step under the Trainer, in a plain loop, and what lies between."""
    bare, trainer, with_bar = (
        None if seconds is None else 1000 * seconds
        for seconds in map(found.step_s, LIGHTNING_VARIANTS)
    )
    return {
        "trainer_ms": trainer,
        "bare_ms": bare,
        "share_ms": None if trainer is None or bare is None else trainer - bare,
        "with_progress_bar_ms": with_bar,
        "share_with_progress_bar_ms": (
            None if with_bar is None or bare is None else with_bar - bare
        ),
    }


def table(name: str, found: Measurement, gemm: float) -> str:
    """A workload's variants as a Markdown table; ratios are to the faster uncompiled peer."""
    peer = faster_peer(found)
    best = None if peer is None else found.tokens_per_s(peer)
    rows = []
    for variant in found.seconds_per_step:
        speed, memory = found.tokens_per_s(variant), found.memory[variant]
        times, share = ratio(speed, best), mfu(found, variant, gemm)
        rows.append(
            f"| {variant} | {speed:,.0f} | {'' if times is None else f'{times:.2f}'} "
            f"| {share:.0%} | {memory['net_peak_mib']:,.0f} | {memory['peak_mib']:,.0f} |"
        )
    missing = [f"| {variant} | {why} | | | | |" for variant, why in found.left_out.items()]
    head = f"| {name} | tokens/s | ratio | MFU | net peak MiB | peak MiB |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows, *missing])


if __name__ == "__main__":
    main()
