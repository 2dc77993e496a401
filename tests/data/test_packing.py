import numpy as np
import pytest

from pretrain.data.masking import Masker, MaskingConfig
from pretrain.data.packing import CausalPacking, MaskedPacking, MicroBatch, PackedBlocks
from pretrain.data.seeding import Purpose
from pretrain.data.token_cache import TokenStream, fill_cache


@pytest.fixture
def gpt_stream(tmp_path, numbered_source, gpt_tokenizer):
    return TokenStream(fill_cache(tmp_path, numbered_source, gpt_tokenizer), "train")


@pytest.fixture
def bert_stream(tmp_path, numbered_source, bert_tokenizer):
    return TokenStream(fill_cache(tmp_path, numbered_source, bert_tokenizer), "train")


def masked_packing(tokenizer, seq_len, isolate=False):
    masker = Masker(
        MaskingConfig(),
        seq_len,
        mask_id=tokenizer.mask_id,
        special_ids=tokenizer.special_ids,
        vocab_size=tokenizer.vocab_size,
        seed=1,
        purpose=Purpose.VALIDATION_MASKS,
    )
    return MaskedPacking(seq_len, tokenizer.cls_id, tokenizer.pad_id, masker, isolate)


@pytest.mark.parametrize("seq_len", [2, 7, 16, 1000])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_every_token_but_the_first_is_a_causal_target_once(gpt_stream, seq_len, batch_size):
    blocks = PackedBlocks([gpt_stream], CausalPacking(seq_len, filler_id=0), batch_size)
    targets, inputs = [], []
    for number in range(len(blocks)):
        batch = blocks[number]
        assert batch["input_ids"].shape == batch["labels"].shape == (batch_size, seq_len)
        is_target = batch["labels"] != -100
        targets.append(batch["labels"][is_target])
        inputs.append(batch["input_ids"][is_target])
    assert np.concatenate(targets).tolist() == gpt_stream.ids[1:].tolist()
    assert np.concatenate(inputs).tolist() == gpt_stream.ids[:-1].tolist()


def test_an_end_token_that_is_also_the_padding_is_a_target(gpt_stream, gpt_tokenizer):
    blocks = PackedBlocks([gpt_stream], CausalPacking(50, filler_id=gpt_tokenizer.eos_id), 100)
    labels = blocks[0]["labels"]
    assert int((labels == gpt_tokenizer.eos_id).sum()) == gpt_stream.n_documents


@pytest.mark.parametrize("seq_len", [2, 7, 16])
def test_bytes_of_the_blocks_add_up_to_those_of_the_text(gpt_stream, seq_len):
    blocks = PackedBlocks([gpt_stream], CausalPacking(seq_len, filler_id=0), 3)
    total = sum(float(blocks[i]["n_bytes"]) for i in range(len(blocks)))
    assert total == pytest.approx(gpt_stream.n_bytes, rel=1e-12)


@pytest.mark.parametrize("seq_len", [2, 7, 16, 1000])
def test_masked_blocks_hold_every_token_once_behind_cls(bert_stream, bert_tokenizer, seq_len):
    blocks = PackedBlocks([bert_stream], masked_packing(bert_tokenizer, seq_len), 4)
    seen = []
    for number in range(len(blocks)):
        batch = blocks[number]
        original = batch["input_ids"].clone()
        is_target = batch["labels"] != -100
        original.view(-1)[batch["masked_positions"][is_target]] = batch["labels"][is_target]
        real = batch.get("attention_mask", np.ones_like(original, dtype=bool))
        for row, kept in zip(original.numpy(), np.asarray(real), strict=True):
            if kept.any():
                assert row[0] == bert_tokenizer.cls_id
                seen.append(row[kept][1:])
            assert (row[~kept] == bert_tokenizer.pad_id).all()
    assert np.concatenate(seen).tolist() == bert_stream.ids.tolist()


def test_a_full_masked_batch_has_no_attention_mask(bert_stream, bert_tokenizer):
    blocks = PackedBlocks([bert_stream], masked_packing(bert_tokenizer, 8), 2)
    assert "attention_mask" not in blocks[0]


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_an_empty_filler_row_has_no_target_and_changes_no_other(
    kind, gpt_stream, bert_stream, bert_tokenizer, tmp_path
):
    packing = CausalPacking(8, 0) if kind == "causal" else masked_packing(bert_tokenizer, 8)
    blocks = PackedBlocks([gpt_stream if kind == "causal" else bert_stream], packing, 2)
    both = blocks[MicroBatch(np.array([3, -1]), np.array([0, 0]))]
    alone = blocks[MicroBatch(np.array([3]), np.array([0]))]
    half = len(both["labels"]) // 2
    assert (both["labels"][half:] == -100).all()
    assert both["labels"][:half].equal(alone["labels"])
    assert both["input_ids"][:1].equal(alone["input_ids"])
    assert both["n_bytes"] == alone["n_bytes"]


