"""Streaming: documents are tokenized and packed while training, in a fixed order.

Document i of the split belongs to virtual shard i modulo V, each shard packs for itself, and
global micro-batch g comes whole from shard g modulo V. So the order depends neither on the number
of workers nor on that of ranks, as long as ranks × workers divides V.
"""

from __future__ import annotations

import copy
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, default_convert, get_worker_info

from pretrain.data.packing import FILLER_BLOCK
from pretrain.data.shards import N_SHARDS, Shard, ShardPosition, StreamRules
from pretrain.data.source import TextSource
from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError

Agreement = Callable[[torch.Tensor], torch.Tensor]


def start_of(epoch: int, n_shards: int = N_SHARDS) -> dict[str, Any]:
    """The position before the first micro-batch of an epoch."""
    return {"epoch": epoch, "turn": 0, "shards": [list(ShardPosition())] * n_shards}


def moved(position: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    """The position of a stream once the micro-batch with position `after` is trained on."""
    position = position or start_of(0)
    if after["epoch"] != position["epoch"]:
        position = start_of(after["epoch"], len(position["shards"]))
    shards = list(position["shards"])
    if "place" in after:
        shards[after["shard"]] = after["place"]
    return {"epoch": after["epoch"], "turn": after["turn"], "shards": shards}


def furthest(tables: torch.Tensor) -> list[list[int]]:
    """Of (ranks, shards, 4) places the furthest of each shard: that of the rank that reads it."""
    by_block = tables[:, :, ShardPosition._fields.index("block")].argmax(dim=0)
    return tables[by_block, torch.arange(tables.shape[1])].tolist()


def check_workers(n_workers: int, n_ranks: int, n_shards: int = N_SHARDS) -> None:
    """Refuse a number of workers that cannot share the shards evenly.

    Raises:
        UserError: names the nearest number of workers that can.
    """
    if n_shards % n_ranks:
        raise UserError(
            f"A stream has {n_shards} shards, which {n_ranks} devices cannot share evenly: use a "
            f"number of devices that divides {n_shards}, or cache=true."
        )
    if n_shards % (n_ranks * max(n_workers, 1)):
        possible = [w for w in range(1, n_shards + 1) if n_shards % (n_ranks * w) == 0]
        nearest = min(possible, key=lambda w: abs(w - n_workers))
        raise UserError(
            f"{n_ranks} × {n_workers} workers cannot share the {n_shards} shards of a stream "
            f"evenly: the nearest num_workers that can is {nearest}."
        )


class TrainStream(IterableDataset):
    """The micro-batches of one rank in their order, None for the turn of a dry shard; endless.

    Args:
        source: read once by each worker, which keeps the documents of its shards.
        tokenizer: for documents.
        rules: of the stream.
        n_ranks, rank: this process among all.
        position: where to go on.
    """

    def __init__(
        self,
        source: TextSource,
        tokenizer: Tokenizer,
        rules: StreamRules,
        *,
        n_ranks: int,
        rank: int,
        position: dict[str, Any],
    ) -> None:
        self.source, self.tokenizer, self.rules = source, tokenizer, rules
        self.n_ranks, self.rank, self.position = n_ranks, rank, position

    def __iter__(self) -> Iterator[dict[str, Any] | UserError | None]:
        try:
            yield from self._turns()
        except UserError as error:
            yield error  # raised in a worker, it would arrive with a traceback for a message

    def _turns(self) -> Iterator[dict[str, Any] | None]:
        worker = get_worker_info()
        step = self.n_ranks * (worker.num_workers if worker else 1)
        first = self.position["turn"] + self.rank + self.n_ranks * (worker.id if worker else 0)
        n_shards, places = self.rules.n_shards, self.position["shards"]
        # In the order of their turns
        shards = {
            turn % n_shards: Shard(
                turn % n_shards,
                self.tokenizer,
                self.rules,
                self.position["epoch"],
                ShardPosition(*places[turn % n_shards]),
            )
            for turn in range(first, first + n_shards, step)
        }
        # A copy counts its own skipped records: validation reads the same source in between.
        source = copy.copy(self.source)
        documents = enumerate(source.texts("train"))
        for shard in itertools.cycle(shards.values()):
            while not shard.finished and not shard.has_micro_batch():
                _read_one(documents, shards, n_shards)
            batch = shard.micro_batch()
            yield batch and {**batch, "bad_records": dict(source.bad_records)}


def _accepted(item: dict[str, Any] | UserError | None) -> dict[str, Any] | None:
    if isinstance(item, UserError):
        raise item
    return item


def _read_one(
    documents: Iterator[tuple[int, str]], shards: dict[int, Shard], n_shards: int
) -> None:
    """Hand the next document to its shard, if that is among these; at the end tell them all."""
    number, text = next(documents, (0, None))
    if text is None:
        for shard in shards.values():
            shard.finish()
    elif number % n_shards in shards:
        shards[number % n_shards].add(text)


class StreamLoader:
    """The training micro-batches of one rank, epoch after epoch, of unknown number.

    All ranks make the same steps: once a round of V turns they agree on which turns any of them
    has a micro-batch for. Turns that are dry everywhere are left out; where only this rank's is
    dry it takes part with an empty micro-batch.

    Args:
        stream: makes the dataset for a position.
        rules: of the stream.
        n_workers: processes that prepare micro-batches.
        n_ranks: processes that train.
        start: the position to go on from; each pass after it is the next epoch.
        agree: gives the maximum over all ranks of an int tensor.

    Attributes:
        bad_records: Records skipped in one pass, by reason, as far as it was read. Every worker
            reads the whole source, so the largest count is that of all.
    """

    def __init__(
        self,
        stream: Callable[..., TrainStream],
        rules: StreamRules,
        *,
        n_workers: int,
        n_ranks: int,
        start: dict[str, Any],
        agree: Agreement = lambda flags: flags,
    ) -> None:
        check_workers(n_workers, n_ranks, rules.n_shards)
        self.stream, self.rules, self.agree = stream, rules, agree
        self.n_workers, self.n_ranks, self.next_start = n_workers, n_ranks, start
        self.bad_records: Counter[str] = Counter()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        start = self.next_start
        held = None  # the last one of an epoch must know that it is the last
        for batch in self._micro_batches(start):
            if held is not None:
                yield held
            held = batch
        # Not before: a run that goes on behind an epoch begins a pass and leaves it for another.
        self.next_start = start_of(start["epoch"] + 1, self.rules.n_shards)
        if held is not None:
            held["position"] = {"epoch": start["epoch"] + 1, "turn": 0}
            yield held
        elif start["turn"] == 0:
            raise UserError("The training stream has nothing to predict: it needs more text.")

    def _micro_batches(self, start: dict[str, Any]) -> Iterator[dict[str, Any]]:
        loader = DataLoader(
            self.stream(position=start),
            batch_size=None,  # an item is a whole micro-batch
            num_workers=self.n_workers,
            pin_memory=torch.cuda.is_available(),
            worker_init_fn=_quiet_tokenizer if self.n_workers else None,
        )
        items, turn = map(_accepted, loader), start["turn"]
        while True:
            a_round = list(itertools.islice(items, self.rules.n_shards // self.n_ranks))
            wanted = self.agree(torch.tensor([item is not None for item in a_round]).int())
            if not wanted.any():
                return
            for item, is_wanted in zip(a_round, wanted.tolist(), strict=True):
                turn += self.n_ranks
                if is_wanted:
                    batch = item if item is not None else empty_micro_batch(self.rules)
                    self.bad_records |= Counter(batch.pop("bad_records", {}))
                    position = batch.get("position", {})
                    yield {**batch, "position": {**position, "epoch": start["epoch"], "turn": turn}}


class EvalStream(IterableDataset):
    """A split in corpus order, packed exactly as from a token cache; dealt out to the ranks.

    Every rank reads all of it, so that blocks don't depend on their number; use no worker.

    Attributes:
        bad_records: records skipped in one pass that came to its end, by reason.
    """

    def __init__(
        self,
        source: TextSource,
        tokenizer: Tokenizer,
        rules: StreamRules,
        split: str,
        *,
        n_ranks: int,
        rank: int,
    ) -> None:
        self.source, self.tokenizer, self.rules, self.split = source, tokenizer, rules, split
        self.n_ranks, self.rank = n_ranks, rank
        self.bad_records: Counter[str] = Counter()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        source = copy.copy(self.source)  # it counts its own skipped records
        micro_batches = self._micro_batches(source)
        is_empty = True
        while group := list(itertools.islice(micro_batches, self.n_ranks)):
            is_short = self.rank >= len(group)  # the last group: all ranks make the same steps
            batch = empty_micro_batch(self.rules) if is_short else group[self.rank]
            batch.pop("position", None)
            is_empty = False
            yield batch
        self.bad_records |= source.bad_records
        if is_empty:
            raise UserError(
                f"The {self.split} split of {source.name} has nothing to predict: it needs more "
                "text, or another split_share or val_source."
            )

    def _micro_batches(self, source: TextSource) -> Iterator[dict[str, Any]]:
        shard = Shard(0, self.tokenizer, self.rules)
        for text in source.texts(self.split):
            shard.add(text)
            while shard.has_micro_batch():
                batch = shard.micro_batch()
                assert batch is not None
                yield batch
        shard.finish()
        while (batch := shard.micro_batch()) is not None:
            yield batch


def empty_micro_batch(rules: StreamRules) -> dict[str, Any]:
    """Padding alone: no target, the same shape."""
    zeros = np.zeros(rules.batch_size, dtype=np.int64)
    tokens = np.zeros((rules.batch_size, rules.packing.window), dtype=np.int64)
    documents = np.zeros_like(tokens) if rules.packing.isolate else None
    rows = rules.packing.rows(tokens, zeros, zeros, zeros + FILLER_BLOCK, documents)
    return {**default_convert(rows), "n_bytes": torch.zeros((), dtype=torch.float64)}


def _quiet_tokenizer(_: int) -> None:
    # The workers are the parallelism; unset, tokenizers warns in each of them after a fork
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
