from __future__ import annotations

from functools import partial

import pytest
import torch

from pretrain.data.masking import Masker, MaskingConfig
from pretrain.data.packing import CausalPacking, MaskedPacking, PackedBlocks
from pretrain.data.seeding import Purpose
from pretrain.data.shards import StreamRules
from pretrain.data.streaming import (
    EvalStream,
    StreamLoader,
    TrainStream,
    check_workers,
    furthest,
    moved,
    start_of,
)
from pretrain.data.token_cache import TokenStream, fill_cache
from pretrain.errors import UserError

RULES = StreamRules(CausalPacking(8, 0), batch_size=2, seed=3, n_shards=12, window_documents=2)


def micro_batches(source, tokenizer, n_ranks=1, rank=0, n_workers=0, start=None, rules=RULES):
    stream = partial(TrainStream, source, tokenizer, rules, n_ranks=n_ranks, rank=rank)
    rounds = iter(range(5)) if n_ranks > 1 else None

    def agree(flags):
        """As if the other ranks had micro-batches for four rounds."""
        if rounds is None:
            return flags
        return torch.full_like(flags, next(rounds) < 4)

    start = start or start_of(0, rules.n_shards)
    loader = StreamLoader(
        stream, rules, n_workers=n_workers, n_ranks=n_ranks, start=start, agree=agree
    )
    return list(loader)


def rows_of(batches):
    return [row for b in batches for row in b["labels"].tolist() if set(row) != {-100}]


@pytest.mark.parametrize(("n_ranks", "n_workers"), [(1, 0), (1, 3), (2, 0), (2, 2), (3, 2)])
def test_ranks_and_workers_change_nothing(numbered_source, gpt_tokenizer, n_ranks, n_workers):
    alone = rows_of(micro_batches(numbered_source, gpt_tokenizer))
    ranks = [
        micro_batches(numbered_source, gpt_tokenizer, n_ranks, rank, n_workers)
        for rank in range(n_ranks)
    ]
    assert len({len(part) for part in ranks}) == 1
    dealt = [batch for step in zip(*ranks, strict=True) for batch in step]
    assert rows_of(dealt) == alone


def test_goes_on_behind_any_micro_batch_with_other_workers(numbered_source, gpt_tokenizer):
    whole = micro_batches(numbered_source, gpt_tokenizer)
    position = start_of(0, 12)
    for cut, batch in enumerate(whole[:-1], start=1):
        position = moved(position, batch["position"])
        if cut % 4 == 1:
            workers = cut % 3
            rest = micro_batches(numbered_source, gpt_tokenizer, n_workers=workers, start=position)
            assert [b["labels"].tolist() for b in rest] == [
                b["labels"].tolist() for b in whole[cut:]
            ]
    assert moved(position, whole[-1]["position"]) == start_of(1, 12)


def test_a_dry_shard_takes_part_with_an_empty_micro_batch_of_the_same_shape(
    numbered_source, gpt_tokenizer
):
    batches = micro_batches(numbered_source, gpt_tokenizer, n_ranks=2, rank=1)
    empty = [b for b in batches if (b["labels"] == -100).all()]
    assert empty
    assert {tuple(b["input_ids"].shape) for b in batches} == {(2, 8)}
    assert {float(b["n_bytes"]) for b in empty} == {0.0}


def test_a_fault_in_a_worker_is_the_same_sentence(list_source, gpt_tokenizer):
    class Bad(list_source):
        def texts(self, split):
            yield "w1 w2"
            raise UserError("corpus.txt:2: not UTF-8")

    for n_workers in (0, 2):
        with pytest.raises(UserError) as caught:
            micro_batches(Bad([]), gpt_tokenizer, n_workers=n_workers)
        assert str(caught.value) == "corpus.txt:2: not UTF-8"


def test_a_stream_without_a_target_is_no_run_of_zero_steps(list_source, gpt_tokenizer):
    with pytest.raises(UserError, match="nothing to predict"):
        micro_batches(list_source([("validation", "w1 w2")]), gpt_tokenizer)


@pytest.mark.parametrize(
    ("n_workers", "n_ranks", "nearest"), [(5, 1, 4), (7, 1, 6), (5, 2, 4), (100, 1, 48)]
)
def test_workers_that_cannot_share_are_told_the_nearest_number(n_workers, n_ranks, nearest):
    with pytest.raises(UserError, match=rf"num_workers that can is {nearest}\."):
        check_workers(n_workers, n_ranks, 48)


@pytest.mark.parametrize(("n_workers", "n_ranks"), [(0, 1), (3, 1), (0, 2), (2, 2), (24, 2)])
def test_workers_that_can_share_are_accepted(n_workers, n_ranks):
    check_workers(n_workers, n_ranks, 48)


def test_devices_that_cannot_share_are_refused():
    with pytest.raises(UserError, match="5 devices"):
        check_workers(0, 5, 48)


def test_the_furthest_place_of_each_shard_is_kept():
    tables = torch.tensor([[[2, 0, 1, 9], [0, 0, 0, 0]], [[1, 5, 8, 4], [0, 3, 3, 1]]])
    assert furthest(tables) == [[2, 0, 1, 9], [0, 3, 3, 1]]


@pytest.mark.parametrize("n_ranks", [1, 2])
@pytest.mark.parametrize("objective", ["causal", "masked"])
@pytest.mark.parametrize("isolate", [True, False])
def test_validation_gives_the_blocks_of_a_token_cache(
    tmp_path, numbered_source, gpt_tokenizer, bert_tokenizer, n_ranks, objective, isolate
):
    tokenizer = gpt_tokenizer if objective == "causal" else bert_tokenizer
    packing = CausalPacking(8, 0, isolate)
    if objective == "masked":
        masker = Masker(
            MaskingConfig(),
            8,
            mask_id=tokenizer.mask_id,
            special_ids=tokenizer.special_ids,
            vocab_size=tokenizer.vocab_size,
            seed=3,
            purpose=Purpose.VALIDATION_MASKS,
        )
        packing = MaskedPacking(8, tokenizer.cls_id, tokenizer.pad_id, masker, isolate)
    rules = StreamRules(packing, batch_size=2, seed=3, n_shards=1, shuffle=False)
    ranks = [
        list(EvalStream(numbered_source, tokenizer, rules, "validation", n_ranks=n_ranks, rank=r))
        for r in range(n_ranks)
    ]
    dealt = [batch for step in zip(*ranks, strict=True) for batch in step]
    stream = TokenStream(fill_cache(tmp_path, numbered_source, tokenizer), "validation")
    cached = PackedBlocks([stream], packing, 2)
    for number, batch in enumerate(dealt):
        if number >= len(cached):
            assert (batch["labels"] == -100).all()
            continue
        expected = cached[number]
        assert batch["n_bytes"] == pytest.approx(expected.pop("n_bytes").item())
        for key, value in expected.items():
            assert batch[key].equal(value), key
