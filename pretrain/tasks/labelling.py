"""Labels for texts that no DataModule holds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pretrain.data.framing import Framing, padded_width
from pretrain.data.labelled import Example
from pretrain.errors import UserError
from pretrain.tasks.classification import Classification
from pretrain.tasks.continuation import tokenizer_of


@torch.inference_mode()
def label_examples(
    task: Classification, examples: Sequence[Example], batch_size: int = 64
) -> list[dict[str, Any]]:
    """What the classifier says of each example, in their order: see ``predictions``.

    Texts of similar length are computed together, in float32.

    Raises:
        UserError: A text has no tokens, or there are pairs where the model knows none.
    """
    pairs = {example.pair is not None for example in examples}
    # Of a classifier that was trained elsewhere it is not known what it reads.
    reads_pairs = True in pairs if task.reads_pairs is None else task.reads_pairs
    if pairs != {reads_pairs} and examples:
        takes = "two texts each (pair_field)" if reads_pairs else "single texts"
        raise UserError(f"This classifier was trained on {takes}: give it the same.")
    max_len = task.trained_len or task.config.max_len
    framing = Framing(tokenizer_of(task), max_len, reads_pairs)
    rows = framing.rows(examples)
    empty = np.flatnonzero(rows.lengths == 0)
    if len(empty):
        raise UserError(f"{examples[empty[0]].where}: the tokenizer makes no token of the text.")
    found: list[dict[str, Any]] = [{} for _ in examples]
    order = np.argsort(rows.lengths, kind="stable")
    for start in range(0, len(order), batch_size):
        numbers = order[start : start + batch_size]
        width = padded_width(int(rows.lengths[numbers].max()), max_len)
        arrays = rows.padded(numbers, width, framing.filler_id)
        batch = {name: torch.from_numpy(part).to(task.device) for name, part in arrays.items()}
        if not (framing.pairs and framing.has_frame):
            del batch["segment_ids"]
        for number, row in zip(numbers, task.predictions(task.logits(batch)), strict=True):
            found[number] = row
    return found
