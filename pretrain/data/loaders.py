"""The loaders of the two paths: from a token cache, and from a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from pretrain.data.mixing import Mixed
from pretrain.data.packing import PackedBlocks, Packing
from pretrain.data.prepared import PreparedCorpus
from pretrain.data.sampler import BlockOrder, InOrder, MicroBatchSampler, Shuffled
from pretrain.data.shards import StreamRules
from pretrain.data.streaming import Agreement, EvalStream, StreamLoader, TrainStream, start_of


@dataclass(frozen=True)
class Share:
    """How a run reads its data, and which part of it this process reads."""

    batch_size: int
    n_workers: int
    seed: int
    n_ranks: int = 1
    rank: int = 0
    limit: int | float = 1.0  # micro-batches of a training epoch, or a share of them


class _ResumableLoader(DataLoader):
    """Tells Lightning that a resume is exact; the state itself is the data module's."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def cached_train_loader(
    corpus: PreparedCorpus, packing: Packing, share: Share, position: dict[str, Any] | None
) -> DataLoader:
    """Each block once an epoch, shuffled; a mixture draws its corpora by weight."""
    blocks = PackedBlocks(corpus.streams("train"), packing, share.batch_size)
    order: BlockOrder
    if corpus.shares:
        order = Mixed(blocks.n_blocks_each, corpus.shares, share.seed)
    else:
        order = Shuffled(blocks.n_blocks, share.seed)
    return indexed_loader(blocks, order, share, position or {"epoch": 0, "block": 0})


def cached_eval_loader(
    corpus: PreparedCorpus, packing: Packing, share: Share, split: str
) -> DataLoader:
    """Each block of a split once, in order."""
    blocks = PackedBlocks(corpus.streams(split), packing, share.batch_size)
    return indexed_loader(blocks, InOrder(blocks.n_blocks), share, start=None)


def indexed_loader(
    blocks: Dataset, order: BlockOrder, share: Share, start: dict[str, Any] | None
) -> DataLoader:
    """Whole micro-batches, asked for in their order from a position on; None evaluates."""
    sampler = MicroBatchSampler(
        blocks,
        order,
        share.batch_size,
        n_ranks=share.n_ranks,
        rank=share.rank,
        start=start,
        limit=share.limit,
    )
    return _ResumableLoader(
        blocks,
        sampler=sampler,
        batch_size=None,  # an item is a whole micro-batch
        num_workers=share.n_workers,
        pin_memory=torch.cuda.is_available(),
        persistent_workers=share.n_workers > 0,
    )


def streamed_train_loader(
    corpus: PreparedCorpus,
    packing: Packing,
    share: Share,
    position: dict[str, Any] | None,
    agree: Agreement,
) -> StreamLoader:
    """Each document once an epoch, shuffled inside windows."""
    rules = StreamRules(packing, share.batch_size, share.seed)
    stream = partial(
        TrainStream,
        corpus.sources[0],
        corpus.tokenizer,
        rules,
        n_ranks=share.n_ranks,
        rank=share.rank,
    )
    return StreamLoader(
        stream,
        rules,
        n_workers=share.n_workers,
        n_ranks=share.n_ranks,
        start=position or start_of(0),
        agree=agree,
    )


def streamed_eval_loader(
    corpus: PreparedCorpus, packing: Packing, share: Share, split: str
) -> DataLoader:
    """The blocks that a token cache would give, in order."""
    rules = replace(StreamRules(packing, share.batch_size, share.seed), shuffle=False, n_shards=1)
    stream = EvalStream(
        corpus.sources[0],
        corpus.tokenizer,
        rules,
        split,
        n_ranks=share.n_ranks,
        rank=share.rank,
    )
    return DataLoader(stream, batch_size=None, pin_memory=torch.cuda.is_available())
