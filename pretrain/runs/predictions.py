"""What a classifier says of each validation example, and which classes it takes for which."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from lightning.pytorch import Trainer

from pretrain.data.files import written_whole
from pretrain.pictures import HeatMap
from pretrain.runs.folder import RunFolder
from pretrain.runs.loggers import SafeWandbLogger


def write_predictions(folder: RunFolder, trainer: Trainer, model: Any, data: Any) -> None:
    """``predictions.jsonl``: one JSON object an example of the validation split, in its order."""
    batches: Any = trainer.predict(model, dataloaders=data.val_dataloader())
    rows = [row for batch in batches for row in batch]
    if trainer.world_size > 1:
        parts: list[Any] = [None] * trainer.world_size
        torch.distributed.all_gather_object(parts, rows)
        rows = [row for part in parts for row in part]
    if not trainer.is_global_zero:
        return
    with (
        written_whole(folder.predictions) as temporary,
        temporary.open("w", encoding="utf-8") as file,
    ):
        for line in labelled_lines(rows, data.examples("validation")):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def labelled_lines(rows: Iterable[dict[str, Any]], examples: Sequence[Any]) -> Iterator[dict]:
    """For each row, by its ``index``, the example's text and label and what was ``predicted``."""
    for row in sorted(rows, key=lambda row: row["index"]):
        example = examples[row["index"]]
        pair = {} if example.pair is None else {"pair": example.pair}
        known = {} if example.label is None else {"label": example.label}
        predicted = {name: value for name, value in row.items() if name != "index"}
        yield {"text": example.text, **pair, **known, "predicted": predicted}


def show_confusion(folder: RunFolder, model: Any, wandb_logger: SafeWandbLogger | None) -> None:
    """``confusion.svg`` in the run's folder, and the same picture in its W&B run."""
    if model.confusion is None or not model.trainer.is_global_zero:
        return
    picture = confusion_svg(model.confusion, model.labels.names)
    with written_whole(folder.confusion) as temporary:
        temporary.write_text(picture, encoding="utf-8")
    if wandb_logger is not None:
        wandb_logger.log_html("final/confusion", picture, model.trainer.global_step)


def confusion_svg(matrix: list[list[int]], names: tuple[str, ...]) -> str:
    """A table as SVG: a row is a true class, a column what it was taken for, shaded by share."""
    return HeatMap(
        [[count / max(sum(row), 1) for count in row] for row in matrix],
        names,
        names,
        row_title="true",
        column_title="predicted",
        unit="share of the true class",
        texts=[[f"{count:,}" for count in row] for row in matrix],
    ).svg()
