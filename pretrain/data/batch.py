"""What a batch holds: plain dictionaries, described here."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

import torch


class CausalBatch(TypedDict):
    """A batch for a causal language model.

    input_ids: (batch, seq) int64.
    labels: (batch, seq) int64, the token that follows each input; -100 is no target.
    document_ids: (batch, seq) int64, 0, 1, 2, ... in each row; only where documents are isolated.
    n_bytes: float64 scalar, UTF-8 bytes of raw text behind the targets.
    position: in training, the place in the data that follows this micro-batch.
    """

    input_ids: torch.Tensor
    labels: torch.Tensor
    document_ids: NotRequired[torch.Tensor]
    n_bytes: torch.Tensor
    position: NotRequired[dict[str, Any]]


class MaskedBatch(TypedDict):
    """A batch for a masked language model.

    input_ids: (batch, seq) int64, masks applied.
    masked_positions: (capacity,) int64 into the flattened (batch · seq); 0 for filler.
    labels: (capacity,) int64, the original ids at those positions; -100 for filler.
    attention_mask: (batch, seq) bool, True for real tokens; only where there is padding.
    document_ids: (batch, seq) int64, 0, 1, 2, ... in each row; only where documents are isolated.
    n_bytes: float64 scalar, UTF-8 bytes of the raw text of the rows.
    position: in training, the place in the data that follows this micro-batch.
    """

    input_ids: torch.Tensor
    masked_positions: torch.Tensor
    labels: torch.Tensor
    attention_mask: NotRequired[torch.Tensor]
    document_ids: NotRequired[torch.Tensor]
    n_bytes: torch.Tensor
    position: NotRequired[dict[str, Any]]


class ClassificationBatch(TypedDict):
    """A batch of texts, or pairs of texts, and what is to be predicted.

    A filler row has no real token; it keeps micro-batches and ranks equal.

    input_ids: (rows, longest) int64, padded on the right to a multiple of 8.
    attention_mask: (rows, longest) bool, True for real tokens.
    segment_ids: (rows, longest) int64, 1 in the second text; only for pairs between [CLS] and
        [SEP].
    labels: class ids (rows,) int64, -100 for filler; or of several labels (rows, n_labels) float32
        of 0 and 1, or numbers (rows,) float32, both NaN for filler.
    index: (rows,) int64, in evaluation: the number of the example in its split, -1 for filler.
    position: in training, the place in the data that follows this micro-batch.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    segment_ids: NotRequired[torch.Tensor]
    labels: torch.Tensor
    index: NotRequired[torch.Tensor]
    position: NotRequired[dict[str, Any]]
