"""How the time and the memory of a training step grow with length, vocabulary and depth.

Usage: python scripts/bench_growth.py --json FILE

A BERT and a GPT of width 256 (the classic recipes under Lightning's Trainer), 4,096 tokens a step,
each point in a process of its own; also with the step in several micro-batches, and, at the largest
depth, with activation checkpointing. Beside each time stands what the FLOPs of the first point of
its table predict, beside each peak of memory (without what the imports hold) what
`pretrain estimate` predicts, and how far the measurement is from it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from step_rounds import measure
from step_workers import check_precision
from step_workloads import Workload

from pretrain.errors import UserError
from pretrain.hardware import resolve_precision

TOKENS, STEPS = 4096, 5
KINDS: tuple[Literal["bert", "gpt"], ...] = ("bert", "gpt")
USUAL = Workload("bert", 8192, 256, 4, 4, seq_len=128, batch_size=32)
AXES: dict[str, tuple[int, ...]] = {
    "seq_len": (128, 256, 512, 1024, 2048, 4096),
    "vocab_size": (1024, 4096, 16_384, 65_536, 131_072),
    "n_layers": (2, 4, 8, 16),
    "accumulate": (1, 2, 4, 8),
}
CHECKPOINTED = "activation_checkpointing"


@dataclass(frozen=True)
class Point:
    """What is measured: a shape, and whether its blocks are computed again.

    Attributes:
        label: Where it stands on its axis.
        workload: The shape.
        recomputes: Whether the backward pass computes the blocks again (activation checkpointing).
    """

    label: str
    workload: Workload
    recomputes: bool = False

    @property
    def flops(self) -> float:
        """Floating-point operations of a step; a recomputed forward pass is a third of all."""
        again = self.workload.blocks_flops_per_token / 3 if self.recomputes else 0.0
        return (self.workload.flops_per_token + again) * self.workload.tokens_per_step


def main(arguments: list[str] | None = None) -> None:
    """Measure all points, print a table for each axis, and write the figures after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    target = parser.parse_args(arguments).json
    try:
        precision = check_precision(resolve_precision("auto"))
    except UserError as error:
        raise SystemExit(str(error)) from None
    report: dict[str, Any] = {"precision": precision, "tokens_per_step": TOKENS}
    for kind in KINDS:
        report[kind] = {}
        for axis, points in axes_of(kind).items():
            measured = [measure_point(point, precision) for point in points]
            report[kind][axis] = with_expected_time(measured)
            print(table(kind, axis, measured), flush=True)
            target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def axes_of(kind: Literal["bert", "gpt"]) -> dict[str, list[Point]]:
    """The points of every axis, all with the same number of tokens a step."""
    usual = replace(USUAL, kind=kind)
    axes = {
        axis: [Point(f"{value:,}", _at(usual, axis, value)) for value in values]
        for axis, values in AXES.items()
    }
    deepest = _at(usual, "n_layers", max(AXES["n_layers"]))
    axes[CHECKPOINTED] = [Point("off", deepest), Point("on", deepest, recomputes=True)]
    return axes


def _at(usual: Workload, axis: str, value: int) -> Workload:
    changes: dict[str, Any] = {axis: value}
    shape = replace(usual, **changes)
    return replace(shape, batch_size=TOKENS // (shape.seq_len * shape.accumulate))


def measure_point(point: Point, precision: str) -> dict[str, Any]:
    """Seconds a step and peak memory of one shape; a point that failed says why."""
    variant = "ours_recomputing" if point.recomputes else "ours"
    found = measure(point.workload, [variant], precision, STEPS, 1, lambda line: None)
    described = {"at": point.label, "shape": asdict(point.workload), "flops": point.flops}
    if found.left_out:
        return {**described, "left_out": found.left_out[variant]}
    expected = expected_memory_mib(point, precision)
    net = found.memory[variant]["net_peak_mib"]
    return {
        **described,
        "seconds_per_step": found.step_s(variant),
        "net_peak_mib": net,
        "expected_mib": expected,
        "memory_departure": net / expected - 1,
    }


def expected_memory_mib(point: Point, precision: str) -> float:
    """What ``pretrain estimate`` says, in MiB."""
    # Imported here, since every process that is started imports this file.
    from step_ours import CLASSIC, CONFIGS, shape_of

    from pretrain.commands.estimate import EstimateCLI

    workload = point.workload
    network = shape_of(workload).items()
    options = [
        f"--config={CONFIGS / CLASSIC[workload.kind]}",
        *(f"--model.network.{name}={value}" for name, value in network),
        f"--model.{CHECKPOINTED}={str(point.recomputes).lower()}",
        f"--data.seq_len={workload.seq_len}",
        f"--data.batch_size={workload.batch_size}",
        f"--trainer.accumulate_grad_batches={workload.accumulate}",
        f"--trainer.precision={precision}",
    ]
    return EstimateCLI("estimate", options).estimate().memory.peak / 2**20


def with_expected_time(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points with the seconds that FLOPs predict from the first one that was measured."""
    first = next((point for point in points if "left_out" not in point), None)
    for point in points:
        if first is not None and "left_out" not in point:
            growth = point["flops"] / first["flops"]
            point["expected_s"] = first["seconds_per_step"] * growth
            point["time_departure"] = point["seconds_per_step"] / point["expected_s"] - 1
    return points


def table(kind: str, axis: str, points: list[dict[str, Any]]) -> str:
    """One axis as a Markdown table."""
    rows = [
        f"\n| {kind}, {axis} | s a step | by FLOPs | off | net peak MiB | estimate | off |",
        "|---|---|---|---|---|---|---|",
    ]
    for point in points:
        if "left_out" in point:
            rows.append(f"| {point['at']} | {point['left_out']} | | | | | |")
            continue
        rows.append(
            f"| {point['at']} | {point['seconds_per_step']:.3f} | {point['expected_s']:.3f} "
            f"| {point['time_departure']:+.0%} | {point['net_peak_mib']:,.0f} "
            f"| {point['expected_mib']:,.0f} | {point['memory_departure']:+.0%} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
