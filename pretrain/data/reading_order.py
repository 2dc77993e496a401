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
        seq_len: tokens in a row.
        seed: of the order.
        shares: of the sources of a mixture, empty for a single one.
        train_tokens: what tells one corpus from another, wherever its files lie; None for a stream.
        vocabulary: what tells one tokenizer's ids from another's.
    """

    uses_cache: bool
    seq_len: int
    seed: int
    shares: list[float]
    train_tokens: int | None
    vocabulary: str

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
        if state.get("vocabulary") not in (None, self.vocabulary):
            raise UserError(
                "The checkpoint was trained with other tokens than those of this run's tokenizer: "
                "go on with its own, or start a new run with init_from."
            )
        if self.uses_cache:
            _check_counts_blocks(position)
        if position.get("block") or position.get("turn"):
            self._check_inside_an_epoch(state)

    def _check_inside_an_epoch(self, state: dict[str, Any]) -> None:
        called = {"seq_len": "data.seq_len", "seed": "data.seed", "shares": "source weights"}
        for name, title in called.items():  # a checkpoint of an earlier version may name none
            before, now = state.get(name), getattr(self, name)
            if before not in (None, now):
                raise UserError(
                    f"The checkpoint lies inside an epoch read with {title} {before}, this run "
                    f"has {now}: keep it, or what comes next would be other rows."
                )
        before, now = state.get("train_tokens"), self.train_tokens
        if before not in (None, now):
            raise UserError(
                f"The checkpoint lies inside an epoch of {before:,} training tokens, this corpus "
                f"has {now:,}: go on with the same corpus, or start a new run with init_from."
            )


@dataclass(frozen=True)
class ExampleOrder:
    """How a run reads labelled examples, under the names of its options.

    Attributes:
        batch_size, tokens_per_batch, group_by_length: what goes into a micro-batch.
        max_len: tokens in a row at most.
        seed: of the order.
        train_tokens: what tells one corpus from another, wherever its files lie.
    """

    batch_size: int
    tokens_per_batch: int | None
    group_by_length: bool
    max_len: int
    seed: int
    train_tokens: int

    def check_continues(self, state: dict[str, Any]) -> None:
        """Refuse to go on from a DataModule's `state` where other rows would come next.

        Raises:
            UserError: the run of the checkpoint read the data in another way; with both values.
        """
        position = state.get("position")
        if position is None:
            return
        _check_counts_blocks(position)
        if position["block"] == 0:
            return  # between epochs any order will do
        for name, now in asdict(self).items():
            if state[name] != now:
                called = "training tokens" if name == "train_tokens" else f"data.{name}"
                raise UserError(
                    f"The checkpoint lies inside an epoch read with {called} {state[name]}, this "
                    f"run has {now}: keep it, or what comes next would be other rows."
                )


def _check_counts_blocks(position: dict[str, Any]) -> None:
    if "block" not in position:
        raise UserError(
            "The checkpoint keeps its place in the data as an earlier version of pretrain did: "
            "start a new run from its weights with init_from."
        )
