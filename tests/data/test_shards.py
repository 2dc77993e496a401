import itertools

import numpy as np
import pytest

from pretrain.data.packing import CausalPacking
from pretrain.data.shards import Shard, ShardPosition, StreamRules

TEXTS = [" ".join([f"w{i}"] * (1 + i % 7)) for i in range(40)]


def rules(**options):
    defaults = {"packing": CausalPacking(5, 0), "batch_size": 2, "seed": 3, "n_shards": 4}
    return StreamRules(**{**defaults, "window_documents": 8, **options})


def read(tokenizer, start=None, texts=TEXTS, number=1, epoch=0, **options):
    shard = Shard(number, tokenizer, rules(**options), epoch, start)
    for text in texts:
        shard.add(text)
    shard.finish()
    return list(iter(shard.micro_batch, None))


def targets(batches):
    return np.concatenate([b["labels"][b["labels"] != -100] for b in batches]).tolist()


def test_every_token_but_the_first_is_a_target_once(gpt_tokenizer):
    ids = [[*ids, gpt_tokenizer.end_id] for ids in gpt_tokenizer.encode_documents(TEXTS)]
    all_ids = list(itertools.chain.from_iterable(ids))
    assert targets(read(gpt_tokenizer, shuffle=False)) == all_ids[1:]
    shuffled = read(gpt_tokenizer)
    first = int(shuffled[0]["input_ids"][0, 0])
    assert sorted([first, *targets(shuffled)]) == sorted(all_ids)
    assert targets(shuffled) != all_ids[1:]


def test_documents_stay_in_their_window(gpt_tokenizer):
    batches = read(gpt_tokenizer)
    inputs = np.concatenate([b["input_ids"][b["labels"] != -100] for b in batches])
    words = [int(token) - 1 for token in inputs if token != gpt_tokenizer.end_id]
    order = [word for word, _ in itertools.groupby(words)]
    for start in range(0, 40, 8):
        assert sorted(order[start : start + 8]) == list(range(start, start + 8))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_goes_on_from_the_place_behind_any_micro_batch(gpt_tokenizer, shuffle, batch_size):
    options = {"shuffle": shuffle, "batch_size": batch_size}
    whole = read(gpt_tokenizer, **options)
    for cut, batch in enumerate(whole, start=1):
        place = ShardPosition(*batch["position"]["place"])
        rest = read(gpt_tokenizer, place, **options)
        assert [b["labels"].tolist() for b in rest] == [b["labels"].tolist() for b in whole[cut:]]
        assert [b["position"] for b in rest] == [b["position"] for b in whole[cut:]]


def test_windows_before_the_start_are_not_tokenized(gpt_tokenizer):
    class Counting:
        end_id, n_texts = gpt_tokenizer.end_id, 0

        def encode_documents(self, texts):
            self.n_texts += len(texts)
            return gpt_tokenizer.encode_documents(texts)

    counting = Counting()
    read(counting, ShardPosition(window=3, document=2, token=0, block=20))
    assert counting.n_texts == 40 - 3 * 8 - 2


def test_a_window_of_long_documents_ends_early(gpt_tokenizer):
    batches = read(gpt_tokenizer, window_characters=1, shuffle=True)
    in_order = read(gpt_tokenizer, shuffle=False)
    assert targets(batches) == targets(in_order)  # windows of one document cannot be shuffled


def test_order_changes_with_the_epoch_and_the_shard(gpt_tokenizer):
    plain = targets(read(gpt_tokenizer))
    assert targets(read(gpt_tokenizer)) == plain
    assert targets(read(gpt_tokenizer, epoch=1)) != plain
    assert targets(read(gpt_tokenizer, number=2)) != plain


def test_bytes_add_up(gpt_tokenizer):
    batches = read(gpt_tokenizer)
    total = sum(float(batch["n_bytes"]) for batch in batches)
    assert total == pytest.approx(sum(len(text) for text in TEXTS))


def test_a_shard_without_documents_is_dry(gpt_tokenizer):
    assert read(gpt_tokenizer, texts=[]) == []