def test_several_streams_are_numbered_one_after_the_other(tmp_path, list_source, gpt_tokenizer):
    words = [" ".join(f"w{i}" for i in range(start, start + 10)) for start in (0, 20)]
    streams = [
        TokenStream(fill_cache(tmp_path, list_source([("train", text)]), gpt_tokenizer), "train")
        for text in words
    ]
    joined = PackedBlocks(streams, CausalPacking(5, 0), 1)
    alone = [PackedBlocks([stream], CausalPacking(5, 0), 1) for stream in streams]
    assert [joined[i]["labels"].tolist() for i in range(4)] == [
        alone[k][i]["labels"].tolist() for k in range(2) for i in range(2)
    ]


def test_blocks_carry_their_position_as_a_plain_dictionary(gpt_stream):
    blocks = PackedBlocks([gpt_stream], CausalPacking(8, 0), 1)
    position = {"epoch": 1, "block": 2}
    batch = blocks[MicroBatch(np.array([0]), np.array([1]), position)]
    assert batch["position"] == position
    assert "position" not in blocks[0]


def documents_of(stream):
    """For every token of ``stream`` the number of its document, and whether it is the first."""
    numbers, opens, start = [], [], 0
    for number, end in enumerate(stream.borders.tolist()):
        numbers += [number] * (end - start)
        opens += [True] + [False] * (end - start - 1)
        start = end
    return numbers, opens


@pytest.mark.parametrize("seq_len", [2, 7, 16, 1000])
def test_isolated_causal_documents_are_told_apart_and_their_openings_are_no_targets(
    gpt_stream, seq_len
):
    numbers, opens = documents_of(gpt_stream)
    blocks = PackedBlocks([gpt_stream], CausalPacking(seq_len, 0, isolate=True), 3)
    plain = PackedBlocks([gpt_stream], CausalPacking(seq_len, 0), 3)
    place, n_bytes = 0, 0.0
    for number in range(len(blocks)):
        batch, together = blocks[number], plain[number]
        assert batch["input_ids"].equal(together["input_ids"])
        n_bytes += float(batch["n_bytes"])
        rows = zip(batch["document_ids"], batch["labels"], together["labels"], strict=True)
        for ids, labels, all_labels in rows:
            n_real = int((all_labels != -100).sum())
            held = numbers[place : place + n_real]
            assert ids[:n_real].tolist() == [n - held[0] for n in held] if held else True
            for i in range(n_real):
                is_opening = opens[place + i + 1]
                assert int(labels[i]) == (-100 if is_opening else int(all_labels[i]))
            place += n_real
    assert place == gpt_stream.n_tokens - 1
    ends = [0, *gpt_stream.byte_ends.tolist()]
    sizes = np.diff([0, *gpt_stream.borders.tolist()])
    openings = sum((b - a) / n for a, b, n in zip(ends[:-1], ends[1:], sizes, strict=True))
    assert n_bytes == pytest.approx(gpt_stream.n_bytes - openings, rel=1e-9)


@pytest.mark.parametrize("seq_len", [2, 7, 1000])
def test_cls_belongs_to_the_first_of_isolated_documents(bert_stream, bert_tokenizer, seq_len):
    numbers, _ = documents_of(bert_stream)
    blocks = PackedBlocks([bert_stream], masked_packing(bert_tokenizer, seq_len, isolate=True), 4)
    for number in range(len(blocks)):
        batch = blocks[number]
        real = batch.get("attention_mask", np.ones_like(batch["input_ids"], dtype=bool))
        for row, (ids, kept) in enumerate(zip(batch["document_ids"], real, strict=True)):
            start = (number * 4 + row) * (seq_len - 1)
            held = numbers[start : start + int(np.asarray(kept).sum()) - 1]
            if held:
                expected = [0, *(n - held[0] for n in held)]
                assert ids[: len(expected)].tolist() == expected


def test_rows_of_documents_that_are_not_isolated_carry_no_numbers(gpt_stream):
    assert "document_ids" not in PackedBlocks([gpt_stream], CausalPacking(8, 0), 2)[0]
