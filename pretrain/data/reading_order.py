"""What decides which rows come next: kept in a checkpoint, and compared when it is gone on with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pretrain.errors import UserError


@dataclass(frozen=True)
class ReadingOrder:
    """How a run reads its data.

    Attributes:
        uses_cache: from a token cache, or streamed.
        rows_per_micro_batch: over all devices.
        seq_len: tokens in a row.
        seed: of the order.
        train_tokens: what tells one corpus from another, wherever its files lie; None for a stream.
    """

    uses_cache: bool
    rows_per_micro_batch: int
    seq_len: int
    seed: int
    train_tokens: int | None

    def check_continues(self, state: dict[str, Any]) -> None:
        """Refuse to go on from a DataModule's `state` where other rows would come next.

        Raises:
            UserError: the run of the checkpoint read the data in another way; with both values.
        """
        position = state.get("position")
        if position is None:  # before the first step any order will do
            return
        if state["uses_cache"] != self.uses_cache:
            kept = "a token cache" if state["uses_cache"] else "a stream"
            raise UserError(
                f"The checkpoint was trained from {kept}: go on with cache={state['uses_cache']}, "
                "or the order of the data would change."
            )
        if position.get("micro_batch") or position.get("turn"):
            self._check_inside_an_epoch(state)

    def _check_inside_an_epoch(self, state: dict[str, Any]) -> None:
        for name in ("seq_len", "seed"):  # a checkpoint of an earlier version names neither
            before, now = state.get(name), getattr(self, name)
            if before not in (None, now):
                raise UserError(
                    f"The checkpoint lies inside an epoch read with data.{name} {before}, this run "
                    f"has {now}: keep it, or what comes next would be other rows."
                )
        before, now = state.get("train_tokens"), self.train_tokens
        if before not in (None, now):
            raise UserError(
                f"The checkpoint lies inside an epoch of {before:,} training tokens, this corpus "
                f"has {now:,}: go on with the same corpus, or start a new run with init_from."
            )
        rows = state["rows_per_micro_batch"]
        if self.uses_cache and rows != self.rows_per_micro_batch:
            raise UserError(
                f"The checkpoint lies inside an epoch of {rows} rows a micro-batch over all "
                f"devices, this run has {self.rows_per_micro_batch}: keep batch_size × devices."
            )


@dataclass(frozen=True)
class ExampleOrder:
    """How a run reads labelled examples, under the names of its options.

    Attributes:
        batch_size, tokens_per_batch, group_by_length: what goes into a micro-batch.
        max_len: tokens in a row at most.
        seed: of the order.
        devices: that share the micro-batches.
        train_tokens: what tells one corpus from another, wherever its files lie.
    """

    batch_size: int
    tokens_per_batch: int | None
    group_by_length: bool
    max_len: int
    seed: int
    devices: int
    train_tokens: int

    def check_continues(self, state: dict[str, Any]) -> None:
        """Refuse to go on from a DataModule's `state` where other rows would come next.

        Raises:
            UserError: the run of the checkpoint read the data in another way; with both values.
        """
        if not (state.get("position") or {}).get("micro_batch"):
            return  # before or between epochs any order will do
        for name, now in asdict(self).items():
            if state[name] != now:
                called = {"devices": "devices", "train_tokens": "training tokens"}
                raise UserError(
                    "The checkpoint lies inside an epoch read with "
                    f"{called.get(name, f'data.{name}')} {state[name]}, this run has {now}: keep "
                    "it, or what comes next would be other rows."
                )
