"""How fast a configuration's loader and network are here, each by itself, in a few seconds."""

import copy
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pretrain.commands.estimate import Estimate, EstimateCLI, vocabulary
from pretrain.commands.rehearsal import Data, autocast_dtype, build, example_batch, fresh_copy
from pretrain.data.classification import ClassificationDataModule
from pretrain.data.labelled import Example
from pretrain.diagnostics.peak_flops import peak_flops
from pretrain.diagnostics.speed import loader_tokens_per_s, training_tokens_per_s
from pretrain.hardware import device_of
from pretrain.tasks.optimizer import MuonAdamW

_LONGEST_STEP_S = 2.0


def loader_speed(data: Data, sample: Iterable[Any], streams: bool) -> float:
    """Input tokens per second of a DataModule like ``data`` over documents that were read already.

    So neither a large corpus nor a cache that is not filled yet is waited for.
    """
    with tempfile.TemporaryDirectory(prefix="pretrain-") as folder:
        path = Path(folder) / "sample.jsonl"
        rows = (json.dumps(_row(data, i, one)) for i, one in enumerate(sample))
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        data = copy.copy(data)
        data.source = data.val_source = str(path)
        data.cache_dir, data.corpus = Path(folder), None
        if not isinstance(data, ClassificationDataModule):
            data.cache = not streams
        data.prepare_data()
        data.setup("fit")
        return loader_tokens_per_s(data.train_dataloader())


def _row(data: Data, number: int, document: Any) -> dict[str, Any]:
    """A row of the sample, with labels of which there are two whatever was read."""
    row = {data.options.text_field: document.text}
    if isinstance(data, ClassificationDataModule):
        assert isinstance(document, Example)
        options, label = data.options, str(number % 2)
        if options.pair_field is not None:
            row[options.pair_field] = document.pair
        labels: dict[str, Any] = {"multi": [label], "regression": number}
        if options.label_field is not None:
            row[options.label_field] = labels.get(options.kind, label)
    return row


def model_speed(cli: EstimateCLI, estimate: Estimate) -> float | None:
    """Input tokens per second of training steps on as many rows as take about two seconds.

    None if a single row would take longer.
    """
    device, data = device_of(cli.accelerator), cli.datamodule
    peak = peak_flops(device, estimate.precision)
    row_s = estimate.flops_per_token * estimate.seq_len / peak
    n_rows = min(estimate.rows, int(_LONGEST_STEP_S / row_s))
    if n_rows == 0:
        return None
    is_open = cli.model.config.vocab_size is None
    size = vocabulary(data.tokenizer_spec, []) if is_open else None
    task = fresh_copy(cli.model, data, size)
    build(task, cli.accelerator, estimate.precision)
    batch = example_batch(task, data, n_rows)
    batch = {name: tensor.to(device) for name, tensor in batch.items()}
    optimizer = MuonAdamW(task.parameter_groups())
    return training_tokens_per_s(task, batch, optimizer, autocast_dtype(estimate.precision))
